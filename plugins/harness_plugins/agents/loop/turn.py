"""Turn: from the user's message to the reason for which it ended.

Reading order: `_run` is the order of work. Two parts of it are shielded from every cancellation,
the first, which writes down what the user said, and the last, which answers what was left open.
What can fail in between is a `StepEnd` with a reason, so a cancellation is all that is raised.
"""

from __future__ import annotations

from collections.abc import Callable

import anyio
import attrs

from harness_plugins.llm.api import Message, ToolRequest
from harness_plugins.session.api import Draft, Session
from harness_plugins.tools.api import ToolResult

from .course import Course
from .drafts import (
    CANCELLED,
    INTERRUPTED,
    NOT_RUN,
    answer_of,
    ending_of,
    is_pending,
    message_of,
    unfinished,
)
from .events import StepEnd
from .records import FAILURES, TurnEnded, TurnReason, TurnStarted
from .signals import Signal, is_signalled, wait_signalled
from .speaker import Speaker
from .steps import make_steps
from .strays import no_strays
from .work import Work

__all__ = ["Turn"]


class Turn:
    """One turn of an agent. `events` gives what happens in it, `TurnEnded` last."""

    def __init__(
        self, agent: Speaker, text: str, signal: Signal | None, random: Callable[[], float]
    ) -> None:
        self.course = Course(agent, random)
        self.events = self.course.events
        self._said = text if text.strip() else ""
        self._signal = signal
        self._is_given_up = False
        self._work = Work(agent, self._run, self._settle)

    async def start(self) -> None:
        """Wait for the agent's turn, open its session, begin. Raises what these raise."""
        try:
            await self._work.start(self._open_session, "turn")
        except BaseException:
            self.events.close()
            self.course.close()
            raise

    async def _open_session(self) -> Session:
        agent = self.course.agent
        if not self._said and agent.session is None and agent.wanted_session is None:
            session = Session("")  # nothing will be said: no session is made for that
        else:
            session = await agent.open_session()
        self.course.session = session
        return session

    async def stop(self) -> None:
        """Cancel the turn if it is not over, and wait until it is."""
        self.events.close()
        await self._work.ended(self._give_up)

    def _give_up(self) -> None:
        self._is_given_up = True
        self.course.scope.cancel()

    def _settle(self) -> None:
        """Tell the reader that the turn is over, however that came."""
        if not self.course.is_told:  # it never began, or was ended by force
            ending = StepEnd(self._reason_of_cancellation())
            self.course.emit(TurnEnded(self.course.result(ending)))
        self.course.close()

    # The order of work

    async def _run(self) -> None:
        try:
            ending = await self._main()
        except anyio.get_cancelled_exc_class():  # of the agent's fiber; ours are caught inside
            await self._end(StepEnd(self._reason_of_cancellation()))
            raise
        # Not in a `finally`: code that is closed by force must not wait for anything.
        await self._end(ending)

    async def _main(self) -> StepEnd:
        ending: StepEnd | None = None
        scope, limits = self.course.scope, self.course.limits
        try:
            with anyio.CancelScope(shield=True):
                ending = await self._begin()
            if ending is None:
                if limits.max_seconds is not None:
                    scope.deadline = anyio.current_time() + limits.max_seconds
                with scope, no_strays():
                    ending = await self._until_signalled()
        except Exception as error:  # a fault of the loop; the agent must not fall because of it
            ending = StepEnd("failed", error=error)
        return ending or StepEnd(self._reason_of_cancellation())

    def _reason_of_cancellation(self) -> TurnReason:
        if self._is_given_up:
            return "cancelled"
        if not self.course.is_live:
            return "disposed"
        return "max-seconds" if self.course.scope.deadline <= anyio.current_time() else "cancelled"

    async def _begin(self) -> StepEnd | None:
        """Write the user's message, and answers to what an interrupted turn left open."""
        course = self.course
        history = course.before = course.session.history
        left = history.unanswered
        if not self._said and not left and not is_pending(history):
            return StepEnd("nothing-to-say")
        drafts = [answer_of(one, unfinished(one, INTERRUPTED)) for one in left]
        drafts.append(Draft("turn-started", {"agent": course.agent.name}))
        if self._said:
            drafts.append(message_of(Message("user", self._said)))
        try:
            events = await course.write(drafts)
        except Exception as error:
            return StepEnd("history-failed", error=error)
        course.began = events[0].seq
        course.emit(TurnStarted(course.session.id, events[-1].seq if self._said else None))
        return None

    async def _until_signalled(self) -> StepEnd | None:
        """Make steps until the turn is over or somebody gives the signal."""
        signal = self._signal
        if signal is None:
            return await make_steps(self.course)

        async def watch() -> None:
            await wait_signalled(signal)
            self._give_up()

        if is_signalled(signal):
            self._give_up()
        ending: StepEnd | None = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            ending = await make_steps(self.course)
            tasks.cancel_scope.cancel()
        return ending

    async def _end(self, ending: StepEnd) -> None:
        """Answer what is open, write how the turn ended, and tell the reader."""
        course = self.course
        if ending.reason in FAILURES and not course.is_live:
            ending = attrs.evolve(ending, reason="disposed")  # that is why it failed
        reason = ending.reason
        if not course.began:  # nothing was to be said, or it could not be written down
            course.emit(TurnEnded(course.result(ending)))
            return
        drafts = [
            answer_of(one, course.results.get(one.id) or self._unfinished(one, reason))
            for one in course.session.history.unanswered
        ]
        result = course.result(ending)
        try:
            with anyio.CancelScope(shield=True):
                await course.write([*drafts, ending_of(result)])
        except Exception as error:
            if not result.is_error and reason not in ("cancelled", "disposed"):
                result = attrs.evolve(result, reason="history-failed")
            result = attrs.evolve(result, error=result.error or error)
        course.emit(TurnEnded(result))

    def _unfinished(self, request: ToolRequest, reason: TurnReason | None) -> ToolResult:
        was_begun = request.id in self.course.started
        return unfinished(request, CANCELLED if was_begun else NOT_RUN, reason)
