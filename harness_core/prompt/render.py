"""Rendering: pure functions from an assembly to text. Contract: section 6."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from ..errors import PromptRenderError
from .model import PromptAssembly
from .template import interpolate, parse

__all__ = [
    "SNAPSHOT_PREAMBLE",
    "render_context_sections",
    "render_context_snapshot",
    "render_prompt",
]

SNAPSHOT_PREAMBLE = (
    "Current runtime context. This snapshot supersedes earlier runtime-context snapshots."
)


class NamedText(Protocol):
    """A section or a context, as far as rendering cares."""

    name: str
    text: str
    literal: bool


def render_prompt(assembly: PromptAssembly) -> str:
    """Return the system prompt: every section interpolated, empty ones dropped, joined.

    Raises a PromptRenderError that names the section, and the place in it.
    """
    untouched = assembly.untouched_sections
    if untouched is not None:
        texts = untouched.rendered(assembly.variables, "section")
    else:
        texts = _rendered(assembly.sections, assembly.variables, "section")
    return "\n\n".join(filter(None, texts))


def render_context_sections(assembly: PromptAssembly) -> list[tuple[str, str]]:
    """Return name and text of every context that is not empty."""
    texts = _rendered(assembly.contexts, assembly.variables, "context")
    return [(item.name, text) for item, text in zip(assembly.contexts, texts, strict=True) if text]


def render_context_snapshot(assembly: PromptAssembly) -> str:
    """Return the runtime-context snapshot, or the empty string where there is no context."""
    untouched = assembly.untouched_contexts
    if untouched is not None:
        texts = untouched.rendered(assembly.variables, "context")
    else:
        texts = _rendered(assembly.contexts, assembly.variables, "context")
    body = "\n\n".join(filter(None, texts))
    return f"{SNAPSHOT_PREAMBLE}\n\n{body}" if body else ""


def _rendered(
    items: Sequence[NamedText], variables: Mapping[str, str | None], kind: str
) -> list[str]:
    texts: list[str] = []
    for item in items:
        text = item.text
        if not item.literal and "{{" in text:
            template = parse(text)
            pieces = template.pieces
            if len(pieces) == 3 and template.fault is None:
                # One reference, with a value: most texts that have any.
                value = variables.get(pieces[1])
                if isinstance(value, str):
                    texts.append(f"{pieces[0]}{value}{pieces[2]}")
                    continue
            try:
                text = interpolate(template, variables, kind, item.name)
            except PromptRenderError as error:
                error.add_note(f"{kind} from {getattr(item, 'origin', None) or 'a listener'}")
                raise
        texts.append(text)
    return texts
