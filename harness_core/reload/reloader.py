"""The reloader: from changed files to swapped plugins, one batch at a time.

A batch is exchanged in one transaction. If that fails because of one group of modules and plugins,
that group keeps its old version, is `stale`, and the others are exchanged without it. Files whose
new version is not in use are remembered, and tried again with every later batch that affects
plugins, so that two saves which only work together do work. What else has to change with the code,
rows of a manifest for instance, is done by who gives another way to `move` the fibers.

Contract: section 9.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from pathlib import Path

import anyio
import attrs

from ..kernel.context import Context
from ..kernel.fiber import Fiber
from ..prompt.diff import AssemblyDiff, diff_assemblies
from ..prompt.model import PromptAssembly
from .errors import StagingError
from .exchange import Failed, Move, exchange
from .graph import ImportGraph
from .plan import Group, make_plan, outermost
from .plugins import PluginFinder, module_of
from .roots import Roots
from .watch import Batch, watch

__all__ = ["Reloaded", "Reloader"]


@attrs.frozen
class Reloaded:
    """What became of some plugins: all run their new version, or all their old with an `error`.

    `plugins` holds the paths of their fibers, `modules` the names of what was executed anew (or
    should have been), `diff` what changed in the prompt, if somebody assembles it.
    """

    plugins: tuple[str, ...]
    modules: tuple[str, ...]
    seconds: float
    error: Exception | None = None
    diff: AssemblyDiff | None = None


@attrs.define(eq=False)
class _Outcome:
    """What a reload has come to, for the caller who waits for it."""

    over: anyio.Event = attrs.field(factory=anyio.Event)
    reports: tuple[Reloaded, ...] = ()
    error: BaseException | None = None


class Reloader:
    """Keeps the plugins of a tree up with the files below `roots`.

    `finder` says where a fiber's plugin comes from and what it is now; `assemble` gives the prompt
    whose changes are reported. The reloader listens to imports from its making until `dispose`,
    or the end of the fiber of `ctx`, so make it before plugins are imported, if possible.
    """

    def __init__(
        self,
        ctx: Context,
        roots: Iterable[str | Path],
        finder: PluginFinder | None = None,
        *,
        assemble: Callable[[], Awaitable[PromptAssembly]] | None = None,
    ) -> None:
        self.ctx = ctx
        self.graph = ImportGraph(Roots(roots))
        self.finder = finder or PluginFinder()
        self.stale: dict[Fiber, Exception] = {}
        """Plugins that run an old version, and why."""
        self._assemble = assemble
        self._waiting: set[str] = set()
        """Changed files whose new version is not in use. Resolved paths."""
        self._ours: set[str] = set()
        """Modules that are there for plugins' sake. Others are never taken out of `sys.modules`."""
        self._lock = anyio.Lock()
        self._observer = ctx.effect(self._observe, label="import observer")

    def _observe(self, ctx: Context) -> Callable[[], None]:
        ctx.on("plugin/mount", self._mounted, unfiltered=True)
        return self.graph.observe()

    def _mounted(self, fiber: Fiber) -> None:
        name = module_of(fiber.plugin)
        if name is not None:
            self._ours.add(name)

    async def dispose(self) -> None:
        """Stop listening to imports. What runs goes on."""
        await self._observer.dispose()

    async def run(
        self,
        report: Callable[[Reloaded], object],
        *,
        quiet: float = 0.05,
        started: anyio.Event | None = None,
    ) -> None:
        """Watch and reload until cancelled. `report` hears of everything that is tried."""
        named = self.ctx.kernel.readers
        batches = watch(self.graph.roots, files=named, quiet=quiet, started=started)
        async with aclosing(batches):
            async for batch in batches:
                for reloaded in await self.reload(batch):
                    report(reloaded)

    async def reload(self, batch: Batch, move: Move | None = None) -> tuple[Reloaded, ...]:
        """Bring everything up to date with a batch of changed files; return what was tried.

        Never raises what plugins raise. Calls wait for each other. Cancelling one does not stop
        halfway: the exchange ends, well or not, and `stale` is right. With `move`, nothing is done
        and nothing returned unless it succeeds, for the code that is not at fault at least.
        """
        outcome = _Outcome()
        self.ctx.kernel.tree.spawn(self._reload_in_task, batch, move, outcome)
        await outcome.over.wait()
        if outcome.error is not None:
            raise outcome.error
        return outcome.reports

    async def _reload_in_task(self, batch: Batch, move: Move | None, outcome: _Outcome) -> None:
        try:
            outcome.reports = await self._reload(batch, move)
        except BaseException as error:  # a fault of this package; it belongs to the caller
            outcome.error = error
        outcome.over.set()

    async def _reload(self, batch: Batch, move: Move | None) -> tuple[Reloaded, ...]:
        async with self._lock:
            for fiber in [fiber for fiber in self.stale if fiber.is_ending]:
                del self.stale[fiber]
            fresh = {str(path) for path in batch.files}
            self._ours |= self.graph.entries
            groups = make_plan(self.ctx, self.graph, self.finder, fresh | self._waiting, self._ours)
            self._waiting &= {file for group in groups for file in group.files}
            if move is not None:
                return await self._as_a_whole(groups, move, fresh)
            return await self._work(groups, fresh)

    async def _as_a_whole(
        self, groups: list[Group], move: Move, fresh: set[str]
    ) -> tuple[Reloaded, ...]:
        start, before = time.perf_counter(), await self._prompt()
        todo, failures = groups, list[Failed]()
        while todo:
            failed = await exchange(self.ctx, self.graph, self.finder, todo, move)
            seconds = time.perf_counter() - start
            if failed is None:
                reports = [
                    report
                    for one in failures
                    for report in self._failed(one.guilty, one, seconds, fresh)
                ]
                return (*reports, await self._succeeded(todo, seconds, before))
            failures.append(failed)
            todo = [one for one in todo if one not in failed.guilty] if failed.guilty else []
        return ()

    async def _work(self, groups: list[Group], fresh: set[str]) -> tuple[Reloaded, ...]:
        reports: list[Reloaded] = []
        todo = self._worth_trying(groups, fresh)
        while todo:
            start = time.perf_counter()
            before = await self._prompt()
            failed = await exchange(self.ctx, self.graph, self.finder, todo)
            seconds = time.perf_counter() - start
            if failed is None:
                reports.append(await self._succeeded(todo, seconds, before))
                break
            guilty = failed.guilty or tuple(todo)
            if len(guilty) > 1 and not failed.guilty:
                # Nobody knows whose fault it was: each on its own.
                for group in todo:
                    reports += await self._work([group], fresh)
                break
            reports += self._failed(guilty, failed, seconds, fresh)
            todo = self._worth_trying([one for one in todo if one not in guilty], fresh)
        return tuple(reports)

    def _worth_trying(self, groups: Sequence[Group], fresh: set[str]) -> list[Group]:
        """Leave groups that failed before alone, unless something has changed since.

        Importing them again disturbs nobody, running their bodies does.
        """
        if any(not group.files.isdisjoint(fresh) for group in groups):
            return list(groups)
        return [
            group
            for group in groups
            if all(isinstance(self.stale.get(fiber), StagingError) for fiber in _heads(group))
        ]

    async def _succeeded(
        self, groups: Sequence[Group], seconds: float, before: PromptAssembly | None
    ) -> Reloaded:
        for group in groups:
            self._waiting -= group.files
            for fiber in group.fibers:
                self.stale.pop(fiber, None)
        after = await self._prompt() if before is not None else None
        diff = diff_assemblies(before, after) if before is not None and after is not None else None
        return _report(groups, seconds, None, diff)

    def _failed(
        self, groups: Sequence[Group], failed: Failed, seconds: float, fresh: set[str]
    ) -> list[Reloaded]:
        error = failed.error
        if isinstance(error, StagingError):
            error.__traceback__ = None  # leads only here, and would keep what was staged
        is_news = False
        for group in groups:
            self._waiting |= group.files
            is_news = is_news or not group.files.isdisjoint(fresh)
            for fiber in _heads(group):
                is_news = is_news or str(self.stale.get(fiber)) != str(error)
                self.stale[fiber] = error
        return [_report(groups, seconds, error)] if is_news else []

    async def _prompt(self) -> PromptAssembly | None:
        if self._assemble is None:
            return None
        try:
            return await self._assemble()
        except Exception:  # a prompt that cannot be assembled has no difference to another
            return None


def _heads(group: Group) -> list[Fiber]:
    return outermost(group.fibers)


def _report(
    groups: Sequence[Group],
    seconds: float,
    error: Exception | None,
    diff: AssemblyDiff | None = None,
) -> Reloaded:
    fibers = outermost(fiber for group in groups for fiber in group.fibers)
    modules = sorted({name for group in groups for name in group.modules})
    return Reloaded(tuple(fiber.path for fiber in fibers), tuple(modules), seconds, error, diff)
