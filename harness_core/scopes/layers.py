"""Layered storage for scope-aware registries: one global layer, and one per scope that needs it.

A registry makes one `ScopedLayers` and gives it a factory for its layers. Whoever registers
passes one context, which decides both who sees the entry (its scope) and who owns it (its fiber).
Contract: section 4, `ScopedLayers`; laws L1, L2, L5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from operator import itemgetter
from typing import Generic, Protocol, TypeVar

from ..kernel.context import Context
from ..kernel.effects import Effect, Site
from ..kernel.life import takes_over
from ..kernel.places import Label
from ..kernel.signatures import accepts
from .keys import chain_tags, epoch

__all__ = ["AnonymousEntries", "Layer", "NamedEntries", "ScopedLayers"]

K = TypeVar("K")
V = TypeVar("V")

_LAST = float("inf")


class Layer(Protocol):
    """What a registry keeps for one scope."""

    def is_empty(self) -> bool:
        """Whether nothing is registered; an empty scope layer is reclaimed."""
        ...


L = TypeVar("L", bound=Layer)
Undo = Callable[[], object]


class NamedEntries(Generic[K, V]):
    """Entries by name, in registration order. A name is taken once.

    Where a plugin may live twice at once (`overlap`), an entry of its next life waits behind the
    entry of the same name that its present life has, until that is removed.
    """

    __slots__ = ("_duplicate", "_entries", "_highest", "_in_order", "_waiting")

    def __init__(self, duplicate: Callable[[K], BaseException]) -> None:
        self._duplicate = duplicate
        self._entries: dict[K, tuple[float, V]] = {}
        self._in_order = True
        self._highest = 0.0
        """The highest place there has been, as far as it matters to the order."""
        self._waiting: dict[K, tuple[float, V]] = {}

    def insert(self, name: K, value: V, place: float = _LAST) -> Undo:
        """Add an entry and return its undo; raise the registry's error if the name is taken.

        `place` puts an entry that comes back after a restart where it stood.
        """
        self.add(name, value, place)
        entry = self._waiting.get(name) or self._entries[name]
        return lambda: self._take_out(name, entry)

    def add(self, name: K, value: V, place: float) -> None:
        """Add an entry, for a caller that will `remove` it itself."""
        if name not in self._entries:
            self._put(name, (place, value))
        elif self.is_free(name, place):
            self._waiting[name] = (place, value)
        else:
            raise self._duplicate(name)

    def is_free(self, name: K, place: float = _LAST) -> bool:
        """Whether an entry of this name may be added at this place."""
        held = self._entries.get(name)
        return held is None or (name not in self._waiting and takes_over(place, held[0]))

    def _put(self, name: K, entry: tuple[float, V]) -> None:
        if entry[0] < self._highest:
            self._in_order = False
        else:
            self._highest = float(entry[0])  # and not the place itself, which may hold a life
        self._entries[name] = entry

    def remove(self, name: K, value: object = None) -> None:
        """Take an entry out: the one with this value, where there may be two."""
        entry = self._waiting.get(name) if self._waiting else None
        if entry is None or entry[1] is not value:
            entry = self._entries.get(name)
        if entry is not None:
            self._take_out(name, entry)

    def _take_out(self, name: K, entry: tuple[float, V]) -> None:
        if self._entries.get(name) is entry:
            del self._entries[name]
            if name in self._waiting:
                self._put(name, self._waiting.pop(name))
        elif self._waiting.get(name) is entry:
            del self._waiting[name]

    def _ordered(self) -> dict[K, tuple[float, V]]:
        if not self._in_order:
            ordered = sorted(self._entries.items(), key=lambda item: item[1][0])
            self._entries.clear()
            self._entries.update(ordered)
            self._in_order = True
        return self._entries

    def get(self, name: K) -> V | None:
        """Return the entry of a name, or None."""
        entry = self._entries.get(name)
        return entry[1] if entry is not None else None

    def keys(self) -> list[K]:
        """Return the names, in registration order."""
        return list(self._ordered())

    def values(self) -> list[V]:
        """Return the entries, in registration order."""
        return [value for _, value in self._ordered().values()]

    def items(self) -> list[tuple[K, V]]:
        """Return names and entries, in registration order."""
        return [(name, value) for name, (_, value) in self._ordered().items()]

    def is_empty(self) -> bool:
        """Whether there are none."""
        return not self._entries

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[K]:
        return iter(self._ordered())

    def __len__(self) -> int:
        return len(self._entries)


class AnonymousEntries(Generic[V]):
    """Entries without names, in registration order."""

    __slots__ = ("_entries", "_next")

    def __init__(self) -> None:
        self._entries: dict[int, tuple[float, V]] = {}
        self._next = 0

    def append(self, value: V, place: float = _LAST) -> Undo:
        """Add an entry and return its undo."""
        number, self._next = self._next, self._next + 1
        self._entries[number] = (place, value)
        return lambda: self._entries.pop(number, None)

    def values(self) -> list[V]:
        """Return the entries, in registration order."""
        found = sorted(self._entries.values(), key=itemgetter(0))
        return [
            value
            for number, (place, value) in enumerate(found)
            # Of two lives of a plugin, the entry of the present one.
            if not number or place == _LAST or place != found[number - 1][0]
        ]

    def is_empty(self) -> bool:
        """Whether there are none."""
        return not self._entries

    def __iter__(self) -> Iterator[V]:
        return iter(self.values())

    def __len__(self) -> int:
        return len(self._entries)


class _Held(Generic[L]):
    """A scope layer with its key, which is held so that its identity is not used again."""

    __slots__ = ("key", "layer")

    def __init__(self, key: object, layer: L) -> None:
        self.key = key
        self.layer = layer


class ScopedLayers(Generic[L]):
    """An eager global layer, and lazy scope layers that go when they are empty.

    `create` makes a layer for a key (None: the global one). `changed(key)` is called after each
    registration and each removal; if it raises at a registration, that is taken back, and the
    error reaches whoever registered.
    """

    def __init__(
        self,
        create: Callable[[object | None], L],
        changed: Callable[[object | None], object] | None = None,
    ) -> None:
        self._create = create
        self._changed = changed
        self.global_layer = create(None)
        self._scoped: dict[int, _Held[L]] = {}

    links_version: Callable[[], int] = staticmethod(epoch)
    """Return a number that changes whenever any key gets another parent, and chains may differ."""

    def peek(self, key: object | None) -> L | None:
        """Return the layer of a key if it has one, without making it."""
        if key is None:
            return self.global_layer
        held = self._scoped.get(id(key))
        return held.layer if held is not None else None

    def chain_layers(self, key: object | None) -> list[L]:
        """Return the scope layers that a key sees, farthest first, without the global one."""
        scoped = self._scoped
        if key is None or not scoped:
            return []
        found = [scoped[id(tag)].layer for tag in chain_tags(key) if id(tag) in scoped]
        found.reverse()
        return found

    def merge(
        self, key: object | None, entries: Callable[[L], NamedEntries[K, V] | Mapping[K, V]]
    ) -> dict[K, V]:
        """Return what a key sees by name: the nearest entry wins, in the place of the first."""
        merged = dict(entries(self.global_layer).items())
        for layer in self.chain_layers(key):
            merged.update(entries(layer).items())
        return merged

    def scopes(self) -> list[object]:
        """Return the keys that have a layer."""
        return [held.key for held in self._scoped.values()]

    def is_empty(self) -> bool:
        """Whether nothing at all is registered."""
        return not self._scoped and self.global_layer.is_empty()

    def effect(
        self,
        ctx: Context,
        action: Callable[..., Undo],
        label: Label = "registration",
        site: Site | None = None,
    ) -> Effect:
        """Register in the layer of `ctx`'s scope, owned by `ctx`'s fiber; return the effect.

        `action(layer)`, or `action(layer, place)`, adds to the layer and returns the undo. `site`
        says where the registration was made, for a registry that knows better than the call stack.
        """
        if accepts(action, 2) == 2:
            return self.register(ctx, action, label, site)
        return self.register(ctx, lambda layer, _: action(layer), label, site)

    def register(
        self,
        ctx: Context,
        action: Callable[[L, float], Undo],
        label: Label,
        site: Site | None = None,
    ) -> Effect:
        """Do the work of `effect`, for an action that takes layer and place."""
        key = ctx.tag
        changed = self._changed
        undo_entry: Undo | None = None

        def undo() -> None:
            nonlocal undo_entry
            if undo_entry is None:
                return
            undo_entry()
            undo_entry = None
            self._reclaim(key, layer)
            if changed is not None:
                changed(key)

        effect = ctx.fiber.register(label, undo, site=site)
        layer: L | None = None
        try:
            layer = self.global_layer if key is None else self._layer(key)
            undo_entry = action(layer, effect.place)
        except BaseException:
            self._reclaim(key, layer)
            effect()
            raise
        if changed is not None:
            try:
                changed(key)
            except BaseException:
                effect()
                raise
        return effect

    def _layer(self, key: object) -> L:
        held = self._scoped.get(id(key))
        if held is None:
            held = self._scoped[id(key)] = _Held(key, self._create(key))
        return held.layer

    def _reclaim(self, key: object | None, layer: L | None) -> None:
        if key is not None and layer is not None and layer.is_empty():
            held = self._scoped.get(id(key))
            if held is not None and held.layer is layer:
                del self._scoped[id(key)]
