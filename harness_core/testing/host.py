"""A live tree that is opened and closed by a task of its own.

A task group must be left by the task that entered it. Fixtures, and tests that take one step at a
time, set up in one task and tear down in another; so the tree lives in a third, which waits
between. Nothing owns that task but the loop, which is why asyncio is used here and not anyio.
"""

from __future__ import annotations

import asyncio

from ..kernel.context import Context

__all__ = ["TreeHost"]


class TreeHost:
    """Opens a tree with `start`, closes it with `stop`; both may be awaited in any task.

    The two calls must be made in one event loop. An error that opening or closing raises reaches
    whoever awaits.
    """

    def __init__(self, *, grace: float | None = None) -> None:
        self.root = Context(grace=grace)
        self._opened = asyncio.Event()
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> Context:
        """Open the tree and return its root context."""
        self._task = asyncio.create_task(self._host(), name="harness tree")
        opened = asyncio.create_task(self._opened.wait())
        await asyncio.wait({self._task, opened}, return_when=asyncio.FIRST_COMPLETED)
        if not self._opened.is_set():
            opened.cancel()
            await self._task
        return self.root

    async def stop(self) -> None:
        """Dispose the whole tree and wait until its last task has ended. Idempotent."""
        self._closing.set()
        if self._task is not None:
            await asyncio.shield(self._task)

    async def _host(self) -> None:
        async with self.root:
            self._opened.set()
            await self._closing.wait()
