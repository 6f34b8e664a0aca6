"""The tree's engine room: its tasks, its queue of transitions, its thread.

One `Tree` serves all fibers under one root. It knows what fibers have in common and none of their
nouns. Every task runs in one task group that is shielded from whatever cancels the code around
`async with Context()`: plugins end through teardown, in order, and in no other way.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from typing import Any, NoReturn, Protocol

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import current_token

from ..errors import ForeignThreadError
from .completion import Completion
from .gate import Gate
from .jobs import Job, logger
from .lifecycle import FiberState

__all__ = ["Owner", "Tree", "logger"]


def _always() -> bool:
    return True


class Owner(Protocol):
    """What a job and a step need to know of the fiber that owns them."""

    tree: Tree
    grace: float

    @property
    def parent(self) -> Owner | None:
        """The fiber above."""
        ...

    @property
    def path(self) -> str:
        """The fiber's place in the tree, for messages."""
        ...

    @property
    def state(self) -> FiberState:
        """Where the fiber is in its life."""
        ...

    async def wait_quiet(self) -> bool:
        """Wait until the fiber neither loads nor unloads; return whether it was so already."""
        ...

    def report(self, error: BaseException, during: str) -> None:
        """Log an error that has no caller to go to, and tell `fiber/error` listeners."""
        ...


class Tree:
    """What all fibers under one root share."""

    def __init__(self) -> None:
        self.places = itertools.count(1)
        """Registration order of everything, as numbers."""
        self.lives = 0
        """How many lives there are of plugins that may live twice at once."""
        self.silent: dict[Any, list[Any]] = {}
        """By life: its listeners, which hear nothing while the plugin's other life does."""
        self.thread = 0
        self.loop_runs: Callable[[], bool] = _always
        """Whether the loop of the tree runs. In its thread, it is then the one that runs now."""
        self.open = False
        self.on_state: Callable[[Any, Any], None] | None = None
        """Called with a fiber and its former state, when somebody wants to hear of it."""
        self.on_error: Callable[[Any, BaseException], None] | None = None
        """Called with a fiber and an error that has no caller to go to."""
        self._token: object = None
        self._tasks: TaskGroup | None = None
        self._outer: TaskGroup | None = None
        self._opened = Completion()
        self._closing = Completion()
        self._closed = Completion()
        self._queue: deque[Callable[[], None]] = deque()
        self._draining = False
        self._jobs: dict[int, Job] = {}
        self.gate = Gate(self)

    # Opening and closing

    async def start(self) -> None:
        """Open the task group that hosts every task of the tree."""
        self.thread = threading.get_ident()
        self._token = current_token()
        loop: Any = getattr(self._token, "native_token", None)
        self.loop_runs = getattr(loop, "is_running", self.loop_runs)
        self._outer = anyio.create_task_group()
        await self._outer.__aenter__()
        self._outer.start_soon(self._host)
        try:
            # Shielded: the host must come up, and then takes the tree down in order.
            with anyio.CancelScope(shield=True):
                await self._opened.wait()
        except BaseException as error:
            self._closing.finish()
            await self._outer.__aexit__(type(error), error, error.__traceback__)
            raise
        self.open = True

    async def _host(self) -> None:
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as self._tasks:
                self._opened.finish()
                await self._closing.wait()
        self._closed.finish()

    async def stop(self) -> None:
        """Wait for every task; the root fiber is disposed by then."""
        self.open = False
        self._closing.finish()
        await self._closed.wait()

    async def leave(self) -> None:
        """Leave the task group that `start` entered. The last act, in the same task."""
        if self._outer is not None:
            # Without the exception of the block: a task group would wrap it.
            await self._outer.__aexit__(None, None, None)

    # Tasks

    def spawn(self, fn: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        """Run `fn(*args)`, which never raises, in a task of the tree."""
        self.check_loop()
        if self._tasks is None:
            raise ForeignThreadError(
                "the tree is not open: use `async with Context() as root:` and stay inside"
            )
        self._tasks.start_soon(fn, *args)

    @contextmanager
    def running(self, job: Job) -> Generator[None, None, None]:
        """Record that the current task runs `job`."""
        task = anyio.get_current_task().id
        self._jobs[task] = job
        try:
            yield
        finally:
            del self._jobs[task]

    def current_job(self) -> Job | None:
        """Return the plugin code that the current task runs, if it runs any."""
        return self._jobs.get(anyio.get_current_task().id)

    def jobs(self) -> list[Job]:
        """Return all plugin code that runs in tasks, for diagnostics."""
        return list(self._jobs.values())

    def check_thread(self) -> None:
        """Raise ForeignThreadError in another thread or loop. Cheap; done at each registration."""
        if threading.get_ident() != self.thread or not self.loop_runs():
            self.refuse_foreign()

    def check_loop(self) -> None:
        """Raise ForeignThreadError unless called in the thread and loop that opened the tree."""
        self.check_thread()
        try:
            here = current_token()
        except Exception:  # no loop runs here at all
            self.refuse_foreign()
        if here != self._token:
            self.refuse_foreign()

    def refuse_foreign(self) -> NoReturn:
        """Raise ForeignThreadError."""
        raise ForeignThreadError(
            "this context belongs to another thread or event loop, its loop is gone, or its tree "
            "is not open yet: use `async with Context() as root:`. From another thread, come in "
            "with anyio.from_thread.run_sync(...)."
        )

    # The queue: transitions run one after the other, drained by whoever is outermost

    def enqueue(self, transition: Callable[[], None]) -> None:
        """Run `transition` now, or as soon as the one that runs now is over."""
        self._queue.append(transition)
        if not self._draining:
            self._draining = True
            try:
                while self._queue:
                    try:
                        self._queue.popleft()()
                    except Exception:  # a fault of this package: the others must go on
                        logger.exception("a transition failed")
            finally:
                self._draining = False
