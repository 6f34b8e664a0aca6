"""Work of an agent: one piece at a time, first come first served, in a task of its fiber.

A caller may go away at any moment, and so may the agent. The work is told, and whoever cares waits
until it has ended; nothing that it needs for that is taken from under it. Agents that share a
session have one turn at a time between them.
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
from harness_plugins.session.api import Session

if TYPE_CHECKING:
    from .agent import Agent

__all__ = ["Line", "Mark", "NestedTurnError", "Work", "line_of"]


class NestedTurnError(HarnessError, RuntimeError):
    """Code that a turn waits for asks for another turn of the same agent, or of one that waits."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent.name
        super().__init__(
            f'agent "{agent.name}" is in a turn that waits for this code, or shares a session with '
            "an agent that is. There is one turn at a time: this would wait for ever. Let the code "
            "return first, or ask another agent"
        )


class Mark:
    """Stands for a work: marks all code that runs inside of it."""

    __slots__ = ("waits",)

    def __init__(self) -> None:
        self.waits: list[Line] = []
        """The lines in which its code waits."""


class Line:
    """Whose turn it is with an agent or a session, and who waits."""

    def __init__(self) -> None:
        self.sections: tuple[str, ...] | None = None
        """The texts of the system prompt of an agent's last step; None before the first."""
        self.holder: Mark | None = None
        self._waiting: deque[tuple[Mark, anyio.Event]] = deque()

    async def take(self, mark: Mark) -> None:
        """Wait until it is the turn of `mark`. Not bound to a task, unlike a lock."""
        if self.holder is None:
            self.holder = mark
            return
        called = anyio.Event()
        place = (mark, called)
        self._waiting.append(place)
        try:
            await called.wait()
        except BaseException:
            if called.is_set():  # it was our turn already: the next one must not wait for ever
                self.hand_on()
            else:
                self._waiting.remove(place)
            raise

    def hand_on(self) -> None:
        """Give the turn to whoever waits longest."""
        if self._waiting:
            self.holder, called = self._waiting.popleft()
            called.set()
        else:
            self.holder = None

    def is_behind(self, marks: tuple[Mark, ...]) -> bool:
        """Whether it is held by one of `marks`, or by what waits for one of them."""
        seen: set[Line] = set()
        lines = [self]
        while lines:
            line = lines.pop()
            if line in seen or line.holder is None:
                continue
            if line.holder in marks:
                return True
            seen.add(line)
            lines += line.holder.waits
        return False


_lines: WeakKeyDictionary[Agent | Session, Line] = WeakKeyDictionary()


def line_of(one: Agent | Session) -> Line:
    """Return the line of an agent or a session; it goes with that."""
    line = _lines.get(one)
    if line is None:
        line = _lines[one] = Line()
    return line


_inside: ContextVar[tuple[Mark, ...]] = ContextVar("harness_agents_inside", default=())


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
        self._mark = Mark()
        self._held: list[Line] = []
        self._guard: Effect | None = None
        self._task: Effect | None = None

    async def start(self, prepare: Callable[[], Awaitable[Session]], name: str) -> None:
        """Wait for the agent's turn, open its session with `prepare`, wait for that; begin.

        Raises what `prepare` raises, NestedTurnError, and InactiveFiberError if the agent is gone.
        """
        try:
            await self._take(self.line)
            self.agent.ctx.fiber.check_open()
            await self._take(line_of(await prepare()))
            # After all that `prepare` has registered, so that it is torn down before.
            self._guard = self.agent.ctx.effect(lambda: self._end, label=name)
            self._task = self.agent.ctx.start_soon(self._run, name=name)
        except BaseException:
            self._end()
            raise

    async def _take(self, line: Line) -> None:
        """Wait in a line, and with us all work that this code is inside of."""
        marks = (*_inside.get(), self._mark)
        if line.is_behind(marks):
            raise NestedTurnError(self.agent)
        for mark in marks:
            mark.waits.append(line)
        try:
            await line.take(self._mark)
        finally:
            for mark in marks:
                mark.waits.remove(line)
        self._held.append(line)

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
        if self._guard is not None:
            self._guard()
        while self._held:
            self._held.pop().hand_on()
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
