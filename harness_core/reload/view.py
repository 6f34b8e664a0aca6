"""View: which modules and which files below the roots belong together at one moment."""

from __future__ import annotations

import os
import sys
from functools import cached_property
from types import ModuleType
from typing import Protocol

from .source import locate
from .uses import parents_of

__all__ = ["View"]


class Loaded(Protocol):
    """What a view is taken of."""

    def loaded(self) -> dict[str, ModuleType]: ...
    def file_of(self, module: ModuleType) -> str | None: ...
    def missed(self, name: str) -> frozenset[str]: ...


class View:
    """The loaded modules of a graph, by file."""

    def __init__(self, graph: Loaded) -> None:
        self.modules = graph.loaded()
        self.by_file: dict[str, set[str]] = {}
        self.missed: dict[str, set[str]] = {}
        for name, module in self.modules.items():
            file = graph.file_of(module)
            if file is not None:
                self.by_file.setdefault(file, set()).add(name)
            for missing in graph.missed(name):
                self.missed.setdefault(missing, set()).add(name)

    def touched_by(self, path: str) -> set[str]:
        """Return the modules that a change of a file affects directly."""
        sources, importers = self.by_file.get(path, set()), set[str]()
        if not sources:
            names = self.names_for(path)
            sources = {name for name in names if name in self.modules and locate(name) == path}
            importers = {one for name in names for one in self.missed.get(name, ())}
        if os.path.basename(path) == "__init__.py":
            inside = {name for name in self.modules if not sources.isdisjoint(parents_of(name))}
            return sources | importers | inside
        return sources | importers

    def names_for(self, path: str) -> set[str]:
        """Return the names under which a file could be imported."""
        if not path.endswith(".py"):
            return set()
        directory, file = os.path.split(path.removesuffix(".py"))
        parts = [] if file == "__init__" else [file]
        names: set[str] = set()
        while True:
            for home in self.homes.get(directory, ()):
                names.add(".".join([home, *parts] if home else parts))
            directory, last = os.path.split(directory)
            if not last:
                return names - {""}
            parts.insert(0, last)

    @cached_property
    def homes(self) -> dict[str, list[str]]:
        """The directories that modules are found in, with the package each belongs to."""
        homes: dict[str, list[str]] = {}
        for place in sys.path:
            homes.setdefault(os.path.realpath(place or os.curdir), []).append("")
        for name, module in self.modules.items():
            for place in vars(module).get("__path__", ()):
                homes.setdefault(os.path.realpath(place), []).append(name)
        return homes
