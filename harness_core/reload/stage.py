"""Stage: import the new versions of modules beside the old.

The modules are taken out of `sys.modules`, imported in the order in which they were once imported,
and put back: nobody sees the new versions before `Staged.commit`. Rejected: executing them without
entering them at all, since dataclasses, type hints and relative imports look up modules by name
while a module is being executed.

This is synchronous, in the thread of the caller. Another thread that imports one of the modules at
that very moment may get the new version.

Contract: section 9, "Transactional".
"""

from __future__ import annotations

import importlib.util
import linecache
import os
import sys
from collections.abc import Iterable
from importlib.machinery import ExtensionFileLoader
from types import ModuleType
from typing import Any

import attrs

from .blame import staging_error, without_machinery
from .graph import ImportGraph
from .source import SourceLoader, find, forget_directories
from .staged import MISSING, Attribute, Staged
from .uses import parents_of

__all__ = ["evict", "stage"]


def stage(modules: Iterable[str], graph: ImportGraph) -> Staged:
    """Import the present versions of modules and of what they import for the first time.

    `modules` is a set that `ImportGraph.affected` returned, or part of it. A module whose source
    is gone is `removed`, if none of the others imports it. Raises StagingError for whatever the
    code raises. `sys.modules` and the packages are then, and on return, as they were before.
    """
    staging = _Staging(graph, dict.fromkeys(graph.in_order(modules)))
    graph.begin(staging.names)
    try:
        return staging.run()
    except BaseException:
        graph.end(replaced=False)
        raise


@attrs.define(eq=False)
class _Staging:
    graph: ImportGraph
    names: dict[str, None]
    before: dict[str, Any] = attrs.field(factory=lambda: dict[str, Any](sys.modules))
    attributes: dict[tuple[str, str], Attribute] = attrs.field(
        factory=dict[tuple[str, str], Attribute]
    )
    wanted: str = ""

    def run(self) -> Staged:
        finder = self.graph.finder
        finder.failure.clear()
        finder.look = self._remember_attribute
        is_guest = finder not in sys.meta_path
        if is_guest:
            sys.meta_path.insert(0, finder)
        forget_directories(self.graph.roots)
        try:
            self._take_out()
            for name in self.names:
                self.wanted = name
                self._bring(name)
            return self._staged()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # an exit or a cancellation in a module is its fault
            fault = staging_error(error, finder.failure, self.wanted, self.graph.roots)
            raise fault from without_machinery(error)
        finally:
            self._put_back()
            finder.look = None
            finder.failure.clear()
            if is_guest:
                sys.meta_path.remove(finder)
            # An error's frames lead here; the old modules must not live as long as it does.
            self.before, self.attributes, self.names = {}, {}, {}

    def _take_out(self) -> None:
        gone: list[ModuleType] = []
        for name in self.names:
            self._remember_attribute(name)
            module = sys.modules.pop(name, None)
            if isinstance(module, ModuleType):
                gone.append(module)
        _forget_texts(gone)
        for attribute in self.attributes.values():
            vars(attribute.package).pop(attribute.name, None)

    def _remember_attribute(self, name: str) -> None:
        """Remember what a package that stays has under the name of a module in it."""
        parent, _, child = name.rpartition(".")
        package = self.before.get(parent)
        if not isinstance(package, ModuleType) or parent in self.names:
            return
        if (parent, child) in self.attributes:
            return
        old = vars(package).get(child, MISSING)
        self.attributes[parent, child] = Attribute(package, child, old, MISSING)

    def _bring(self, name: str) -> None:
        """Import one module, if there still is one."""
        for parent in reversed([*parents_of(name)]):
            if parent in self.names and parent not in sys.modules:
                self._bring(parent)
        if name in sys.modules:
            return
        if find(name) is not None:
            importlib.import_module(name)
            return
        parent = name.rpartition(".")[0]
        file = _scope_of(self.before.get(name)).get("__file__")
        if parent not in self.before and file is not None and os.path.isfile(file):
            self._bring_from(file, name)

    def _bring_from(self, file: str, name: str) -> None:
        """Import a module that was loaded from its place, and not found by its name."""
        loader = SourceLoader(name, file, self.graph.finder.failure)
        places: Iterable[str] | None = _scope_of(self.before[name]).get("__path__")
        spec = importlib.util.spec_from_file_location(
            name,
            file,
            loader=loader,
            submodule_search_locations=list(places) if places is not None else None,
        )
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        loader.exec_module(module)

    def _staged(self) -> Staged:
        lasting = _lasting(sys.modules.keys() - self.before.keys())
        new: dict[str, Any] = dict.fromkeys(self.names, MISSING)
        for name, module in tuple(sys.modules.items()):
            if self.before.get(name) is not module and _top(name) not in lasting:
                new[name] = module
        old = {name: self.before.get(name, MISSING) for name in new}
        attributes = [
            attrs.evolve(one, new=vars(one.package).get(one.name, MISSING))
            for (parent, _), one in self.attributes.items()
            if _top(parent) not in lasting
        ]
        changed = [one for one in attributes if one.old is not one.new]
        return Staged(self.graph, old, new, changed)

    def _put_back(self) -> None:
        lasting = _lasting(sys.modules.keys() - self.before.keys())
        for name, module in tuple(sys.modules.items()):
            if name in self.before:
                if self.before[name] is not module:
                    sys.modules[name] = self.before[name]
            elif _top(name) not in lasting:
                del sys.modules[name]
        for name, module in self.before.items():
            sys.modules.setdefault(name, module)
        for (parent, child), one in self.attributes.items():
            if one.old is not MISSING:
                vars(one.package)[child] = one.old
            elif _top(parent) not in lasting:
                vars(one.package).pop(child, None)


def evict(modules: Iterable[str]) -> None:
    """Take modules that nobody uses any more out of `sys.modules` and out of their packages."""
    gone: list[ModuleType] = []
    for name in modules:
        module = sys.modules.pop(name, None)
        parent, _, child = name.rpartition(".")
        if not isinstance(module, ModuleType):
            continue
        gone.append(module)
        if _scope_of(sys.modules.get(parent)).get(child) is module:
            delattr(sys.modules[parent], child)
    _forget_texts(gone)


def _scope_of(module: object) -> dict[str, Any]:
    return vars(module) if isinstance(module, ModuleType) else {}


def _top(name: str) -> str:
    return name.partition(".")[0]


def _lasting(appeared: Iterable[str]) -> set[str]:
    """Return the packages, of those that have appeared, that a process can import only once.

    Those with compiled modules of their own: taking them out of `sys.modules` would not undo
    their import, and make the next one fail.
    """
    found: set[str] = set()
    for name in appeared:
        spec = getattr(sys.modules.get(name), "__spec__", None)
        if isinstance(getattr(spec, "loader", None), ExtensionFileLoader):
            found.add(_top(name))
    return found - sys.stdlib_module_names


def _forget_texts(modules: Iterable[ModuleType]) -> None:
    """Drop what `linecache` holds of modules: their sources, and what was generated for them."""
    names: set[str] = set()
    for module in modules:
        names.add(module.__name__)
        file = vars(module).get("__file__")
        if isinstance(file, str):
            linecache.cache.pop(file, None)
    for key in tuple(linecache.cache) if names else ():
        if key.startswith("<"):  # "<attrs generated methods package.module.Class>"
            generated_for = key.rpartition(" ")[2]
            if not names.isdisjoint(parents_of(generated_for)):
                linecache.cache.pop(key, None)
