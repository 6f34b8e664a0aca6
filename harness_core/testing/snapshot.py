"""A snapshot of everything observable about a tree, and what one has that an earlier one had not.

Things are compared by what they are and whose, not by identity or line: a plugin that restarts, or
whose file was edited, registers anew, and leaves no residue by that. Fibers and tasks that belong
to no fiber are compared by identity.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Hashable, Iterator
from typing import Any, TypeAlias, cast

import anyio
import attrs

from ..kernel.context import Context
from ..kernel.effects import EffectInfo
from ..kernel.fiber import Fiber
from ..kernel.service import Service
from ..scopes import AnonymousEntries, NamedEntries, ScopedLayers
from . import inside

__all__ = ["Residue", "Snapshot", "observe"]


@attrs.frozen
class Residue:
    """One thing that is there: what it is, who owns it, and where it was registered.

    `kind` is one of fiber, effect, listener, service, layer, slot, consumer, override, accessor,
    event, task, link, module.
    """

    kind: str
    label: str
    owner: str
    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        place = f" ({self.file}:{self.line})" if self.file else ""
        return f"{self.kind} {self.label} of {self.owner}{place}"


Found: TypeAlias = tuple[Hashable, Residue]
_Named: TypeAlias = NamedEntries[object, object]


class Snapshot:
    """What was there at one moment. `later.added_since(earlier)` is the residue."""

    def __init__(self, found: list[Found], holds: list[object]) -> None:
        self._found = found
        self._holds = holds  # so that an identity is not used again

    def added_since(self, earlier: Snapshot) -> tuple[Residue, ...]:
        """Return what is here and was not in `earlier`, a thing as often as it is there more."""
        spare = Counter(key for key, _ in earlier._found)
        added: list[Residue] = []
        for key, residue in self._found:
            if spare[key]:
                spare[key] -= 1
            else:
                added.append(residue)
        return tuple(added)

    def __iter__(self) -> Iterator[Residue]:
        return (residue for _, residue in self._found)


def observe(
    ctx: Context, *, tasks: bool = True, links: bool = False, modules: bool = False
) -> Snapshot:
    """Return a snapshot of the whole tree that `ctx` belongs to.

    With `tasks`, and where an event loop runs, the loop's tasks are part of it; with `links`, the
    parents of scope keys, which by design live as long as their keys; with `modules`, the names
    in `sys.modules`.
    """
    root = ctx.root
    fibers = list(_fibers(root.fiber))
    found: list[Found] = []
    holds: list[object] = [*fibers]
    for fiber in fibers:
        found += _of_fiber(fiber)
    found += _listeners(root)
    found += _slots(root)
    found += _layers(root, fibers, holds)
    found += _names(root)
    if tasks:
        found += _tasks(holds)
    if links:
        found += _links()
    if modules:
        found += _modules()
    return Snapshot(found, holds)


def _fibers(fiber: Fiber) -> Iterator[Fiber]:
    yield fiber
    for child in fiber.children:
        yield from _fibers(child)


def _of_fiber(fiber: Fiber) -> Iterator[Found]:
    path = fiber.path
    if fiber.parent is not None:
        place = inside.place_of_callable(fiber.plugin)
        owner = fiber.parent.path
        residue = Residue("fiber", f'"{path}" ({fiber.state.value})', owner, *place)
        yield ("fiber", id(fiber)), residue
    for effect in fiber.effects():
        yield from _effects(fiber, path, effect, ())
    for key in fiber.services:
        yield ("service", id(fiber), key), Residue("service", f'"{key}"', path)


def _effects(
    fiber: Fiber, path: str, effect: EffectInfo, above: tuple[str, ...]
) -> Iterator[Found]:
    key = ("effect", id(fiber), above, effect.label)
    yield key, Residue("effect", effect.label, path, effect.file, effect.line)
    for child in effect.children:
        yield from _effects(fiber, path, child, (*above, effect.label))


def _listeners(root: Context) -> Iterator[Found]:
    for event, listeners in root.kernel.bus.listeners().items():
        for one in listeners:
            info = one.effect.describe() if one.effect is not None else None
            file, line = (info.file, info.line) if info else ("", 0)
            key = ("listener", event, id(one.fiber.mounted))
            yield key, Residue("listener", f'"{event}"', one.fiber.path, file, line)


def _slots(root: Context) -> Iterator[Found]:
    for (key, realm), slot in inside.slots(root).items():
        place = (key, id(realm) if realm is not None else None)
        where = f'"{key}"' if realm is None else f'"{key}" in realm {realm!r}'
        used = slot.binding is not None or slot.consumers or slot.overrides or slot.state
        if not used:
            yield ("slot", place), Residue("slot", f"{where}, used by nobody,", "the tree")
        for injection in slot.consumers:
            fiber = injection.fiber
            yield ("consumer", place, id(fiber)), Residue("consumer", f"of {where}", fiber.path)
        for override in slot.overrides:
            owner = override.ctx.fiber.path
            yield ("override", place, id(override)), Residue("override", f"of {where}", owner)


def _layers(root: Context, fibers: list[Fiber], holds: list[object]) -> Iterator[Found]:
    seen: set[int] = set()
    for name, layers in _all_layers(root, fibers):
        if id(layers) in seen:
            continue
        seen.add(id(layers))
        for scope in (None, *layers.scopes()):
            holds.append(scope)
            layer: object = layers.peek(scope)
            tag = id(scope) if scope is not None else None
            where = "the global layer" if scope is None else f"the layer of scope {scope!r}"
            if scope is not None:
                yield ("layer", name, tag), Residue("layer", f"of scope {scope!r}", name)
            for label, owner, file, line in _entries(layer):
                key = ("entry", name, tag, label, owner)
                yield key, Residue("layer", f"entry {label} in {where}", owner, file, line)


def _all_layers(root: Context, fibers: list[Fiber]) -> Iterator[tuple[str, ScopedLayers[_Named]]]:
    for (key, _), slot in inside.slots(root).items():
        for name, state in slot.state.items():
            if isinstance(state, ScopedLayers):
                yield f"{key}.{name}", state
    for fiber in fibers:
        for key, binding in fiber.services.items():
            if isinstance(binding.value, Service):
                for name, attribute in vars(binding.value).items():
                    if isinstance(attribute, ScopedLayers):
                        yield f"{key}.{name}", attribute


def _entries(layer: object) -> Iterator[tuple[str, str, str, int]]:
    for label, value in _items(layer):
        effect = getattr(value, "effect", None)
        if effect is None:
            yield label, "its registry", "", 0
        else:
            info = effect.describe()
            yield label, effect.fiber.path, info.file, info.line


def _items(layer: Any) -> list[tuple[str, object]]:
    if isinstance(layer, NamedEntries):
        return [(_text(name), value) for name, value in cast("_Named", layer).items()]
    if isinstance(layer, AnonymousEntries):
        anonymous = cast("AnonymousEntries[object]", layer)
        return [(str(number), value) for number, value in enumerate(anonymous.values())]
    return []


def _text(name: object) -> str:
    if isinstance(name, tuple):
        return " ".join(str(part) for part in cast("tuple[object, ...]", name))
    return str(name)


def _names(root: Context) -> Iterator[Found]:
    for name, (getter, _) in root.kernel.accessors.items():
        place = inside.place_of_callable(getter)
        yield ("accessor", name), Residue("accessor", f'"{name}"', "the tree", *place)
    for name in inside.declared_events(root):
        yield ("event", name), Residue("event", f'declaration of "{name}"', "the tree")


def _tasks(holds: list[object]) -> Iterator[Found]:
    try:
        tasks = anyio.get_running_tasks()
        observer = anyio.get_current_task()
    except Exception:  # no event loop runs, or none that anyio knows
        return
    for task in tasks:
        if task.id == observer.id or inside.is_driver(task.coro):
            continue
        job = inside.job_of(task.coro)
        file, line = inside.place_of_task(task.coro)
        if job is not None:
            key: Hashable = ("task", job.what, job.owner.path)
            yield key, Residue("task", job.what, job.owner.path, file, line)
        else:
            holds.append(task.coro)
            yield ("task", task.id), Residue("task", f'"{task.name}"', "the loop", file, line)


def _links() -> Iterator[Found]:
    for identity, parent in inside.scope_links().items():
        label = f"of a scope key to parent {parent!r}"
        yield ("link", identity, id(parent)), Residue("link", label, "all trees")


def _modules() -> Iterator[Found]:
    for name, module in sorted(sys.modules.items()):
        file = getattr(module, "__file__", None) or ""
        yield ("module", name), Residue("module", name, "sys.modules", file, 1 if file else 0)
