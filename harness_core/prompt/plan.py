"""Plans: what takes part in a scope's assembly, in which order, and what stands behind it.

A plan changes only when a layer on the scope's chain changes or a link of the chain is moved, so
it is kept until then. It is frozen: an assembly that holds one works on the registry as it stood
(law L7). Contract: section 5, "Order of work", "Shadowing", "Complete".
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
from types import MethodType
from typing import Any

from ..kernel.context import Context
from ..kernel.effects import Effect, Site
from ..scopes.keys import chain_tags, epoch
from ..scopes.layers import NamedEntries, ScopedLayers
from .entries import Entry
from .origin import Origin
from .texts import TextPlan

__all__ = ["Plan", "PromptLayers"]

Layer = NamedEntries[tuple[str, Any], Entry]


class Shadowing:
    """An entry as the source of an assembled part, with the entries it stands in front of."""

    __slots__ = ("behind", "entry")

    def __init__(self, entry: Entry, behind: tuple[Entry, ...]) -> None:
        self.entry = entry
        self.behind = behind

    def origin(self, seconds: float | None = None) -> Origin:
        """Return where the entry was registered, and what it shadows."""
        return self.entry.origin(seconds, self.behind)


class Plan:
    """The effective entries of one chain."""

    __slots__ = (
        "all_variables",
        "chain",
        "checks",
        "complete",
        "contexts",
        "epoch",
        "fixed_variables",
        "hidden_contexts",
        "key",
        "memo",
        "needs_tools",
        "pairs",
        "sections",
        "shadowed",
        "sources",
        "suppressed",
        "suppressors",
        "tools",
        "variable_providers",
    )

    def __init__(self, layers: list[Layer]) -> None:
        merged: dict[tuple[str, Any], Entry] = {}
        shadowed: dict[Entry, list[Entry]] = {}
        for layer in layers:
            for key, entry in layer.items():
                behind = merged.get(key)
                if behind is not None:
                    shadowed[entry] = [behind, *shadowed.pop(behind, [])]
                merged[key] = entry
        self.shadowed = shadowed
        """For an entry that stands in front of others: those, nearest first."""
        self.sources: dict[Entry, Shadowing] = {
            entry: Shadowing(entry, tuple(behind)) for entry, behind in shadowed.items()
        }
        by_kind: dict[str, list[Entry]] = {}
        for entry in merged.values():
            by_kind.setdefault(entry.kind, []).append(entry)
        sections = sorted(by_kind.get("section", ()), key=_order)
        contexts = sorted(by_kind.get("context", ()), key=_order)
        variables = self.all_variables = by_kind.get("variable", [])
        self.variable_providers = [entry for entry in variables if entry.provider is not None]
        self.fixed_variables: dict[str, str | None] = {v.name: v.text for v in variables}
        self.tools = by_kind.get("tools", [])
        self.checks = by_kind.get("check", [])
        self.pairs = by_kind.get("pair", [])
        """Sections, by name, and the one tool that each belongs to."""
        self.suppressors = by_kind.get("suppressor", [])
        self.suppressed: frozenset[str] | None = _suppressed(self.suppressors)
        """The names of suppressed contexts; None for all of them."""
        self.complete = [entry for entry in sections if entry.complete]
        self.sections = TextPlan(sections, self.source_of)
        self.contexts = TextPlan(
            [entry for entry in contexts if not self.suppresses(entry.name)], self.source_of
        )
        self.hidden_contexts = [entry for entry in contexts if self.suppresses(entry.name)]
        """What is suppressed; its providers are never called."""
        self.needs_tools = self.sections.needs_tools | self.contexts.needs_tools
        self.chain: list[int] = []
        self.epoch = -1
        self.key: object | None = None
        self.memo: Any = None
        """What the assembler keeps between assemblies: tools it has ordered already."""

    def source_of(self, entry: Entry) -> Entry | Shadowing:
        """Return what an assembled part names as its source."""
        return self.sources.get(entry, entry) if self.sources else entry

    def suppresses(self, name: str) -> bool:
        """Whether a context of this name is left out."""
        return self.suppressed is None or name in self.suppressed


def _order(entry: Entry) -> float:
    assert entry.order is not None
    return entry.order


def _suppressed(suppressors: list[Entry]) -> frozenset[str] | None:
    names: set[str] = set()
    for entry in suppressors:
        if not entry.requires_tools:  # a suppressor without names
            return None
        names.update(entry.requires_tools)
    return frozenset(names)


HELD_PLANS = 256
"""How many plans are kept for keys that cannot be weakly referenced, such as strings."""


class PromptLayers(ScopedLayers[Layer]):
    """The storage of one prompt registry, and the plans made from it."""

    def __init__(
        self, create: Callable[[object | None], Layer], changed: Callable[[], object]
    ) -> None:
        super().__init__(create)
        self._tell = changed
        self._removal = self._remove
        """Bound to an entry, it is the undo of that entry, at a third of the size of a partial."""
        self._plans: dict[int, Plan] = {}
        self._built_on: dict[int, set[int]] = {}
        """For the identity of a key: the plans whose chain it is on."""
        self._watched: dict[int, weakref.ref[object]] = {}
        self.when_empty: Callable[[], object] | None = None
        """Set while no service uses the layers: called when the last entry goes."""
        self._held: deque[int] = deque()
        """Plans of keys without weak references, oldest first."""

    def add(self, ctx: Context, entry: Entry, site: Site) -> Effect:
        """Register an entry; all or nothing, the notice of the change included (law L5)."""
        scope = entry.scope = ctx.tag
        label = (entry.kind, entry.name)
        effect = entry.effect = ctx.fiber.register(
            label, MethodType(self._removal, entry), site=site
        )
        place = effect.place
        key = label if entry.is_named else (entry.kind, place)
        try:
            layer = self.global_layer if scope is None else self._layer(scope)
            layer.add(key, entry, place)
            entry.key = key
            if self._plans:
                self.forget_plans(scope)
            self._tell()
        except BaseException:
            if scope is not None:
                self._reclaim(scope, self.peek(scope))
            effect()
            raise
        return effect

    def _remove(self, entry: Entry) -> None:
        """Take an entry out, if it got in, and its layer if that is empty now."""
        key, scope = entry.key, entry.scope
        if key is None:
            return
        entry.key = None
        layer = self.peek(scope)
        if layer is not None:
            layer.remove(key, entry)
            if scope is not None:
                self._reclaim(scope, layer)
        if self._plans:
            self.forget_plans(scope)
        if self.when_empty is not None and self.is_empty():
            self.when_empty()
        self._tell()

    # Plans

    def plan_for(self, key: object | None) -> Plan:
        """Return the plan of a scope key, or of the global layer."""
        plan = self._plans.get(id(key))
        if plan is not None:
            if key is None or plan.epoch == epoch():
                return plan
            if plan.chain == [id(tag) for tag in chain_tags(key)]:
                plan.epoch = epoch()
                return plan
        return self._make_plan(key)

    def _make_plan(self, key: object | None) -> Plan:
        plan = Plan([self.global_layer, *self.chain_layers(key)])
        plan.epoch = epoch()
        plan.chain = [id(tag) for tag in chain_tags(key)]
        identity = id(key)
        self._drop(identity)
        if key is not None and identity not in self._watched:
            try:
                self._watched[identity] = weakref.ref(key, lambda _: self._key_is_gone(identity))
            except TypeError:
                plan.key = key  # held, so that its identity is not used again
                self._held.append(identity)
                if len(self._held) > HELD_PLANS:
                    self._drop(self._held.popleft())
        self._plans[identity] = plan
        for tag in plan.chain:
            self._built_on.setdefault(tag, set()).add(identity)
        return plan

    def forget_plans(self, key: object | None) -> None:
        """Drop the plans that the layer of `key` is part of."""
        if key is None:
            self._plans.clear()
            self._built_on.clear()
        else:
            for identity in tuple(self._built_on.get(id(key), ())):
                self._drop(identity)

    def _drop(self, identity: int) -> None:
        """Drop one plan."""
        plan = self._plans.pop(identity, None)
        for tag in plan.chain if plan is not None else ():
            built = self._built_on.get(tag)
            if built is not None:
                built.discard(identity)
                if not built:
                    del self._built_on[tag]

    def _key_is_gone(self, identity: int) -> None:
        self._watched.pop(identity, None)
        self._drop(identity)
