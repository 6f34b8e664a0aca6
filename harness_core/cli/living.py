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
from ..errors import HarnessError, ManifestError
from ..loader import Loader, Plan, ReconcileError, fault_of
from ..prompt import AssemblyDiff
from ..reload import (
    Batch,
    Reloaded,
    Snapshot,
    StagingError,
    excerpt,
    place_of,
    watch,
)
from .prompts import Look, Prompts, UnusablePromptError
from .session import Session
from .trouble import Trouble, trouble_in_manifest, trouble_of
from .upkeep import TakenUp, Upkeep

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
        self.upkeep = Upkeep(root, loader)
        self.loader, self.reloader = loader, self.upkeep.reloader
        self._before = Snapshot(self.reloader.graph.roots, files=self._named)
        """The files as they were before plugins were imported: a save meanwhile is not lost."""
        self._before.scan()
        self.is_at_work = False
        """Whether plugins are being changed: their errors are reported with the change."""
        self._lock = anyio.Lock()
        self._meanwhile = Batch()
        self._prompts: Prompts

    async def run(self, session: Session, report: Callable[[Happening], object]) -> None:
        """Follow the files until cancelled; `report` hears of everything that happens."""
        troubles = map(trouble_of, session.faults())
        self._attend(session)
        look = await self._prompts.look()
        more = map(trouble_of, look.faults)
        names = tuple(fiber.name for fiber in self.loader.running.values())
        ready = Happening("ready", names, look.texts, (*troubles, *more))
        started = anyio.Event()
        batches = watch(self.reloader.graph.roots, files=self._named, started=started)

        async def announce() -> None:
            await started.wait()
            meanwhile = await anyio.to_thread.run_sync(self._before.scan)
            report(ready)
            if meanwhile:
                await self._follow(meanwhile, report)

        error: Exception | None = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(announce)
            try:
                async with aclosing(batches):
                    async for batch in batches:
                        await self._follow(batch, report)
            except Exception as caught:
                error = caught
            tasks.cancel_scope.cancel()
        if error is not None:
            raise error

    def _named(self) -> tuple[str | Path, ...]:
        """Return the files to follow besides code."""
        return (*self.reloader.ctx.kernel.readers(), self.upkeep.manifest)

    async def start(self, session: Session) -> None:
        """Take in the prompts as they are: for those who call `follow`, and do not `run`."""
        self._attend(session)
        await self._prompts.look()
        # Texts that plugins have read are known from now on; a save meanwhile is not forgotten.
        self._meanwhile = await anyio.to_thread.run_sync(self._before.scan)

    def _attend(self, session: Session) -> None:
        """From now on, refuse what spoils a prompt."""
        self._prompts = Prompts(session)
        session.root.kernel.tree.gate.judge = self._prompts.judge

    async def follow(self, report: Callable[[Happening], object]) -> bool:
        """Follow now what was saved since the last time; return whether anything was."""
        batch = self._meanwhile = self._meanwhile | await anyio.to_thread.run_sync(
            self._before.scan
        )
        if batch:
            await self._follow(batch, report)
        self._meanwhile = Batch()  # whoever is cancelled before leaves it to the next
        return bool(batch)

    async def _follow(self, batch: Batch, report: Callable[[Happening], object]) -> None:
        async with self._lock:
            self.is_at_work = True
            try:
                start = time.perf_counter()
                done = await self.upkeep.take_up(batch)
                for one in await self._told(done, start):
                    report(one)
            finally:
                self.is_at_work = False

    # Telling

    async def _told(self, done: TakenUp, start: float) -> list[Happening]:
        """Return what to tell: what was taken up as a whole is told as one."""
        look = await self._prompts.look()
        told = [self._of_reload(one) for one in done.reloaded]
        rows = self._of_rows(done)
        if rows is not None and done.as_a_whole and rows.plan is not None:
            whole = told.pop()
            names = dict.fromkeys([*rows.plugins, *whole.plugins])
            rows = attrs.evolve(rows, plugins=tuple(names))
        told += [rows] if rows is not None else []
        return self._with_prompts(told, look, time.perf_counter() - start)

    def _with_prompts(self, told: list[Happening], look: Look, seconds: float) -> list[Happening]:
        """Add what became of the prompts: differences where something has changed."""
        stale = self._stale()
        troubles = tuple(map(trouble_of, look.faults))
        changed = [one for one in told if one.event == "reloaded"] or told
        return [
            attrs.evolve(
                one,
                scopes=look.texts,
                troubles=(*one.troubles, *troubles),
                seconds=seconds,
                diffs=look.diffs if one is changed[-1] else {},
                stale=stale,
            )
            for one in told
        ]

    def _of_reload(self, one: Reloaded) -> Happening:
        names = tuple(path.rpartition("/")[2].partition("#")[0] for path in one.plugins)
        if one.error is None:
            return Happening("reloaded", names)
        return Happening("failed", names, troubles=(self._trouble(one.error, one.plugins),))

    def _of_rows(self, done: TakenUp) -> Happening | None:
        rows, names = done.rows, self.upkeep.names
        if isinstance(rows, Plan):
            changed = [change.id for change in rows if change.action != "keep"]
            ids = dict.fromkeys([*changed, *rows.restarts])
            return Happening("reloaded", tuple(names.get(one, one) for one in ids), plan=rows)
        if rows is None:
            return None
        faults = rows.faults if isinstance(rows, ReconcileError) else {"": rows}
        tell = self._trouble_in_code if done.as_a_whole else trouble_in_manifest
        return Happening(
            "failed",
            tuple(names.get(one, one) for one in faults if one),
            troubles=tuple(map(tell, faults.values())),
        )

    def _stale(self) -> tuple[str, ...]:
        return tuple(fiber.path for fiber in self.reloader.stale if not fiber.is_ending)

    def _trouble(self, error: Exception, paths: tuple[str, ...]) -> Trouble:
        if isinstance(error, UnusablePromptError):
            return trouble_of(error.fault)
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

    def _trouble_in_code(self, fault: ManifestError) -> Trouble:
        """Return what is wrong with a row: where its code raised, if it did."""
        cause = fault.__cause__
        is_ours = isinstance(cause, HarnessError) and not isinstance(cause, UnusablePromptError)
        if isinstance(cause, Exception) and not is_ours:
            return self._trouble(cause, ())
        return trouble_in_manifest(fault)
