"""Stepping in at any wait of a turn: in whichever task it is, each has a number."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from typing import Any

from harness_core.testing import Checkpoints


class Everywhere:
    """Numbers the waits of some code and of all tasks that begin meanwhile; acts at one of them."""

    def __init__(self, at: int, act: Callable[[], object]) -> None:
        self.at = at
        self.act = act
        self.passed = 0

    def step_in(self, _: int) -> None:
        """Count, and act if this is the one."""
        self.passed += 1
        if self.passed == self.at:
            self.act()

    def watch(self, awaitable: Any) -> Checkpoints[Any]:
        """Return an awaitable whose waits are counted."""
        return Checkpoints(awaitable, self.step_in)

    @contextmanager
    def tasks(self) -> Generator[None]:
        """Count the waits of the tasks that begin in this block."""
        loop = asyncio.get_running_loop()
        before = loop.get_task_factory()
        loop.set_task_factory(self._make)
        try:
            yield
        finally:
            loop.set_task_factory(before)

    def _make(self, loop: Any, code: Coroutine[Any, Any, Any], **options: Any) -> Any:
        async def drive() -> Any:
            return await self.watch(code)

        return asyncio.Task(drive(), loop=loop, **options)
