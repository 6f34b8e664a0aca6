"""When a runtime-context snapshot is written: only when it says something that is not visible.

Decided from history alone, so a resumed session decides as the first process would have.
"""

from __future__ import annotations

from typing import Any

from harness_core.prompt import PromptAssembly, render_context_sections, render_context_snapshot

from .events import Draft
from .history import History

__all__ = ["snapshot_of"]


def snapshot_of(assembly: PromptAssembly, history: History) -> Draft | None:
    """Return the snapshot that has to be written before the next request, or None.

    None if the last visible snapshot says the same, and if there is no runtime context and none
    was visible. When all contexts have gone, one snapshot with an empty text says so. Raises what
    rendering raises.
    """
    text = render_context_snapshot(assembly)
    if text == (history.snapshot or ""):
        return None
    return Draft("snapshot", {"text": text, "sources": _sources(assembly)})


def _sources(assembly: PromptAssembly) -> list[dict[str, Any]]:
    """Name the contributor of each context that has a text."""
    shown = {name for name, _ in render_context_sections(assembly)}
    sources: list[dict[str, Any]] = []
    for context in assembly.contexts:
        if context.name in shown:
            origin = context.origin
            plugin = origin.plugin if origin is not None else None
            sources.append({"name": context.name, "plugin": plugin})
    return sources
