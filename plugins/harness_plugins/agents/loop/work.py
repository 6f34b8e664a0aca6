"""Work of an agent: one piece at a time, first come first served, in a task of its fiber.

A caller may go away at any moment, and so may the agent. The work is told, and whoever cares waits
until it has ended; nothing that it needs for that is taken from under it. Agents that share a
session have one turn at a time between them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar

import anyio

from harness_core import Effect
from harness_core.errors import HarnessError
from harness_plugins.session.api import Session

from .lines import Line, Mark, line_of
from .speaker import Speaker

__all__ = ["NestedTurnError", "Work"]


class NestedTurnError(HarnessError, RuntimeError):
    """Code that a turn waits for asks for another turn of the same agent, or of one that waits."""

    def __init__(self, agent: Speaker) -> None:
        self.agent = agent.name
        super().__init__(
            f'agent "{agent.name}" is in a turn that waits for this code, or shares a session with '
            "an agent that is. There is one turn at a time: this would wait for ever. Let the code "
            "return first, or ask another agent"
        )


_inside: ContextVar[tuple[Mark, ...]] = ContextVar("harness_agents_inside", default=())


class Work:
    """One piece of work: `main` in a task of the agent's fiber, then `settle`, whatever happened.

    `main` is not called if the agent goes before it could begin.
    """

    def __init__(
        self, agent: Speaker, main: Callable[[], Awaitable[None]], settle: Callable[[], None]
    ) -> None:
        self.agent = agent
        self.is_over = False
        self._main = main
        self._settle = settle
        self._mark = Mark()
        self._held: list[Line] = []
        self._guard: Effect | None = None
        self._task: Effect | None = None

    async def start(self, prepare: Callable[[], Awaitable[Session]], name: str) -> None:
        """Wait for the agent's turn, open its session with `prepare`, wait for that; begin.

        Raises what `prepare` raises, NestedTurnError, and InactiveFiberError if the agent is gone,
        or goes meanwhile.
        """
        ctx = self.agent.ctx
        waiting = anyio.CancelScope()
        leaving = ctx.effect(lambda: waiting.cancel, label=f"{name} to come")
        try:
            with waiting:
                await self._take(line_of(self.agent))
                ctx.fiber.check_open()
                await self._take(line_of(await prepare()))
            # After all that `prepare` has registered, so that it is torn down before.
            self._guard = ctx.effect(lambda: self._end, label=name)
            self._task = ctx.start_soon(self._run, name=name)
        except BaseException:
            self._end()
            raise
        finally:
            leaving.forget()

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
