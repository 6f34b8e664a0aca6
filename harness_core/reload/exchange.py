"""Exchange: one attempt to put the new version of some groups in the place of the old.

All or nothing: modules are staged and entered, fibers are swapped under the gate, and on any
failure the old modules and the old plugins are back. While the fibers are on their way,
`sys.modules` shows the versions that belong to the code that runs: the old ones when an old plugin
is torn down or runs again, the new ones when a new one is checked, runs or is torn down. So an
import inside a function gives what belongs together.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager

import attrs

from ..kernel.context import Context
from ..kernel.fiber import Fiber
from ..kernel.lifecycle import FiberState
from ..kernel.swap import Replacement, swap
from .errors import StagingError
from .graph import ImportGraph
from .plan import Group, outermost
from .plugins import PluginFinder
from .stage import stage
from .staged import Staged

__all__ = ["Failed", "exchange"]

_MOVING = (FiberState.LOADING, FiberState.UNLOADING)


@attrs.frozen
class Failed:
    """Why nothing was exchanged, and the groups whose fault it is; empty if that is unknown."""

    error: Exception
    guilty: tuple[Group, ...]


async def exchange(
    ctx: Context, graph: ImportGraph, finder: PluginFinder, groups: Sequence[Group]
) -> Failed | None:
    """Exchange all these groups in one transaction; return why it failed, or None."""
    names = {name for group in groups for name in group.modules}
    fibers = outermost(fiber for group in groups for fiber in group.fibers)
    staged: Staged | None = None
    unwell: list[Fiber] = []
    try:
        if names:
            staged = stage(names, graph)
            staged.commit()
        replacements = [Replacement(fiber, finder.find(fiber, staged)) for fiber in fibers]
        with _noting_failures(ctx, unwell), _modules_follow(ctx, staged, replacements) as show:
            await swap(ctx.root, replacements, show)
    except BaseException as error:
        if staged is not None:
            staged.discard()
        if not isinstance(error, Exception):
            raise
        return Failed(error, tuple(_guilty(error, unwell, groups)))
    if staged is not None:
        staged.settle()
    return None


@contextmanager
def _noting_failures(ctx: Context, unwell: list[Fiber]) -> Generator[None, None, None]:
    def note(fiber: Fiber, _: BaseException) -> None:
        unwell.append(fiber)

    effect = ctx.on("fiber/error", note, unfiltered=True)
    try:
        yield
    finally:
        effect()


@contextmanager
def _modules_follow(
    ctx: Context, staged: Staged | None, replacements: Sequence[Replacement]
) -> Generator[Callable[[object], None], None, None]:
    """Let `sys.modules` show what belongs to the plugin that loads or unloads.

    Gives what is to be told of plugins of which two live for a moment: while they do, the modules
    of the new version show.
    """
    new = {one.fiber: one.plugin for one in replacements if one.plugin is not one.fiber.plugin}

    coming = {id(one.plugin) for one in replacements}

    def show(plugin: object) -> None:
        if staged is None:
            return
        if id(plugin) in coming:
            staged.commit()
        else:
            staged.withdraw()

    def follow(fiber: Fiber, _: FiberState) -> None:
        if fiber in new and fiber.state in _MOVING:
            show(fiber.plugin)

    if staged is None or not new:
        yield show
        return
    effect = ctx.on("fiber/state", follow, unfiltered=True)
    try:
        yield show
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
