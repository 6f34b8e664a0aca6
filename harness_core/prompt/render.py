"""Rendering: pure functions from an assembly to text, with one strict grammar of references.

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
from collections.abc import Mapping, Sequence
from typing import Protocol

from ..errors import (
    ContributionError,
    MalformedReferenceError,
    MissingVariableError,
    UnknownVariableError,
)
from .model import PromptAssembly

__all__ = [
    "SNAPSHOT_PREAMBLE",
    "Template",
    "interpolate",
    "list_references",
    "parse",
    "render_context_sections",
    "render_context_snapshot",
    "render_prompt",
]

SNAPSHOT_PREAMBLE = (
    "Current runtime context. This snapshot supersedes earlier runtime-context snapshots."
)

_GROUP = re.compile(r"\{\{([^{}]*)\}\}")
_NAME = re.compile(r"[a-z][a-z0-9_]*")


class NamedText(Protocol):
    """A section or a context, as far as rendering cares."""

    name: str
    text: str
    literal: bool


class Template:
    """A text, split once: prose and references in turn, and where it is malformed."""

    __slots__ = ("fault", "pieces", "text")

    def __init__(self, text: str, pieces: tuple[str, ...], fault: tuple[int, str] | None) -> None:
        self.text = text
        self.pieces = pieces
        """Prose, name, prose, name, ..., prose: an odd number, references at odd places."""
        self.fault = fault
        """Offset and text of the first malformed reference; the pieces end before it."""

    def offset_of(self, index: int) -> int:
        """Return where the reference at an odd index of `pieces` begins."""
        return sum(len(piece) + 4 * (at % 2) for at, piece in enumerate(self.pieces[:index]))


def parse(text: str) -> Template:
    """Split a text at its references. Never raises: a fault is recorded, and ends the split."""
    pieces: list[str] = []
    last_close = text.rfind("}}")
    start = 0
    at = text.find("{{")
    fault: tuple[int, str] | None = None
    while at != -1 and at + 2 <= last_close:
        group = _GROUP.match(text, at)
        if group is None or not _NAME.fullmatch(group[1]):
            close = text.find("}}", at + 2)
            fault = at, text[at : close + 2] if close - at < 60 else text[at : at + 60] + "..."
            break
        pieces += text[start:at], group[1]
        start = group.end()
        at = text.find("{{", start)
    pieces.append(text[start:] if fault is None else text[start : fault[0]])
    return Template(text, tuple(pieces), fault)


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
        if len(pieces) == 1:
            return template.text
        try:
            if len(pieces) == 3:
                return pieces[0] + variables[pieces[1]] + pieces[2]  # type: ignore[operator]
            filled = list(pieces)
            filled[1::2] = [variables[piece] for piece in pieces[1::2]]  # type: ignore[misc]
            return "".join(filled)
        except (KeyError, TypeError):
            pass  # the exact path below finds which one it is
    return _interpolate_exactly(template, variables, kind, name)


def _interpolate_exactly(
    template: Template, variables: Mapping[str, str | None], kind: str, name: str
) -> str:
    filled = list(template.pieces)
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


def render_text(item: NamedText, variables: Mapping[str, str | None], kind: str) -> str:
    """Return the final text of one section or context."""
    text = item.text
    if item.literal:
        return text
    # An untouched static text was split when it was registered.
    source = getattr(item, "_source", None)
    if source is not None and source.text is text:
        template = source.template
        if template is None:
            template = source.template = parse(text)
    elif "{{" not in text:
        return text
    else:
        template = parse(text)
    return interpolate(template, variables, kind, item.name)


def _rendered(
    items: Sequence[NamedText], variables: Mapping[str, str | None], kind: str
) -> list[tuple[str, str]]:
    texts = [(item.name, render_text(item, variables, kind)) for item in items]
    return [pair for pair in texts if pair[1]]


def render_prompt(assembly: PromptAssembly) -> str:
    """Return the system prompt: every section interpolated, empty ones dropped, joined.

    Raises a PromptRenderError that names the section, and the place in it.
    """
    variables = assembly.variables
    texts = [render_text(section, variables, "section") for section in assembly.sections]
    return "\n\n".join(filter(None, texts))


def render_context_sections(assembly: PromptAssembly) -> list[tuple[str, str]]:
    """Return name and text of every context that is not empty."""
    return _rendered(assembly.contexts, assembly.variables, "context")


def render_context_snapshot(assembly: PromptAssembly) -> str:
    """Return the runtime-context snapshot, or the empty string where there is no context."""
    if not assembly.contexts:
        return ""
    texts = [text for _, text in render_context_sections(assembly)]
    return "\n\n".join([SNAPSHOT_PREAMBLE, *texts]) if texts else ""
