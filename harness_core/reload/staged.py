"""Staged: new versions of some modules, ready to take the place of the old.

`sys.modules` shows one of two worlds, the old or the new. `commit` turns to the new one in one
step; `withdraw` turns back, as often as one likes, until `settle` or `discard` decides. What is
imported for the first time while one world shows has been imported by it, and goes with it.

Identity: a class that a module defines is another object in the new version. Code that was not
reloaded and holds the old class finds services by it all the same, because a service class stands
for its key, which is a name: `ctx[OldClass]` gives the new service. `isinstance` with an old
class is false for new instances; `replaced_classes` says which class became which.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any

import attrs

from .graph import ImportGraph

__all__ = ["MISSING", "Attribute", "Staged", "replaced_classes"]

MISSING: Any = object()
"""Stands for a module or an attribute that is not there."""


@attrs.frozen
class Attribute:
    """A module as an attribute of its package, in the old world and in the new."""

    package: ModuleType
    name: str
    old: object
    new: object


@attrs.define
class _World:
    """What `sys.modules` and packages that stay hold; MISSING for nothing."""

    modules: dict[str, Any]
    attributes: dict[tuple[ModuleType, str], Any]

    def show(self) -> None:
        for name, module in self.modules.items():
            if module is MISSING:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module
        for (package, name), value in self.attributes.items():
            if value is MISSING:
                vars(package).pop(name, None)
            else:
                vars(package)[name] = value  # not setattr, which a package may refuse


class Staged:
    """New modules beside the old. Made by `stage`; must end in `settle` or in `discard`."""

    def __init__(
        self,
        graph: ImportGraph,
        old: dict[str, Any],
        new: dict[str, Any],
        attributes: Iterable[Attribute],
    ) -> None:
        self._graph = graph
        attributes = tuple(attributes)
        self._old = _World(old, {(one.package, one.name): one.old for one in attributes})
        self._new = _World(new, {(one.package, one.name): one.new for one in attributes})
        self._showing = self._old
        self._seen = set(sys.modules)
        self._open = True

    @property
    def modules(self) -> dict[str, ModuleType]:
        """The new modules, by name."""
        return {name: one for name, one in self._new.modules.items() if one is not MISSING}

    @property
    def replaced(self) -> dict[str, ModuleType]:
        """The old modules that a new one replaces, or that are gone."""
        return {name: one for name, one in self._old.modules.items() if one is not MISSING}

    @property
    def removed(self) -> frozenset[str]:
        """The names of modules that are gone."""
        return frozenset(self.replaced.keys() - self.modules.keys())

    def commit(self) -> None:
        """Enter the new modules, all at once."""
        self._turn(self._new)

    def withdraw(self) -> None:
        """Put the old modules back, without forgetting the new ones."""
        self._turn(self._old)

    def discard(self) -> None:
        """Forget the new modules; `sys.modules` and the packages are as they were before."""
        if self._open:
            self.withdraw()
            self._end(replaced=False)

    def settle(self) -> None:
        """Forget the old modules: there is no way back."""
        if self._open:
            self.commit()
            self._end(replaced=True)

    def _end(self, *, replaced: bool) -> None:
        self._open = False
        self._graph.end(replaced=replaced)
        self._old = self._new = self._showing = _World({}, {})

    def _turn(self, world: _World) -> None:
        if not self._open or world is self._showing:
            return
        self._take_down(world)
        self._showing = world
        world.show()
        self._seen = set(sys.modules)

    def _take_down(self, other: _World) -> None:
        """Note what the world that shows has become, with what it has imported since."""
        shown = self._showing
        for name in shown.modules:
            shown.modules[name] = sys.modules.get(name, MISSING)
        for (package, child), _ in shown.attributes.items():
            shown.attributes[package, child] = vars(package).get(child, MISSING)
        ours = shown.modules.keys() | other.modules.keys()
        for name in sys.modules.keys() - self._seen - ours:
            module = sys.modules[name]
            if not self._graph.has(name, module) or self._graph.needed_by([name]).isdisjoint(ours):
                continue
            shown.modules[name], other.modules[name] = module, MISSING
            parent, _, child = name.rpartition(".")
            package = sys.modules.get(parent, module)
            if vars(package).get(child) is module:
                shown.attributes[package, child] = module
                other.attributes[package, child] = MISSING


def replaced_classes(staged: Staged) -> dict[type, type]:
    """Return the classes of replaced modules, each with the class of the new version.

    Classes that the new version no longer has are left out.
    """
    modules = staged.modules
    found: dict[type, type] = {}
    for name, old in staged.replaced.items():
        new = modules.get(name)
        if new is not None:
            found.update(_pairs(vars(old), vars(new).get, name))
    return found


def _pairs(
    old: dict[str, Any], find: Callable[[str], object], module: str
) -> Iterator[tuple[type, type]]:
    for attribute, value in tuple(old.items()):
        if not isinstance(value, type) or value.__module__ != module:
            continue
        if value.__qualname__.rpartition(".")[2] != attribute:
            continue  # another name for a class, which has its own entry
        other = find(attribute)
        if isinstance(other, type):
            yield value, other
            yield from _pairs(dict(vars(value)), vars(other).get, module)
