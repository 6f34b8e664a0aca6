"""What a scope sees: the one function behind schemas, lookup, execution and `requires_tools`.

A layer's restrictions filter what comes from above it; then its own tools stand in front. Read
from the global layer down to the scope, that is what the scope can call. How it is presented, by
the nearest layer that says so, decides what the model calls itself and what code calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import is_
from typing import TYPE_CHECKING

from harness_core.prompt import ToolProviderResult, ToolSchema

from .presentation import Mode, Presentation, PresentationError

if TYPE_CHECKING:
    from .entries import PresentationEntry, RestrictionEntry, ToolEntry
    from .layers import Layer
    from .model import Tool, ToolCall

__all__ = ["View", "in_order"]

_NO_ENTRIES: Mapping[str, ToolEntry] = {}


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Return names by UTF-16 code units, as the prompt orders tools."""
    return tuple(sorted(names, key=lambda name: name.encode("utf-16-be", "surrogatepass")))


def passes(entry: ToolEntry, restrictions: list[RestrictionEntry]) -> bool:
    """Whether an inherited tool passes. What runs code is no tool to allow: only `deny` bars it."""
    if entry.tool.runs_code:
        return all(entry.name not in one.deny for one in restrictions)
    return all(one.lets(entry.name) for one in restrictions)


class View:
    """What the scopes with these layers on their chain can call, and how.

    `direct` is what the model calls itself, `inner` what code calls, `visible` either; all by
    name, in the order of the prompt.
    """

    __slots__ = (
        *("_layers", "_result", "direct", "inner", "known", "mode", "presented", "runner"),
        "shown",
    )

    def __init__(self, layers: list[Layer]) -> None:
        self._layers = layers
        self._result: ToolProviderResult | None = None
        self.shown: tuple[ToolSchema, ...] | None = None
        """The schemas of `direct`, once somebody has asked for them."""
        found: dict[str, ToolEntry] = {}
        known: set[str] = set()
        self.presented: PresentationEntry | None = None
        """Who said how the tools are presented."""
        for layer in layers:
            restrictions = layer.restrictions()
            if restrictions:
                found = {name: one for name, one in found.items() if passes(one, restrictions)}
            for entry in layer.tools():
                found.pop(entry.name, None)  # so that the nearest stands last
                found[entry.name] = entry
                known.add(entry.name)
            self.presented = layer.presentation() or self.presented
        self.known = in_order(known)
        """Every name before restriction."""
        self.mode: Mode = self.presented.mode if self.presented is not None else "native"
        runners = [entry for entry in found.values() if entry.tool.runs_code]
        self.runner = runners[-1] if runners and self.mode != "native" else None
        """The tool that runs code here: the nearest."""
        native = {name: found[name] for name in in_order(found) if not found[name].tool.runs_code}
        self.inner = native if self.runner is not None else _NO_ENTRIES
        direct = dict(native) if self.mode != "code" else {}
        if self.runner is not None:
            direct[self.runner.name] = self.runner
        self.direct: Mapping[str, ToolEntry] = {name: direct[name] for name in in_order(direct)}

    @property
    def visible(self) -> dict[str, ToolEntry]:
        """All that can be called, in one way or the other."""
        both = {**self.inner, **self.direct}
        return {name: both[name] for name in in_order(both)}

    def find(self, name: str, via: ToolCall | None) -> ToolEntry | None:
        """Return what a call runs: one of the model's, or one of the code that `via` runs."""
        if via is None:
            return self.direct.get(name)
        return self.callable_via(via).get(name)

    def callable_via(self, via: ToolCall | None) -> Mapping[str, ToolEntry]:
        """Return what a call of the model's, or of the code that `via` runs, may name."""
        if via is None:
            return self.direct
        runner = self.runner
        return self.inner if runner is not None and via.tool is runner.tool else _NO_ENTRIES

    def is_indirect(self, name: str) -> bool:
        """Whether a tool can be called by code and not by the model itself."""
        return name in self.inner and name not in self.direct

    @property
    def code_tools(self) -> dict[str, Tool]:
        """The tools that code calls."""
        return {name: entry.tool for name, entry in self.inner.items()}

    def presentation(self, scope: object | None) -> Presentation:
        """Return how the tools are presented to a scope that has this view."""
        origin = self.presented.origin() if self.presented is not None else None
        runner = self.runner.name if self.runner is not None else None
        return Presentation(self.mode, scope, runner, origin)

    def result(self, scope: object | None) -> ToolProviderResult:
        """Return what the prompt is given: the same object while nothing changes.

        Raises PresentationError where code is to be run and nothing runs it.
        """
        if self._result is None:
            through = {self.runner.name: tuple(self.inner)} if self.runner is not None else {}
            self._result = ToolProviderResult(self.show(scope), self.known, through)
        return self._result

    def show(self, scope: object | None) -> tuple[ToolSchema, ...]:
        """Return the schemas that the model is shown, or raise PresentationError."""
        if self.mode != "native" and self.runner is None:
            raise PresentationError(self.presentation(scope))
        self.shown = tuple(entry.schema for entry in self.direct.values())
        return self.shown

    def is_of(self, layers: list[Layer]) -> bool:
        """Whether it was made from these layers. A change of one of them drops it."""
        return len(layers) == len(self._layers) and all(map(is_, layers, self._layers))
