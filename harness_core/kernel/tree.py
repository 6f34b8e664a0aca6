"""The tree's engine room: its tasks, its queue, its thread, its gate, its error report.

One `Tree` serves all fibers under one root. It knows what fibers have in common and none of their
nouns. Every task runs in one task group that is shielded from whatever cancels the code around
`async with Context()`: plugins end through teardown, in order, and in no other way.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import anyio
from anyio.abc import TaskGroup, TaskStatus
from anyio.lowlevel import current_token

from ..errors import ForeignThreadError, SwapTimeoutError
from .steps import Completion

__all__ = ["Owner", "Tree", "logger"]

logger = logging.getLogger("harness_core")

SWAP_TIMEOUT = 30.0
"""Seconds that an assembly waits for plugins that are being swapped (law L8)."""


class Owner(Protocol):
    """What a job and a step need to know of the fiber that owns them."""

    tree: Tree
    grace: float

    @property
    def path(self) -> str:
        """The fiber's place in the tree, for messages."""
        ...

    def report(self, error: BaseException, during: str) -> None:
        """Log an error that has no caller to go to, and tell `fiber/error` listeners."""
        ...


class Tree:
    """What all fibers under one root share."""

    def __init__(self) -> None:
        self.places = itertools.count(1)
        """Registration order of everything, as numbers."""
        self.thread = 0
        self.open = False
        self.on_state: Callable[[Any, Any], None] | None = None
        """Called with a fiber and its former state, when somebody wants to hear of it."""
        self.on_error: Callable[[Any, BaseException], None] | None = None
        """Called with a fiber and an error that has no caller to go to."""
        self._token: object = None
        self._tasks: TaskGroup | None = None
        self._outer: TaskGroup | None = None
        self._closing = Completion()
        self._closed = Completion()
        self._queue: deque[Callable[[], None]] = deque()
        self._draining = False
        self._code: dict[int, Owner] = {}
        self._swapping: dict[str, int] = {}
        self._swapped = Completion(done=True)

    # Opening and closing

    async def start(self) -> None:
        """Open the task group that hosts every task of the tree."""
        self.thread = threading.get_ident()
        self._token = current_token()
        self._outer = anyio.create_task_group()
        await self._outer.__aenter__()
        await self._outer.start(self._host)
        self.open = True

    async def _host(self, *, task_status: TaskStatus[None]) -> None:
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as self._tasks:
                task_status.started()
                await self._closing.wait()
        self._closed.finish()

    async def stop(self) -> None:
        """Wait for every task and close; the root fiber is disposed by then."""
        self.open = False
        with anyio.CancelScope(shield=True):
            self._closing.finish()
            await self._closed.wait()
        if self._outer is not None:
            # Without the exception of the block: a task group would wrap it.
            await self._outer.__aexit__(None, None, None)

    # Tasks

    def spawn(self, fn: Callable[..., Awaitable[Any]], *args: object) -> None:
        """Run `fn(*args)`, which never raises, in a task of the tree."""
        self.check_loop()
        if self._tasks is None:
            raise ForeignThreadError(
                "the tree is not open: use `async with Context() as root:` and stay inside"
            )
        self._tasks.start_soon(fn, *args)

    @contextmanager
    def running_for(self, owner: Owner) -> Iterator[None]:
        """Record that the current task runs code of `owner`."""
        task = anyio.get_current_task().id
        self._code[task] = owner
        try:
            yield
        finally:
            del self._code[task]

    def owner_of_current_task(self) -> Owner | None:
        """Return the fiber whose code the current task runs, if it is any's."""
        return self._code.get(anyio.get_current_task().id)

    def check_thread(self) -> None:
        """Raise ForeignThreadError in another thread. Cheap; done at each registration."""
        if threading.get_ident() != self.thread:
            self.check_loop()

    def check_loop(self) -> None:
        """Raise ForeignThreadError unless called in the thread and loop that opened the tree."""
        here: object = None
        if self.thread == threading.get_ident():
            try:
                here = current_token()
            except Exception:
                here = None  # no loop runs here at all
        if here != self._token:
            raise ForeignThreadError(
                "this context belongs to another thread or event loop, or its loop is gone. "
                "From another thread, use anyio.from_thread.run_sync(...) to come in."
            )

    # The queue: transitions run one after the other, drained by whoever is outermost

    def enqueue(self, transition: Callable[[], None]) -> None:
        """Run `transition` now, or as soon as the one that runs now is over."""
        self._queue.append(transition)
        if not self._draining:
            self._draining = True
            try:
                while self._queue:
                    self._queue.popleft()()
            finally:
                self._draining = False

    # The gate: assemblies wait while plugins are being swapped (law L8)

    @contextmanager
    def swapping(self, path: str) -> Iterator[None]:
        """Hold the gate while the plugin at `path` is between two versions."""
        if not self._swapping:
            self._swapped = Completion()
        self._swapping[path] = self._swapping.get(path, 0) + 1
        try:
            yield
        finally:
            self._swapping[path] -= 1
            if not self._swapping[path]:
                del self._swapping[path]
            if not self._swapping:
                self._swapped.finish()

    @property
    def is_swapping(self) -> bool:
        """Whether the gate is closed."""
        return bool(self._swapping)

    async def wait_swapped(self, seconds: float = SWAP_TIMEOUT) -> None:
        """Wait until no plugin is between two versions; raise SwapTimeoutError after `seconds`."""
        with anyio.move_on_after(seconds):
            while self._swapping:
                await self._swapped.wait()
            return
        raise SwapTimeoutError(seconds, self._swapping)
