"""The import graph as it really happened, among the modules below the watched roots.

`affected` says which modules must be executed anew when files change: those that changed and those
that, through any number of steps, have imported them. Modules below the roots that no plugin leads
to are left alone.

A package's `__init__` is executed before the modules in it, so a change of that very file
affects them all. A package that is affected only because it imports something affects those who
import the package, and not the other modules in it.

Contract: section 9.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from .record import Record
from .source import forget_directories
from .uses import parents_of
from .view import View

__all__ = ["ImportGraph"]


class ImportGraph(Record):
    """Who imports whom below some roots. One graph serves one tree."""

    def in_order(self, names: Iterable[str]) -> list[str]:
        """Return modules in the order in which they are to be imported anew."""
        last = next(self._numbers)
        return sorted(names, key=lambda name: (self._ranks.get(name, last), name))

    def touched_by(self, files: Iterable[str | Path]) -> dict[str, set[str]]:
        """Return, for each file below the roots, the modules that its change affects directly.

        Those are the modules it is the source of, or would be now; for a package's `__init__`,
        the modules in the package; and whoever has looked in vain for what is there now.
        """
        forget_directories(self.roots)
        view = View(self)
        found: dict[str, set[str]] = {}
        for file in files:
            path = self.roots.real(os.fspath(file))
            if path is not None:
                found[path] = view.touched_by(path)
        return found

    def importers_of(self, seeds: Iterable[str]) -> set[str]:
        """Return these modules and all that have imported them, through any number of steps."""
        start = set(seeds)
        if not start:
            return start
        importers: dict[str, list[str]] = {}
        for name in self.loaded():
            for used in self.uses(name):
                importers.setdefault(used, []).append(name)
        return _reach(start, lambda name: importers.get(name, ()))

    def needed_by(self, names: Iterable[str]) -> set[str]:
        """Return these modules and all that they have imported, parent packages among it."""
        return _reach(names, lambda name: (*self.uses(name), *parents_of(name)))

    def affected(
        self, changed: Iterable[str | Path], plugins: Iterable[str] | None = None
    ) -> set[str]:
        """Return the modules to execute anew when files have changed, appeared or gone.

        With `plugins`, names of modules, only those that lead to one of them.
        """
        seeds = {name for names in self.touched_by(changed).values() for name in names}
        found = self.importers_of(seeds)
        return found if plugins is None or not found else found & self.needed_by(plugins)

    def groups(self, names: Iterable[str]) -> list[set[str]]:
        """Split modules into groups that have nothing to do with each other."""
        left = dict.fromkeys(self.in_order(names))
        joined: dict[str, set[str]] = {name: set() for name in left}
        for name in left:
            uses = self._uses.get(name)
            for other in {*(uses.wanted if uses else ()), *parents_of(name)} & left.keys():
                joined[name].add(other)
                joined[other].add(name)
        groups: list[set[str]] = []
        while left:
            group = _reach([next(iter(left))], lambda name: joined[name])
            groups.append(group)
            for name in group:
                del left[name]
        return groups


def _reach(start: Iterable[str], following: Callable[[str], Iterable[str]]) -> set[str]:
    found = set(start)
    left = list(found)
    while left:
        for name in following(left.pop()):
            if name not in found:
                found.add(name)
                left.append(name)
    return found
