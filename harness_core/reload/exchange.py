"""Exchange: one attempt to put the new version of some groups in the place of the old.

All or nothing: modules are staged and entered, fibers are swapped under the gate, and on any
failure the old modules and the old plugins are back. Whoever has more to change in the same
transaction gives another way to move the fibers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

import attrs

from ..kernel.context import Context
from ..kernel.fiber import Fiber
from ..kernel.swap import Replacement, swap
from .errors import StagingError
from .graph import ImportGraph
from .plan import Group, outermost
from .plugins import PluginFinder
from .stage import stage
from .staged import Staged
from .versions import Versions

__all__ = ["Failed", "Move", "exchange"]

Move: TypeAlias = Callable[[Versions], Awaitable[None]]
"""Lets fibers run their new versions, all or nothing; raises what kept it from that."""


@attrs.frozen
class Failed:
    """Why nothing was exchanged, and the groups whose fault it is; empty if that is unknown."""

    error: Exception
    guilty: tuple[Group, ...]


async def exchange(
    ctx: Context,
    graph: ImportGraph,
    finder: PluginFinder,
    groups: Sequence[Group],
    move: Move | None = None,
) -> Failed | None:
    """Exchange all these groups in one transaction; return why it failed, or None."""
    names = {name for group in groups for name in group.modules}
    fibers = outermost(fiber for group in groups for fiber in group.fibers)
    staged: Staged | None = None
    versions: Versions | None = None
    try:
        if names:
            staged = stage(names, graph)
            staged.commit()
        versions = Versions(fibers, finder, staged)
        with _noting_failures(ctx, versions.unwell), versions.following(ctx):
            await (move(versions) if move is not None else _swap(ctx, versions))
    except BaseException as error:
        if staged is not None:
            staged.discard()
        if not isinstance(error, Exception):
            raise
        unwell = versions.unwell if versions is not None else ()
        return Failed(error, tuple(_guilty(error, unwell, groups)))
    if staged is not None:
        staged.settle()
    return None


async def _swap(ctx: Context, versions: Versions) -> None:
    replacements = [Replacement(fiber, versions.find(fiber)) for fiber in versions.fibers]
    await swap(ctx.root, replacements, versions.show, versions.unwell.append)


@contextmanager
def _noting_failures(ctx: Context, unwell: list[Fiber]) -> Generator[None, None, None]:
    def note(fiber: Fiber, _: BaseException) -> None:
        unwell.append(fiber)

    effect = ctx.on("fiber/error", note, unfiltered=True)
    try:
        yield
    finally:
        effect()


def _guilty(error: Exception, unwell: Sequence[Fiber], groups: Sequence[Group]) -> Iterator[Group]:
    if isinstance(error, StagingError):
        for group in groups:
            if not group.modules.isdisjoint(error.importing):
                yield group
        return
    chains = {above for fiber in unwell for above in _upwards(fiber)}
    for group in groups:
        if not chains.isdisjoint(group.fibers):
            yield group


def _upwards(fiber: Fiber | None) -> Iterator[Fiber]:
    while fiber is not None:
        yield fiber
        fiber = fiber.parent
