"""A running harness that follows its files: reloads code, reconciles rows, tells what became of it.

Contract: section 9, and section 10, `harness dev`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import attrs

from .. import Context
from ..errors import ManifestError
from ..loader import Loader, Plan, ReconcileError, fault_of
from ..prompt import AssemblyDiff, PromptAssembly, diff_assemblies, render_prompt
from ..reload import (
    Batch,
    Reloaded,
    Reloader,
    Snapshot,
    StagingError,
    excerpt,
    place_of,
    watch,
)
from .faults import fault_in_scope
from .roots import RowFinder, roots_of
from .session import Session
from .trouble import Trouble, trouble_in_manifest, trouble_of

__all__ = ["Happening", "Living"]


@attrs.frozen
class Happening:
    """One thing that happened: `event` is "ready", "reloaded", "failed" or "stopped".

    `scopes` holds the system text of each scope, `diffs` what changed in it, `stale` the plugins
    that run an older version of their code.
    """

    event: str
    plugins: tuple[str, ...] = ()
    scopes: dict[str, str] = attrs.field(factory=dict[str, str])
    troubles: tuple[Trouble, ...] = ()
    seconds: float = 0.0
    diffs: dict[str, AssemblyDiff] = attrs.field(factory=dict[str, AssemblyDiff])
    plan: Plan | None = None
    stale: tuple[str, ...] = ()

    def as_data(self) -> dict[str, Any]:
        """Return what `harness dev --json` prints. Paths of files are absolute."""
        first = self.troubles[0] if self.troubles else None
        file = os.path.abspath(first.file) if first is not None and first.file else None
        return {
            "event": self.event,
            "plugins": list(self.plugins),
            "scopes": self.scopes,
            "error": first and {"file": file, "line": first.line, "message": first.message},
            "seconds": round(self.seconds, 6),
        }


class Living:
    """Follows the files of one session. Made before plugins are imported."""

    def __init__(self, root: Context, loader: Loader) -> None:
        self.loader = loader
        self.reloader = Reloader(root, roots_of(loader), RowFinder(loader))
        self.manifest = Path(os.path.realpath(loader.manifest.path))
        self._before = Snapshot(self.reloader.graph.roots, files=self._named)
        """The files as they were before plugins were imported: a save meanwhile is not lost."""
        self._before.scan()
        self.is_at_work = False
        """Whether plugins are being changed: their errors are reported with the change."""
        self._lock = anyio.Lock()
        self._is_behind = False
        """Whether the file says something else than what runs."""
        self._said: str | None = None
        self._names: dict[str, str] = {}
        self._last: dict[str, PromptAssembly] = {}

    async def run(self, session: Session, report: Callable[[Happening], object]) -> None:
        """Follow the files until cancelled; `report` hears of everything that happens."""
        troubles = map(trouble_of, session.faults())
        scopes, _, more = await self._look(session)
        names = tuple(fiber.name for fiber in self.loader.running.values())
        ready = Happening("ready", names, scopes, (*troubles, *more))
        started = anyio.Event()
        batches = watch(self.reloader.graph.roots, files=self._named, started=started)

        async def announce() -> None:
            await started.wait()
            meanwhile = await anyio.to_thread.run_sync(self._before.scan)
            report(ready)
            if meanwhile:
                await self._follow(session, meanwhile, report)

        error: Exception | None = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(announce)
            try:
                async with aclosing(batches):
                    async for batch in batches:
                        await self._follow(session, batch, report)
            except Exception as caught:
                error = caught
            tasks.cancel_scope.cancel()
        if error is not None:
            raise error

    def _named(self) -> tuple[str | Path, ...]:
        """Return the files to follow besides code."""
        return (*self.reloader.ctx.kernel.watched_files, self.manifest)

    async def start(self, session: Session) -> None:
        """Take in the prompts as they are: for those who call `follow`, and do not `run`."""
        await self._look(session)

    async def follow(self, session: Session, report: Callable[[Happening], object]) -> bool:
        """Follow now what was saved since the last time; return whether anything was."""
        batch = await anyio.to_thread.run_sync(self._before.scan)
        if batch:
            await self._follow(session, batch, report)
        return bool(batch)

    async def _follow(
        self, session: Session, batch: Batch, report: Callable[[Happening], object]
    ) -> None:
        async with self._lock:
            self.is_at_work = True
            try:
                await self._catch_up(session, batch, report)
            finally:
                self.is_at_work = False

    async def _catch_up(
        self, session: Session, batch: Batch, report: Callable[[Happening], object]
    ) -> None:
        start = time.perf_counter()
        is_about_rows = self.manifest in batch.files
        reloaded = await self._reload(batch)
        if is_about_rows or self._is_behind or self.loader.refused:
            done = await self._reconcile(is_about_rows)
            failed = [one for one in reloaded if one.error is not None]
            if isinstance(done, Plan) and done and failed:
                # The old rows may not have suited the new code.
                reloaded = [one for one in reloaded if one.error is None]
                reloaded += await self._reload(batch)
        else:
            done = None
        for one in reloaded:
            report(await self._of_reload(session, one, start))
        if done is not None:
            report(await self._of_rows(session, done, start))

    async def _reload(self, batch: Batch) -> list[Reloaded]:
        async with self.loader.lock:
            return [*await self.reloader.reload(batch)]

    async def _reconcile(self, is_about_rows: bool) -> Plan | ManifestError | None:
        """Reconcile; return None if there is nothing new to say."""
        before = set(self.loader.refused)
        names = {one: fiber.name for one, fiber in self.loader.running.items()}
        try:
            plan = await self.loader.reconcile()
        except ManifestError as error:
            self._is_behind = True
            is_news = is_about_rows or str(error) != self._said
            self._said = str(error)
            return error if is_news else None
        finally:
            self._names = names | {one: fiber.name for one, fiber in self.loader.running.items()}
        was_behind, self._is_behind, self._said = self._is_behind, False, None
        is_news = is_about_rows or was_behind or before != set(self.loader.refused)
        return plan if is_news else None

    # Telling

    async def _of_reload(self, session: Session, one: Reloaded, start: float) -> Happening:
        names = tuple(path.rpartition("/")[2].partition("#")[0] for path in one.plugins)
        scopes, diffs, troubles = await self._look(session)
        if one.error is not None:
            troubles = (self._trouble(one.error, one.plugins), *troubles)
        return Happening(
            "reloaded" if one.error is None else "failed",
            names,
            scopes,
            troubles,
            time.perf_counter() - start,
            diffs,
            stale=self._stale(),
        )

    async def _of_rows(
        self, session: Session, done: Plan | ManifestError, start: float
    ) -> Happening:
        scopes, diffs, troubles = await self._look(session)
        event, plan, ids = "reloaded", None, tuple[str, ...]()
        if isinstance(done, Plan):
            plan = done
            changed = [change.id for change in done if change.action != "keep"]
            ids = tuple(dict.fromkeys([*changed, *done.restarts]))
        else:
            event = "failed"
            faults = done.faults if isinstance(done, ReconcileError) else {"": done}
            ids = tuple(one for one in faults if one)
            troubles = (*map(trouble_in_manifest, faults.values()), *troubles)
        names = tuple(self._names.get(one, one) for one in ids)
        seconds = time.perf_counter() - start
        return Happening(event, names, scopes, troubles, seconds, diffs, plan, self._stale())

    def _stale(self) -> tuple[str, ...]:
        return tuple(fiber.path for fiber in self.reloader.stale if not fiber.is_ending)

    def _trouble(self, error: Exception, paths: tuple[str, ...]) -> Trouble:
        if isinstance(error, StagingError):
            return Trouble(error.reason, error.file, error.line, error.excerpt)
        file, line = place_of(error, self.reloader.graph.roots)
        if file is not None and line is not None:
            message = f"{type(error).__name__}: {error}"
            return Trouble(message, file, line, excerpt(file, line))
        row = next((one for fiber, one in self.loader.mounted.items() if fiber.path in paths), None)
        if row is None:
            return Trouble(f"{type(error).__name__}: {error}")
        return trouble_in_manifest(fault_of(row.entry, error))

    async def _look(
        self, session: Session
    ) -> tuple[dict[str, str], dict[str, AssemblyDiff], tuple[Trouble, ...]]:
        """Assemble every scope; return texts, differences to the last time, and troubles."""
        texts: dict[str, str] = {}
        diffs: dict[str, AssemblyDiff] = {}
        troubles: list[Trouble] = []
        views = session.scopes() if session.root.get("system_prompt") is not None else []
        for view in views:
            try:
                assembly = await view.assemble()
                texts[view.name] = render_prompt(assembly)
                before = self._last.get(view.name)
                if before is not None:
                    diffs[view.name] = diff_assemblies(before, assembly)
            except Exception as error:
                troubles.append(trouble_of(fault_in_scope(error, view.name)))
            else:
                self._last[view.name] = assembly
        for name in self._last.keys() - {view.name for view in views}:
            del self._last[name]
        return texts, diffs, tuple(troubles)
