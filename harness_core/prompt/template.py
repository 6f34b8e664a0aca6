"""The grammar of references in texts, shared by rendering and by `list_references`.

    reference  = "{{" name "}}"          name = [a-z][a-z0-9_]*
    malformed  = a complete group with anything else inside, or a "{{" that opens no group while
                 a "}}" still follows
    prose      = everything else, a "{{" without any later "}}" and a stray "}}" among it

Single braces mean nothing, values are never scanned, and there is no escape: text that is data is
registered with `literal=True`. Everything here is linear in the size of the text.
Contract: section 6.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from ..errors import (
    ContributionError,
    MalformedReferenceError,
    MissingVariableError,
    UnknownVariableError,
)

__all__ = ["Template", "interpolate", "list_references", "parse"]

_REFERENCE = re.compile(r"\{\{([a-z][a-z0-9_]*)\}\}")
_GROUP = re.compile(r"\{\{([^{}]*)\}\}")
_NAME = re.compile(r"[a-z][a-z0-9_]*")

QUOTED_FAULT = 60
"""How much of a malformed reference a message shows, in characters."""


class Template:
    """A text, split once: prose and references in turn, and where it is malformed."""

    __slots__ = ("fault", "pieces", "text")

    def __init__(self, text: str, pieces: list[str], fault: tuple[int, str] | None = None) -> None:
        self.text = text
        self.pieces = pieces
        """Prose, name, prose, name, ..., prose: an odd number, references at odd places."""
        self.fault = fault
        """Offset and text of the first malformed reference; the pieces end before it."""

    def offset_of(self, index: int) -> int:
        """Return where the reference at an odd index of `pieces` begins."""
        return sum(len(piece) + 4 * (at % 2) for at, piece in enumerate(self.pieces[:index]))


CACHED_LENGTH = 4096
"""The longest text, in characters, whose split is kept; for longer ones the scan is cheap enough
beside everything else that is done with them."""


def parse(text: str) -> Template:
    """Split a text at its references. Never raises: a fault is recorded, and ends the split."""
    return _parse_once(text) if len(text) <= CACHED_LENGTH else _parse(text)


def _parse(text: str) -> Template:
    pieces = _REFERENCE.split(text)
    # Every "{{" opened a reference, and none was preceded by a brace that makes it "{{{": the
    # expression has found what the grammar finds. Otherwise look at each one.
    if text.count("{{") == len(pieces) // 2 and not any(
        piece.endswith("{") for piece in pieces[:-1:2]
    ):
        return Template(text, pieces)
    return _parse_exactly(text)


_parse_once = lru_cache(maxsize=1024)(_parse)
"""Texts come back at each step, whether fixed or from a provider with nothing new to say."""


def _parse_exactly(text: str) -> Template:
    pieces: list[str] = []
    last_close = text.rfind("}}")
    start = 0
    at = text.find("{{")
    fault: tuple[int, str] | None = None
    while at != -1 and at + 2 <= last_close:
        group = _GROUP.match(text, at)
        if group is None or not _NAME.fullmatch(group[1]):
            end = text.find("}}", at + 2) + 2
            cut = min(end, at + QUOTED_FAULT)
            fault = at, text[at:cut] + ("..." if cut < end else "")
            break
        pieces += text[start:at], group[1]
        start = group.end()
        at = text.find("{{", start)
    pieces.append(text[start:] if fault is None else text[start : fault[0]])
    return Template(text, pieces, fault)


def list_references(text: str) -> list[str]:
    """Return the names that a text refers to, each once, in order of appearance.

    A malformed reference ends the list, as it would end rendering.
    """
    return list(dict.fromkeys(parse(text).pieces[1::2]))


def interpolate(
    template: Template, variables: Mapping[str, str | None], kind: str, name: str
) -> str:
    """Return the text with its references replaced.

    Raises the error of the leftmost reference that cannot be: UnknownVariableError,
    MissingVariableError or MalformedReferenceError.
    """
    pieces = template.pieces
    if template.fault is None:
        try:
            if len(pieces) == 3:
                return pieces[0] + variables[pieces[1]] + pieces[2]  # type: ignore[operator]
            filled = pieces[:]
            filled[1::2] = [variables[piece] for piece in pieces[1::2]]  # type: ignore[misc]
            return "".join(filled)
        except (KeyError, TypeError):
            pass  # the exact path below finds which one it is
    return _interpolate_exactly(template, variables, kind, name)


def _interpolate_exactly(
    template: Template, variables: Mapping[str, str | None], kind: str, name: str
) -> str:
    filled = template.pieces[:]
    for index in range(1, len(filled), 2):
        reference = filled[index]
        if reference not in variables:
            unknown = UnknownVariableError(reference, kind, name, list(variables))
            raise unknown.at(template.text, template.offset_of(index))
        value = variables[reference]
        if value is None:
            missing = MissingVariableError(reference, kind, name)
            raise missing.at(template.text, template.offset_of(index))
        if not isinstance(value, str):
            raise ContributionError(
                f'prompt variable "{reference}" is {value!r} ({type(value).__name__}): expected '
                "str or None"
            )
        filled[index] = value
    if template.fault is not None:
        offset, reference = template.fault
        raise MalformedReferenceError(reference, kind, name).at(template.text, offset)
    return "".join(filled)
