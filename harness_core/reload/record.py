"""The record of imports: what is loaded below the roots, and who has imported what.

While `observe` listens, every import is noted as it happens: statements, also inside functions,
calls of `import_module`, and what libraries import for a plugin. What was imported before is read
from the sources.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FrameType, ModuleType

from .hooks import listen
from .order import by_beginning
from .roots import Roots
from .source import LOOSE, SourceFinder
from .static import imports_of
from .uses import Uses, absolute_name, named_by

__all__ = ["Record"]

_HERE = os.path.dirname(os.path.abspath(__file__))
_CORE = os.path.join(os.path.dirname(_HERE), "")
_ON_THE_WAY = tuple(os.path.join(_HERE, name) for name in ("graph.py", "hooks.py", "source.py"))
_KEPT = ("harness_core", "__main__", "__mp_main__")
"""Modules that are never reloaded: the machinery itself, and what was started as a script."""


class Record:
    """What the modules below some roots have imported."""

    def __init__(self, roots: Roots) -> None:
        self.roots = roots
        self.finder = SourceFinder(roots, self.found)
        self.entries: set[str] = set()
        """Modules that this package has imported, to find plugins in them."""
        self._uses: dict[str, Uses] = {}
        self._anew: dict[str, Uses] | None = None
        """What modules use that are executed anew, until it is decided which version stays."""
        self._ranks: dict[str, int] = {}
        """Numbers of modules, in the order in which they began to be imported."""
        self._numbers = itertools.count()
        self._is_observing = False

    # Observing

    def observe(self) -> Callable[[], None]:
        """Listen to imports until the returned function is called. The body of an effect."""
        self.loaded()
        stop = listen(self)
        sys.meta_path.insert(0, self.finder)
        self._is_observing = True

        def end() -> None:
            stop()
            self._is_observing = False
            if self.finder in sys.meta_path:
                sys.meta_path.remove(self.finder)

        return end

    def imported(
        self, name: str, scope: Mapping[str, object], items: Sequence[str], level: int
    ) -> None:
        """Note an executed import statement."""
        importer = scope.get("__name__")
        if not isinstance(importer, str) or not self._is_inside(importer, scope):
            return
        if importer.startswith(LOOSE):
            self.entries.add(importer)
        uses = self._uses_of(importer)
        statement = (name, tuple(items), level)
        if statement in uses.known:
            return
        base = absolute_name(name, level, scope)
        if base and uses.add(named_by(base, items) - {importer}):
            uses.known.add(statement)

    def imported_by_call(self, name: str, package: str | None, caller: FrameType) -> None:
        """Note a call of `import_module`."""
        bare = name.lstrip(".")
        target = absolute_name(bare, len(name) - len(bare), {"__package__": package})
        if target:
            self._note_call(target, caller)

    def found(self, name: str) -> None:
        """Note that a module below the roots is imported for the first time, by whatever means."""
        frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        if name not in sys.modules and (self._anew is None or name not in self._anew):
            self._uses[name] = Uses()  # whatever was imported under this name before is gone
        if name not in self._ranks:
            self._ranks[name] = next(self._numbers)
        self._note_call(name, frame)

    def _note_call(self, target: str, frame: FrameType | None) -> None:
        """Note that the nearest code below the roots that led here uses `target`.

        Code of this package in between ends the search: a plugin that asks the loader for another
        plugin does not import it.
        """
        while frame is not None:
            file = frame.f_code.co_filename
            if file.startswith(_CORE) and file not in _ON_THE_WAY:
                if not file.startswith(_HERE):
                    self.entries.add(target)
                return
            importer = frame.f_globals.get("__name__")
            if isinstance(importer, str) and self._is_inside(importer, frame.f_globals):
                if importer != target:
                    self._uses_of(importer).add((target,))
                return
            frame = frame.f_back

    def _is_inside(self, name: str, scope: Mapping[str, object]) -> bool:
        return self.roots.covers(scope.get("__file__")) and not _is_kept(name)

    def _uses_of(self, name: str) -> Uses:
        if self._anew is not None and name in self._anew:
            return self._anew[name]
        return self._uses.setdefault(name, Uses())

    def _read(self, name: str, module: ModuleType) -> None:
        """Take the imports of a module from its source."""
        uses = self._uses.setdefault(name, Uses())
        file = self.file_of(module)
        if file is None or not os.path.isfile(file):
            return
        with open(file, "rb") as source:
            statements = imports_of(source.read())
        for statement in statements:
            base = absolute_name(statement.name, statement.level, vars(module))
            if not base:
                continue
            names = {base} if statement.called else named_by(base, statement.items)
            uses.add(names - {name})

    # Versions

    def begin(self, names: Iterable[str]) -> None:
        """Keep what these modules import from now on apart from what they imported before."""
        if self._anew is not None:
            raise RuntimeError("one set of staged modules at a time: settle or discard the other")
        self._anew = {name: Uses() for name in names}

    def end(self, *, replaced: bool) -> None:
        """Decide which version of the modules that `begin` named stays."""
        anew, self._anew = self._anew or {}, None
        for name, uses in anew.items():
            if replaced and self._is_observing:
                self._uses[name] = uses
            elif replaced:
                self._uses.pop(name, None)  # nobody listened: it is read from the new source
            else:
                # The old version stays. That the new one needs more modules is worth knowing
                # when it is tried again together with others.
                self._uses.setdefault(name, Uses()).merge(uses)
        for memory in (self._uses, self._ranks):
            for name in memory.keys() - sys.modules.keys():
                del memory[name]
        self.entries.intersection_update(sys.modules)

    # What is there

    def loaded(self) -> dict[str, ModuleType]:
        """Return the modules below the roots, by name, in the order they are in sys.modules."""
        found = {name: one for name, one in tuple(sys.modules.items()) if self.has(name, one)}
        for name, module in found.items():
            if name not in self._uses:
                self._read(name, module)
        unseen = [name for name in found if name not in self._ranks]
        for name in by_beginning(unseen, self.uses) if unseen else ():
            self._ranks[name] = next(self._numbers)
        return found

    def has(self, name: str, module: object) -> bool:
        """Whether this is a module below the roots."""
        if not isinstance(module, ModuleType):
            return False
        scope = module.__dict__
        file = scope.get("__file__")
        if file is not None:
            return self.roots.covers(file) and not _is_kept(name)
        path = scope.get("__path__")
        return path is not None and any(map(self.roots.covers, path)) and not _is_kept(name)

    def file_of(self, module: ModuleType) -> str | None:
        """Return the resolved path of the source of a module below the roots."""
        file = vars(module).get("__file__")
        return self.roots.real(file) if isinstance(file, str) else None

    def uses(self, name: str) -> frozenset[str]:
        """Return the modules that a module has imported, below the roots or not."""
        uses = self._uses.get(name)
        return frozenset(uses.imported) if uses is not None else frozenset()

    def missed(self, name: str) -> frozenset[str]:
        """Return the names that a module has asked for in vain."""
        uses = self._uses.get(name)
        return frozenset(uses.missing) if uses is not None else frozenset()


def _is_kept(name: str) -> bool:
    return name.partition(".")[0] in _KEPT
