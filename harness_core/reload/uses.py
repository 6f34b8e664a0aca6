"""Uses: which modules a module has imported, and which names it has asked for in vain.

    import a.b.c            uses a, a.b and a.b.c: all are in reach through `a`
    from a import f         uses a
    from a import b         uses a.b, if `b` is a module; what else is in `a` does not matter
    import_module("a.b")    uses a.b

A module also needs its parent packages, without using what is in them. That is not kept here; it
follows from the name.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import resolve_name
from typing import cast

import attrs

__all__ = ["Uses", "absolute_name", "chain_of", "parents_of"]


def parents_of(name: str) -> Iterator[str]:
    """Yield the packages above a module, nearest first."""
    while "." in name:
        name = name.rpartition(".")[0]
        yield name


def chain_of(name: str) -> Iterator[str]:
    """Yield a module and the packages above it, nearest first."""
    yield name
    yield from parents_of(name)


def absolute_name(name: str, level: int, scope: Mapping[str, object]) -> str:
    """Return what a name with `level` leading dots means in a module's namespace, or ""."""
    if not level:
        return name
    package = scope.get("__package__")
    if not isinstance(package, str):
        package = str(scope.get("__name__", ""))
        if "__path__" not in scope:
            package = package.rpartition(".")[0]
    try:
        return resolve_name("." * level + name, package)
    except ImportError:
        return ""


@attrs.define(eq=False)
class Uses:
    """What one module has imported. `missing` names were no modules when they were asked for."""

    imported: set[str] = attrs.field(factory=set[str])
    missing: set[str] = attrs.field(factory=set[str])
    known: set[tuple[str, tuple[str, ...], int]] = attrs.field(
        factory=set[tuple[str, tuple[str, ...], int]]
    )
    """Statements that were executed before and have nothing new to say."""

    def add(self, names: Iterable[str]) -> bool:
        """Note these names; return whether all of them are modules."""
        complete = True
        for name in names:
            if sys.modules.get(name) is not None:
                self.imported.add(name)
                self.missing.discard(name)
            else:
                self.missing.add(name)
                complete = False
        return complete

    def merge(self, other: Uses) -> None:
        """Add what the other has."""
        self.imported |= other.imported
        self.missing |= other.missing

    @property
    def wanted(self) -> set[str]:
        """All names that were asked for."""
        return self.imported | self.missing


def named_by(base: str, items: Sequence[str]) -> set[str]:
    """Return the modules that an import statement uses, after it has been executed."""
    if not items:
        return set(chain_of(base))
    package = sys.modules.get(base)
    if package is None:
        return {name for name in chain_of(base) if name not in sys.modules} | {base}
    if "*" in items:
        items = [*items, *_listed_in(package)]
    used: set[str] = set()
    for item in items:
        submodule = sys.modules.get(f"{base}.{item}")
        if submodule is not None:
            used.add(f"{base}.{item}")
            if getattr(package, item, None) is submodule:
                continue
        elif item != "*" and not hasattr(package, item):
            used.add(f"{base}.{item}")
        used.add(base)
    return used


def _listed_in(package: object) -> list[str]:
    names: object = getattr(package, "__all__", ())
    if not isinstance(names, list | tuple):
        return []
    return [str(name) for name in cast("list[object]", names)]
