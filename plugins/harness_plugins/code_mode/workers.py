"""The processes of all scopes: taken for a run, kept for the next one, ended when nobody asks."""

from __future__ import annotations

import weakref
from collections.abc import Callable

import anyio
import attrs

from .worker import Limits, Worker

__all__ = ["Workers"]


@attrs.frozen(eq=False)
class _Idle:
    """A process that waits for the next run in its scope, since a moment.

    `scope()` is the scope's key, as long as somebody else holds that.
    """

    scope: Callable[[], object | None]
    worker: Worker
    since: float


class Workers:
    """Processes by scope. At most `keep` wait for a next run, each for `idle` seconds."""

    def __init__(self, limits: Limits, keep: int, idle: float) -> None:
        self._limits = limits
        self._keep = keep
        self._seconds = idle
        self._idle: list[_Idle] = []
        """Those that wait, the longest waiting first."""
        self._busy: set[Worker] = set()
        self._changed = anyio.Event()
        self._clock: Callable[[], float] = anyio.current_time

    @property
    def all(self) -> list[Worker]:
        """Every process, running code or waiting."""
        return [*self._busy, *(one.worker for one in self._idle)]

    async def take(self, key: object | None) -> Worker:
        """Return the process that waits in a scope, or a new one.

        Raises ToolError if none can be started.
        """
        for one in self._idle:
            if one.scope() is key:
                self._idle.remove(one)
                self._busy.add(one.worker)
                return one.worker
        worker = await Worker.start(self._limits)
        self._busy.add(worker)
        try:
            await worker.wait_ready()
        except BaseException:
            worker.is_spent = True
            await self.give_back(key, worker)
            raise
        return worker

    async def give_back(self, key: object | None, worker: Worker) -> None:
        """Keep a process for the next run in the scope, or end it if it is spent."""
        too_many: list[Worker] = []
        self._busy.discard(worker)
        if worker.is_spent or not self._keep:
            too_many.append(worker)
        else:
            self._idle.append(_Idle(_weakly(key), worker, self._clock()))
            while len(self._idle) > self._keep:
                too_many.append(self._idle.pop(0).worker)
            self._changed.set()
        await _end(too_many)

    async def end_idle(self) -> None:
        """End processes that have waited too long; runs until it is cancelled."""
        while True:
            if not self._idle:
                self._changed = anyio.Event()
                await self._changed.wait()
                continue
            due = self._idle[0].since + self._seconds
            if due > self._clock():
                await anyio.sleep_until(due)
            else:
                await _end([self._idle.pop(0).worker])

    async def close(self) -> None:
        """End all processes, and wait for their ends."""
        idle, self._idle = self._idle, []
        await _end([*(one.worker for one in idle), *self._busy])
        self._busy.clear()


_GONE = object()


def _weakly(key: object | None) -> Callable[[], object | None]:
    """Return what gives a key, and does not keep it if that can be helped."""
    try:
        reference = weakref.ref(key)
    except TypeError:
        return lambda: key
    # A scope that is gone is not the global layer, whose key is None.
    return lambda: _GONE if (held := reference()) is None else held


async def _end(workers: list[Worker]) -> None:
    # Shielded: whoever is cancelled meanwhile must not leave a process behind.
    with anyio.CancelScope(shield=True):
        async with anyio.create_task_group() as tasks:
            for worker in workers:
                tasks.start_soon(worker.end)
