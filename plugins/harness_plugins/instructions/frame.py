"""Putting instruction files into frames that no text can close."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .collect import Instructions

__all__ = ["render"]

_FRAME = re.compile(r"<(?=\s*/?\s*instructions\b)", re.IGNORECASE)


def render(files: Sequence[Instructions]) -> str:
    """Return the section's text: frames, the most specific last, then the notices."""
    frames = [_framed(file) for file in files if file.text]
    notices = [notice for file in files if (notice := _notice(file))]
    return "\n\n".join([*frames, *(["\n".join(notices)] if notices else [])])


def _framed(file: Instructions) -> str:
    text = _FRAME.sub("&lt;", file.text)
    return f'<instructions path="{_quoted(file.path)}">\n{text}\n</instructions>'


def _notice(file: Instructions) -> str:
    path = _quoted(file.path)
    if file.problem:
        return f"[{path} could not be read: {file.problem}]"
    if not file.missing:
        return ""
    if file.missing == file.size:
        return f"[{path} was left out, all {file.size} bytes: the size budget is used up]"
    return f"[{path} was cut: {file.missing} of {file.size} bytes are left out by the size budget]"


def _quoted(path: str) -> str:
    safe = "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in path
    )
    return safe.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
