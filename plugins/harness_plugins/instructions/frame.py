"""Putting instruction files into frames that no text can close."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from harness_plugins.workspace.api import one_line

from .collect import Instructions

__all__ = ["render"]

_LONGEST_PATH = 1000

_OPENERS = re.compile("[<\uff1c\ufe64]")
"""Characters that a tag may seem to begin with."""

_TAG = re.compile(r" ?[/\u2044\u2215]? ?instructions(?!\w)", re.IGNORECASE)
_LOOKED_AT = 40
"""Visible characters after an opener that decide whether it is a frame's."""

_FILLERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0")
"""Characters that cannot be seen though their category does not say so; and see `_is_unseen`."""


def render(files: Sequence[Instructions]) -> str:
    """Return the text: frames, the most specific last, then the notices."""
    frames = [_framed(file) for file in files if file.text]
    notices = [notice for file in files for notice in _notices(file)]
    return "\n\n".join([*frames, *(["\n".join(notices)] if notices else [])])


def _framed(file: Instructions) -> str:
    text = guarded(file.text)
    also = f' also="{_quoted(", ".join(file.also))}"' if file.also else ""
    return f'<instructions path="{_quoted(file.path)}"{also}>\n{text}\n</instructions>'


def _notices(file: Instructions) -> list[str]:
    path = _quoted(file.path)
    notices: list[str] = []
    if file.problem:
        before = "; what is given here is what it said before" if file.size else ""
        notices.append(f"[{path} could not be read: {guarded(file.problem)}{before}]")
    if file.missing and file.missing == file.size:
        notices.append(f"[{path} was left out, all {file.size} bytes: the size budget is used up]")
    elif file.missing:
        notices.append(
            f"[{path} was cut: {file.missing} of {file.size} bytes are left out by the size budget]"
        )
    return notices


def _quoted(path: str) -> str:
    safe = one_line(path, _LONGEST_PATH).replace("&", "&amp;").replace('"', "&quot;")
    return guarded(safe.replace("<", "&lt;"))


def guarded(text: str) -> str:
    """Return a text in which nothing opens or closes a frame, or looks to a reader as if it did.

    Letters of other alphabets that look the same are left: they are no tag to anybody who reads
    characters, and a reader who sees pictures sees the frame around as well.
    """

    def guard(match: re.Match[str]) -> str:
        return "&lt;" if _TAG.match(_seen(text, match.end())) else match.group()

    return _OPENERS.sub(guard, text)


def _seen(text: str, start: int) -> str:
    """Return what a reader sees from `start` on: plain forms of letters, one blank for any."""
    seen: list[str] = []
    for at in range(start, len(text)):
        character = text[at]
        if character.isspace():
            if seen[-1:] != [" "]:
                seen.append(" ")
        elif not _is_unseen(character):
            seen.append(character)
            if len(seen) >= _LOOKED_AT:
                break
    return unicodedata.normalize("NFKC", "".join(seen))


def _is_unseen(character: str) -> bool:
    """Control and format characters, variation selectors, fillers."""
    return (
        unicodedata.category(character) in ("Cc", "Cf")
        or "\ufe00" <= character <= "\ufe0f"
        or "\U000e0100" <= character <= "\U000e01ef"
        or character in _FILLERS
    )
