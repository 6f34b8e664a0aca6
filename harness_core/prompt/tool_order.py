"""In which order tools stand: by name, or as the deployment says. Contract: section 5, "Tools"."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..errors import ToolOrderError
from .tool import ToolSchema

__all__ = ["TOOL_ORDER_REST", "by_code_units", "check_tool_order", "order_tools"]

TOOL_ORDER_REST = "<unlisted-tools>"
"""Marks, in `tool_order`, where the tools stand that the list does not name."""


def by_code_units(name: str) -> str | bytes:
    """Return the key that sorts names by UTF-16 code units, the same on every machine."""
    return name.encode("utf-16-be", "surrogatepass")


def check_tool_order(order: Sequence[str] | None) -> None:
    """Raise ToolOrderError unless the rest marker is there once and no name twice."""
    if order is None:
        return
    seen: set[str] = set()
    for name in order:
        if name in seen:
            raise ToolOrderError([name], rule="tool-order-duplicate")
        seen.add(name)
    if TOOL_ORDER_REST not in seen:
        raise ToolOrderError([], rule="tool-order-without-rest", rest=TOOL_ORDER_REST)


def order_tools(
    tools: Iterable[ToolSchema], known: Iterable[str], order: Sequence[str] | None
) -> list[ToolSchema]:
    """Return the tools in order; `known` is what `order` may name.

    Raises ToolOrderError for a tool with the reserved name, and for names that nobody knows.
    """
    listed = list(tools)
    if any(tool.name == TOOL_ORDER_REST for tool in listed):
        raise ToolOrderError([TOOL_ORDER_REST], rule="reserved-tool-name")
    by_name = sorted(listed, key=lambda tool: by_code_units(tool.name))
    if order is None:
        return by_name
    names = set(known)
    unknown = [name for name in order if name not in names and name != TOOL_ORDER_REST]
    if unknown:
        raise ToolOrderError(unknown, sorted(names, key=by_code_units))
    groups: dict[str, list[ToolSchema]] = {name: [] for name in order}
    rest = groups[TOOL_ORDER_REST]
    for tool in by_name:
        groups.get(tool.name, rest).append(tool)
    return [tool for group in groups.values() for tool in group]
