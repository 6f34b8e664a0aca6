"""One call at a time per scope, for tools that are not safe beside others.

A tool may call tools of its own scope while it runs. Such an inner call cannot wait for the outer
one, which waits for it; inner calls take turns among themselves instead.
"""

from __future__ import annotations

from collections import deque
from contextvars import ContextVar, Token

import anyio

__all__ = ["Turn", "Turns"]


class _Queue:
    """Whose turn it is in one scope, or among the inner calls of one call, and who waits."""

    __slots__ = ("inner", "is_taken", "key", "outer", "waiting")

    def __init__(self, key: object | None, outer: _Queue | None) -> None:
        self.key = key  # held, so that its identity is not used again
        self.outer = outer
        self.is_taken = False
        self.waiting: deque[anyio.Event] = deque()
        self.inner: _Queue | None = None
        """The queue of the calls that the running one makes; None when nothing runs."""

    @property
    def is_open(self) -> bool:
        """Whether the call that this is the inner queue of still runs."""
        return self.outer is not None and self.outer.inner is self


_inside: ContextVar[tuple[_Queue, ...]] = ContextVar("harness_tools_inside", default=())
"""The inner queues of the calls that this code runs in, innermost last."""


class Turn:
    """The right to run. `release` it in the task that took it."""

    __slots__ = ("_queue", "_token", "_turns")

    def __init__(self, turns: Turns, queue: _Queue) -> None:
        self._turns = turns
        self._queue = queue
        queue.inner = _Queue(queue.key, queue)
        self._token: Token[tuple[_Queue, ...]] = _inside.set((*_inside.get(), queue.inner))

    def release(self) -> None:
        """Let the next one run."""
        inner, self._queue.inner = self._queue.inner, None
        if inner is not None:
            # Timers and tasks that outlive the call keep its context variables.
            inner.key = inner.outer = None
        _inside.reset(self._token)
        self._turns.hand_on(self._queue)


class Turns:
    """The turns of every scope in which something runs. Empty when nothing does."""

    def __init__(self) -> None:
        self._queues: dict[int, _Queue] = {}

    def __len__(self) -> int:
        return len(self._queues)

    async def take(self, key: object | None) -> Turn:
        """Wait until it is this call's turn in the scope `key`; first come, first served."""
        queue = self._queue_for(key)
        if not queue.is_taken:
            queue.is_taken = True
            return Turn(self, queue)
        called = anyio.Event()
        queue.waiting.append(called)
        try:
            await called.wait()
        except BaseException:
            if called.is_set():  # it was our turn already: the next one must not wait for ever
                self.hand_on(queue)
            else:
                queue.waiting.remove(called)
            raise
        return Turn(self, queue)

    def hand_on(self, queue: _Queue) -> None:
        """Give the turn to whoever waits longest."""
        if queue.waiting:
            queue.waiting.popleft().set()
            return
        queue.is_taken = False
        if queue.outer is None:
            self._queues.pop(id(queue.key), None)

    def _queue_for(self, key: object | None) -> _Queue:
        for inner in reversed(_inside.get()):
            # A task may outlive the call it was started in; then it waits like everybody.
            if inner.key is key and inner.is_open:
                return inner
        queue = self._queues.get(id(key))
        if queue is None:
            queue = self._queues[id(key)] = _Queue(key, None)
        return queue
