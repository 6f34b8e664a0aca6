"""Work of an agent: one piece at a time, first come first served, in a task of its fiber.

A caller may go away at any moment, and so may the agent. The work is told, and whoever cares waits
until it has ended; nothing that it needs for that is taken from under it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import anyio

from harness_core import Effect
from harness_core.errors import HarnessError

if TYPE_CHECKING:
    from .agent import Agent

__all__ = ["Line", "NestedTurnError", "Work", "line_of"]


class NestedTurnError(HarnessError, RuntimeError):
    """Code that a turn waits for asks for another turn of the same agent."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent.name
        super().__init__(
            f'agent "{agent.name}" is in a turn that waits for this code, and has one turn at a '
            "time: this would wait for ever. Let the code return first, or ask another agent"
        )


class Line:
    """Whose turn it is with an agent, and who waits; and what its last request began with."""

    def __init__(self) -> None:
        self.sections: tuple[str, ...] | None = None
        """The texts of the system prompt of the last step; None before the first."""
        self._is_taken = False
        self._waiting: deque[anyio.Event] = deque()

    async def take(self) -> None:
        """Wait until it is the caller's turn. Not bound to a task, unlike a lock."""
        if not self._is_taken:
            self._is_taken = True
            return
        called = anyio.Event()
        self._waiting.append(called)
        try:
            await called.wait()
        except BaseException:
            if called.is_set():  # it was our turn already: the next one must not wait for ever
                self.hand_on()
            else:
                self._waiting.remove(called)
            raise

    def hand_on(self) -> None:
        """Give the turn to whoever waits longest."""
        if self._waiting:
            self._waiting.popleft().set()
        else:
            self._is_taken = False


_lines: WeakKeyDictionary[Agent, Line] = WeakKeyDictionary()


def line_of(agent: Agent) -> Line:
    """Return the line of an agent; it goes with the agent."""
    line = _lines.get(agent)
    if line is None:
        line = _lines[agent] = Line()
    return line


class _Mark:
    """Marks code that runs inside of a work. Emptied when that is over: timers keep contexts."""

    __slots__ = ("agent",)

    def __init__(self, agent: Agent) -> None:
        self.agent: Agent | None = agent


_inside: ContextVar[tuple[_Mark, ...]] = ContextVar("harness_agents_inside", default=())


class Work:
    """One piece of work: `main` in a task of the agent's fiber, then `settle`, whatever happened.

    `main` is not called if the agent goes before it could begin.
    """

    def __init__(
        self, agent: Agent, main: Callable[[], Awaitable[None]], settle: Callable[[], None]
    ) -> None:
        self.agent = agent
        self.line = line_of(agent)
        self.is_over = False
        self._main = main
        self._settle = settle
        self._mark = _Mark(agent)
        self._guard: Effect | None = None
        self._task: Effect | None = None

    async def start(self, prepare: Callable[[], Awaitable[None]], name: str) -> None:
        """Wait for the agent's turn, prepare, and begin.

        Raises what `prepare` raises, NestedTurnError, and InactiveFiberError if the agent is gone.
        """
        if any(mark.agent is self.agent for mark in _inside.get()):
            raise NestedTurnError(self.agent)
        await self.line.take()
        try:
            self.agent.ctx.fiber.check_open()
            await prepare()
            # After all that `prepare` has registered, so that it is torn down before.
            self._guard = self.agent.ctx.effect(lambda: self._end, label=name)
            self._task = self.agent.ctx.start_soon(self._run, name=name)
        except BaseException:
            self._end()
            raise

    async def _run(self) -> None:
        _inside.set((*_inside.get(), self._mark))
        try:
            await self._main()
        finally:
            self._end()

    def _end(self) -> None:
        """Let the next one in. Also called when the task was cancelled before it began."""
        if self.is_over:
            return
        self.is_over = True
        self._mark.agent = None
        if self._guard is not None:
            self._guard()
        self.line.hand_on()
        self._settle()

    async def ended(self, cancel: Callable[[], None]) -> None:
        """Call `cancel` and wait until the work is over; after the agent's grace, by force."""
        if self._task is None:
            return
        cancel()
        with anyio.CancelScope(shield=True):
            await _to_the_end(self._task)


async def _to_the_end(end: Effect) -> None:
    """Undo an effect and wait for it. `task.cancel()` passes every shield: it comes after."""
    interrupted: BaseException | None = None
    is_over = False
    while not is_over:
        try:
            await end()
            is_over = True
        except anyio.get_cancelled_exc_class() as error:
            interrupted = error
    if interrupted is not None:
        raise interrupted
