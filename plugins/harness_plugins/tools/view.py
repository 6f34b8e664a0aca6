"""What a scope sees: the one function behind schemas, lookup, execution and `requires_tools`.

A layer's restrictions filter what comes from above it; then its own tools stand in front. Read
from the global layer down to the scope, that is the whole rule.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import is_
from typing import TYPE_CHECKING

from harness_core.errors import closest, safe_repr
from harness_core.prompt import Origin, ToolProviderResult

from .model import Visibility

if TYPE_CHECKING:
    from .layers import Layer, RestrictionEntry, ToolEntry

__all__ = ["View", "explain", "in_order"]


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Return names by UTF-16 code units, as the prompt orders tools."""
    return tuple(sorted(names, key=lambda name: name.encode("utf-16-be", "surrogatepass")))


class View:
    """The tools that the scopes with these layers on their chain can see."""

    __slots__ = ("_layers", "result", "visible")

    def __init__(self, layers: list[Layer]) -> None:
        self._layers = layers
        visible: dict[str, ToolEntry] = {}
        known: set[str] = set()
        for layer in layers:
            restrictions = layer.restrictions()
            if restrictions:
                visible = {
                    name: entry
                    for name, entry in visible.items()
                    if all(one.lets(name) for one in restrictions)
                }
            for entry in layer.tools():
                visible[entry.name] = entry
                known.add(entry.name)
        self.visible = {name: visible[name] for name in in_order(visible)}
        """By name, in the order of the prompt."""
        schemas = tuple(entry.schema for entry in self.visible.values())
        self.result = ToolProviderResult(schemas, in_order(known))
        """For the prompt: the schemas, and every name before restriction."""

    def is_of(self, layers: list[Layer]) -> bool:
        """Whether it was made from these layers. A change of one of them drops it."""
        return len(layers) == len(self._layers) and all(map(is_, layers, self._layers))

    @property
    def known(self) -> tuple[str, ...]:
        """Every name before restriction."""
        return tuple(self.result.known_names or ())


def explain(name: str, scope: object | None, layers: list[Layer]) -> Visibility:
    """Return why a scope that has these layers on its chain sees a name, or does not."""
    found: list[ToolEntry] = []
    hidden_by: list[RestrictionEntry] = []
    for layer in layers:
        if found:
            hidden_by += [one for one in layer.restrictions() if not one.lets(name)]
        own = layer.tool(name)
        if own is not None:
            found.append(own)
            hidden_by = []
    where = "the global layer" if scope is None else f"scope {safe_repr(scope)}"
    if not found:
        known = in_order({entry.name for layer in layers for entry in layer.tools()})
        guess = closest(name, known)
        hint = f'; did you mean "{guess}"?' if guess else ""
        reason = (
            f'no tool "{name}" is registered on the chain of {where}; '
            f"known: {', '.join(known) or '(none)'}{hint}"
        )
        return Visibility(name, scope, False, reason)
    nearest, *behind = [entry.origin() for entry in reversed(found)]
    restrictions = tuple(one.origin() for one in hidden_by)
    if restrictions:
        by = "; ".join(f"{one.name} by {one}{_in(one)}" for one in restrictions)
        reason = f'tool "{name}" of {nearest} is hidden from {where}: {by}'
    else:
        shadows = f", in front of {', '.join(map(str, behind))}" if behind else ""
        reason = f'tool "{name}" of {nearest}{_in(nearest)} is visible in {where}{shadows}'
    return Visibility(name, scope, not restrictions, reason, nearest, tuple(behind), restrictions)


def _in(origin: Origin) -> str:
    return "" if origin.scope is None else f" in scope {safe_repr(origin.scope)}"
