"""Plan: what a batch of changed files means for modules and fibers, in independent groups.

A group is a set of modules that import each other, the fibers whose plugins they define, and the
fibers that read a changed file. Groups have nothing to do with each other, so a fault in one is no
reason to keep another from its new version.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

import attrs

from ..kernel.context import Context
from ..kernel.fiber import Fiber
from .graph import ImportGraph
from .plugins import PluginFinder
from .stage import evict

__all__ = ["Group", "make_plan"]


@attrs.define(eq=False)
class Group:
    """What is replaced together: `files` have changed, `modules` and `fibers` follow."""

    modules: set[str] = attrs.field(factory=set[str])
    fibers: dict[Fiber, None] = attrs.field(factory=dict[Fiber, None])
    files: set[str] = attrs.field(factory=set[str])

    def absorb(self, other: Group) -> None:
        self.modules |= other.modules
        self.fibers.update(other.fibers)
        self.files |= other.files


def make_plan(
    ctx: Context, graph: ImportGraph, finder: PluginFinder, files: Iterable[str], ours: set[str]
) -> list[Group]:
    """Return the groups that a change of these files (resolved paths) affects.

    `ours` holds modules that defined plugins or were imported to find one, and is extended by all
    that they have led to. Those of them that changed and that no plugin leads to any more are
    evicted: whoever needs them again gets them new.
    """
    loaded = graph.loaded()
    homes = {
        fiber: set(finder.modules_of(fiber, loaded)) for fiber in plugins_below(ctx.root.fiber)
    }
    needed = graph.needed_by({name for names in homes.values() for name in names})
    ours.update(graph.needed_by(ours), needed)
    ours.intersection_update(loaded)
    touched = graph.touched_by(files)
    changed = graph.importers_of({name for names in touched.values() for name in names})
    evict((changed - needed) & ours)
    groups = [Group(modules) for modules in graph.groups(changed & needed)]
    readers = _readers(ctx.kernel.readers(), files, homes)
    for fiber, modules in homes.items():
        own = [group for group in groups if not group.modules.isdisjoint(modules)]
        if own or fiber in readers:
            group = _joined(groups, own)
            group.fibers[fiber] = None
            group.files |= readers.get(fiber, set())
    for group in groups:
        group.files.update(
            file for file, names in touched.items() if not group.modules.isdisjoint(names)
        )
    return groups


def plugins_below(fiber: Fiber) -> Iterator[Fiber]:
    """Yield the fibers below one that run plugins, parents before children."""
    for child in fiber.children:
        if child.plugin is not None:
            yield child
        yield from plugins_below(child)


def outermost(fibers: Iterable[Fiber]) -> list[Fiber]:
    """Return those that are not below others, oldest first; bodies mount what is below them."""
    chosen = dict.fromkeys(fibers)
    kept: list[Fiber] = []
    for fiber in chosen:
        above = fiber.parent
        while above is not None and above not in chosen:
            above = above.parent
        if above is None:
            kept.append(fiber)
    return sorted(kept, key=lambda fiber: fiber.place)


def _readers(
    watched: Mapping[Path, Iterable[Fiber]], files: Iterable[str], plugins: Collection[Fiber]
) -> dict[Fiber, set[str]]:
    """Return the plugins whose own code, or code in a scope of theirs, reads changed files."""
    changed = set(files)
    readers: dict[Fiber, set[str]] = {}
    for path, fibers in watched.items():
        file = os.path.realpath(path)  # which a circle of links does not make raise
        for reader in fibers if file in changed else ():
            fiber: Fiber | None = reader
            while fiber is not None and fiber not in plugins:
                fiber = fiber.parent
            if fiber is not None:
                readers.setdefault(fiber, set()).add(file)
    return readers


def _joined(groups: list[Group], own: list[Group]) -> Group:
    """Return the one group that these groups become."""
    if not own:
        groups.append(Group())
        return groups[-1]
    first, *others = own
    for other in others:
        first.absorb(other)
        groups.remove(other)
    return first
