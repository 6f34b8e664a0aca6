"""Modules below the roots are always compiled from their source, never read from bytecode.

Python takes cached bytecode for valid if the source has the same size and the same time, in whole
seconds: a second save within a second would not be seen. The finder stands first in
`sys.meta_path`, lets those after it find, and changes only how a source file below the roots is
read.
"""

from __future__ import annotations

import contextlib
import linecache
import os
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from importlib.abc import PathEntryFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import cache_from_source
from types import CodeType, ModuleType

import attrs

from .roots import Roots

__all__ = [
    "LOOSE",
    "Failure",
    "SourceFinder",
    "SourceLoader",
    "find",
    "forget_directories",
    "locate",
    "reading_sources",
]


@attrs.define(eq=False)
class Failure:
    """An error while modules were executed: those under way, innermost first, with their files."""

    error: BaseException | None = None
    importing: list[tuple[str, str]] = attrs.field(factory=list[tuple[str, str]])

    def add(self, error: BaseException, name: str, file: str) -> None:
        """Note that an error has passed through a module."""
        if error is not self.error:
            self.error = error
            self.importing = []
        self.importing.append((name, file))

    def clear(self) -> None:
        self.error = None
        self.importing = []


LOOSE = "harness_file_"
"""How the names of modules begin that were loaded from a file of which only the path was given."""


class SourceLoader(SourceFileLoader):
    """Loads a module from the bytes of its source as they are now."""

    def __init__(self, fullname: str, path: str, failure: Failure | None = None) -> None:
        super().__init__(fullname, path)
        self._failure = failure

    def get_code(self, fullname: str) -> CodeType:
        """Compile the source; forget what caches hold of older versions."""
        path = self.get_filename(fullname)
        source = self.get_data(path)
        linecache.cache.pop(path, None)
        with contextlib.suppress(OSError, NotImplementedError):
            os.unlink(cache_from_source(path))
        return self.source_to_code(source, path)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]

    def exec_module(self, module: ModuleType) -> None:
        """Execute the module. A package is given the modules in it that stay as they are."""
        name = module.__name__
        if hasattr(module, "__path__"):
            prefix = f"{name}."
            for other, child in tuple(sys.modules.items()):
                if other.startswith(prefix) and "." not in other[len(prefix) :]:
                    setattr(module, other[len(prefix) :], child)
        try:
            super().exec_module(module)
        except BaseException as error:
            if self._failure is not None:
                self._failure.add(error, name, self.path)
            raise


class SourceFinder:
    """Finds what the other finders find; source files below the roots get a `SourceLoader`.

    `found` is called with the name of each of those, and `look` with every name at all.
    """

    def __init__(self, roots: Roots, found: Callable[[str], None]) -> None:
        self.roots = roots
        self.failure = Failure()
        self.look: Callable[[str], None] | None = None
        self._found = found

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec that the finders after this one find."""
        if self.look is not None:
            self.look(fullname)
        finders = tuple(sys.meta_path)
        after = finders.index(self) + 1 if self in finders else 0
        spec = _ask(finders[after:], fullname, path, target)
        if spec is None or not self.roots.covers(spec.origin):
            return spec
        if isinstance(spec.loader, SourceFileLoader):
            self._found(fullname)
            spec.loader = SourceLoader(fullname, spec.loader.path, self.failure)
        return spec


@contextlib.contextmanager
def reading_sources(roots: Roots) -> Generator[None]:
    """Read modules below the roots from their sources, for the length of a block."""
    finder = SourceFinder(roots, lambda _: None)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def _ask(
    finders: Iterable[object],
    name: str,
    path: Sequence[str] | None,
    target: ModuleType | None = None,
) -> ModuleSpec | None:
    for finder in finders:
        find: Callable[..., ModuleSpec | None] | None = getattr(finder, "find_spec", None)
        spec = find(name, path, target) if find is not None else None
        if spec is not None:
            return spec
    return None


def find(name: str) -> ModuleSpec | None:
    """Return the spec of what importing `name` would execute now; None if there is nothing.

    The packages above it are taken as they are in `sys.modules`.
    """
    parent = name.rpartition(".")[0]
    path: Sequence[str] | None = None
    if parent:
        path = getattr(sys.modules.get(parent), "__path__", None)
        if path is None:
            return None
    others = (one for one in sys.meta_path if not isinstance(one, SourceFinder))
    return _ask(others, name, path)


def locate(name: str) -> str | None:
    """Return the resolved path of the source that importing `name` would execute now."""
    spec = find(name)
    return os.path.realpath(spec.origin) if spec is not None and spec.origin else None


def forget_directories(roots: Roots) -> None:
    """Make the import system list the directories below the roots again."""
    for place, finder in tuple(sys.path_importer_cache.items()):
        if not roots.covers(place):
            continue
        if finder is None or not os.path.isdir(place):
            sys.path_importer_cache.pop(place, None)
        elif isinstance(finder, PathEntryFinder):
            finder.invalidate_caches()
