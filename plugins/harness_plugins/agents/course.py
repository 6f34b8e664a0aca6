"""Course: one turn, from the user's message to the reason for which it ended.

Reading order: `run` is the order of work. Two parts of it are shielded from every cancellation,
the first, which writes down what the user said, and the last, which answers what was left open.
What can fail in between is a `StepEnd` with a reason, so a cancellation is all that is raised.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import anyio
import attrs
from anyio.streams.memory import MemoryObjectReceiveStream

from harness_core import FiberState
from harness_plugins.llm.api import Message, ToolRequest, Usage
from harness_plugins.session.api import Draft, History, LogEvent, Session
from harness_plugins.tools.api import ToolResult

from .limits import Limits
from .loop_events import StepEnd
from .running import Work
from .signals import Signal, is_signalled, wait_signalled
from .strays import no_strays
from .turns import FAILURES, AgentEvent, TurnEnded, TurnReason, TurnResult, TurnStarted
from .written import (
    CANCELLED,
    INTERRUPTED,
    NOT_RUN,
    answer_of,
    ending_of,
    is_pending,
    message_of,
    unfinished,
)

if TYPE_CHECKING:
    from .agent import Agent

__all__ = ["Course"]


class Course:
    """One turn of an agent. `events` gives what happens in it, `TurnEnded` last."""

    session: Session
    """Open from `start` on."""

    def __init__(
        self,
        agent: Agent,
        text: str,
        steps: Callable[[Course], Awaitable[StepEnd]],
        signal: Signal | None,
        random: Callable[[], float],
    ) -> None:
        self.agent = agent
        self._steps = steps
        self.limits: Limits = agent.limits or Limits()
        self.random = random
        self.scope = anyio.CancelScope()
        """The signal of everything that the turn waits for."""
        self.usage = Usage()
        self.text = ""
        self.steps = 0
        self.began = 0
        """The number of the first event of the turn in the log."""
        self.before = History()
        """The history as it was before the turn."""
        self.may_compact = True
        self.results: dict[str, ToolResult] = {}
        """What tools have answered, by the id of the request, also before it is written."""
        self.started: set[str] = set()
        """The ids of the requests whose tools were called."""
        self.events: MemoryObjectReceiveStream[AgentEvent]
        # Without a bound: a slow reader loses nothing and holds up nobody.
        self._feed, self.events = anyio.create_memory_object_stream[AgentEvent](math.inf)
        self._said = text if text.strip() else ""
        self._signal = signal
        self._is_given_up = False
        self._is_told = False
        self._work = Work(agent, self.run, self._settle)
        self.line = self._work.line

    async def start(self) -> None:
        """Wait for the agent's turn, open its session, begin. Raises what these raise."""
        try:
            await self._work.start(self._open_session, "turn")
        except BaseException:
            self.events.close()
            self._feed.close()
            raise

    async def _open_session(self) -> Session:
        agent = self.agent
        if not self._said and agent.session is None and agent.wanted_session is None:
            self.session = Session("")  # nothing will be said: no session is made for that
        else:
            self.session = await agent.open_session()
        return self.session

    async def stop(self) -> None:
        """Cancel the turn if it is not over, and wait until it is."""
        self.events.close()
        await self._work.ended(self._give_up)

    def _give_up(self) -> None:
        self._is_given_up = True
        self.scope.cancel()

    def _settle(self) -> None:
        """Tell the reader that the turn is over, however that came."""
        if not self._is_told:  # it never began, or was ended by force
            self.emit(TurnEnded(self.result(StepEnd(self._reason_of_cancellation()))))
        self._feed.close()

    def emit(self, event: AgentEvent) -> None:
        """Tell the reader of the turn; nobody may be reading any more."""
        self._is_told = self._is_told or isinstance(event, TurnEnded)
        try:
            self._feed.send_nowait(event)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass

    # The order of work

    async def run(self) -> None:
        """Run the turn."""
        try:
            ending = await self._run()
        except anyio.get_cancelled_exc_class():  # of the agent's fiber; ours are caught inside
            await self._end(StepEnd(self._reason_of_cancellation()))
            raise
        # Not in a `finally`: code that is closed by force must not wait for anything.
        await self._end(ending)

    async def _run(self) -> StepEnd:
        ending: StepEnd | None = None
        try:
            with anyio.CancelScope(shield=True):
                ending = await self._begin()
            if ending is None:
                if self.limits.max_seconds is not None:
                    self.scope.deadline = anyio.current_time() + self.limits.max_seconds
                with self.scope, no_strays():
                    ending = await self._until_signalled()
        except Exception as error:  # a fault of the loop; the agent must not fall because of it
            ending = StepEnd("failed", error=error)
        return ending or StepEnd(self._reason_of_cancellation())

    def _reason_of_cancellation(self) -> TurnReason:
        if self._is_given_up:
            return "cancelled"
        if not self._is_live():
            return "disposed"
        return "max-seconds" if self.scope.deadline <= anyio.current_time() else "cancelled"

    async def _begin(self) -> StepEnd | None:
        """Write the user's message, and answers to what an interrupted turn left open."""
        history = self.before = self.session.history
        left = history.unanswered
        if not self._said and not left and not is_pending(history):
            return StepEnd("nothing-to-say")
        drafts = [answer_of(one, unfinished(one, INTERRUPTED)) for one in left]
        drafts.append(Draft("turn-started", {"agent": self.agent.name}))
        if self._said:
            drafts.append(message_of(Message("user", self._said)))
        try:
            events = await self.write(drafts)
        except Exception as error:
            return StepEnd("history-failed", error=error)
        self.began = events[0].seq
        self.emit(TurnStarted(self.session.id, events[-1].seq if self._said else None))
        return None

    async def _until_signalled(self) -> StepEnd | None:
        """Make steps until the turn is over or somebody gives the signal."""
        signal = self._signal
        if signal is None:
            return await self._steps(self)

        async def watch() -> None:
            await wait_signalled(signal)
            self._give_up()

        if is_signalled(signal):
            self._give_up()
        ending: StepEnd | None = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            ending = await self._steps(self)
            tasks.cancel_scope.cancel()
        return ending

    async def write(self, drafts: Sequence[Draft]) -> tuple[LogEvent, ...]:
        """Write into the log, wherever it is now: its keeper may have been restarted meanwhile."""
        if not self.session.is_open and self._is_live():
            gate = self.agent.ctx.kernel.tree.gate
            if gate.swaps:
                await gate.wait_open()
            self.session = await self.agent.open_session()
        with no_strays():
            return await self.session.append_all(drafts)

    def _is_live(self) -> bool:
        return self.agent.ctx.fiber.state in (FiberState.LOADING, FiberState.ACTIVE)

    async def _end(self, ending: StepEnd) -> None:
        """Answer what is open, write how the turn ended, and tell the reader."""
        if ending.reason in FAILURES and not self._is_live():
            ending = attrs.evolve(ending, reason="disposed")  # that is why it failed
        reason = ending.reason
        if not self.began:  # nothing was to be said, or it could not be written down
            self.emit(TurnEnded(self.result(ending)))
            return
        drafts = [
            answer_of(one, self.results.get(one.id) or self._unfinished(one, reason))
            for one in self.session.history.unanswered
        ]
        result = self.result(ending)
        try:
            with anyio.CancelScope(shield=True):
                await self.write([*drafts, ending_of(result)])
        except Exception as error:
            if not result.is_error and reason not in ("cancelled", "disposed"):
                result = attrs.evolve(result, reason="history-failed")
            result = attrs.evolve(result, error=result.error or error)
        self.emit(TurnEnded(result))

    def _unfinished(self, request: ToolRequest, reason: TurnReason | None) -> ToolResult:
        return unfinished(request, CANCELLED if request.id in self.started else NOT_RUN, reason)

    def result(self, ending: StepEnd) -> TurnResult:
        """Return what the turn amounts to, if it ends so."""
        return TurnResult(ending.reason or "done", self.text, self.steps, self.usage, ending.error)

    def add_usage(self, usage: Usage) -> None:
        """Count the tokens of a reply."""
        self.usage = self.usage + usage
