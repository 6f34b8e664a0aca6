"""An assembled request as plain data: what `harness prompt --json` prints."""

from __future__ import annotations

from typing import Any

from ..loader import is_plugin_code, shown_path
from ..prompt import (
    Explained,
    Origin,
    PromptAssembly,
    render_context_sections,
    render_context_snapshot,
    render_prompt,
)

__all__ = ["GLOBAL", "describe_origin", "describe_scope", "render_part", "scope_name", "written_at"]


GLOBAL = "global"
"""How the layer is called that no scope has."""


def scope_name(key: object | None) -> str:
    """Return how a scope is called: its key's `name`, else the key as text."""
    return GLOBAL if key is None else str(getattr(key, "name", key))


def render_part(kind: str, item: Any, variables: dict[str, str | None]) -> str:
    """Return the final text of one section or context; raise what rendering raises."""
    if kind == "section":
        return render_prompt(PromptAssembly(sections=[item], variables=variables))
    parts = render_context_sections(PromptAssembly(contexts=[item], variables=variables))
    return parts[0][1] if parts else ""


def describe_scope(assembly: PromptAssembly) -> dict[str, Any]:
    """Return a scope's request. Raises a PromptRenderError where rendering does."""
    return {
        "system": render_prompt(assembly),
        "snapshot": render_context_snapshot(assembly),
        "tools": [
            {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
            }
            for tool in assembly.tools
        ],
        "explain": [_describe(one) for one in assembly.explain()],
    }


def _describe(one: Explained) -> dict[str, Any]:
    return {
        "kind": one.kind,
        "name": one.name,
        "status": one.status,
        "reason": one.reason,
        **describe_origin(one.origin),
    }


def written_at(file: str, line: int) -> str | None:
    """Return `file:line` of a registration, or None where it is not a plugin's own code."""
    return f"{shown_path(file)}:{line}" if is_plugin_code(file) else None


def describe_origin(origin: Origin | None) -> dict[str, Any]:
    """Return an origin as plain data; every value is None for what a listener added."""
    if origin is None:
        return dict.fromkeys(("plugin", "fiber", "scope", "order", "file", "line", "seconds")) | {
            "shadows": []
        }
    is_theirs = is_plugin_code(origin.file)
    return {
        "plugin": origin.plugin,
        "fiber": origin.fiber,
        "scope": scope_name(origin.scope),
        "order": origin.order,
        "file": shown_path(origin.file) if is_theirs else None,
        "line": origin.line if is_theirs else None,
        "seconds": origin.seconds,
        "shadows": [describe_origin(one) for one in origin.shadows],
    }
