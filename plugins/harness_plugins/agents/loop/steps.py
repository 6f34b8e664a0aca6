"""The steps of a turn, one after the other, until the model has ended or a limit is reached."""

from __future__ import annotations

import attrs
from anyio.lowlevel import checkpoint

from harness_plugins.llm.api import Message

from .compaction import compact_if_due
from .course import Course
from .drafts import NOT_RUN, answer_of, is_pending, message_of, unfinished
from .events import STOPPING, StepEnd, Stopping, run_waterfall
from .records import TurnReason
from .step import run_step

__all__ = ["make_steps"]


async def make_steps(course: Course) -> StepEnd:
    """Make the steps of a turn, and return how the last one ended."""
    while True:
        reached = _limit(course)
        if reached is not None:
            return StepEnd(reached)
        await checkpoint()
        course.steps += 1
        await compact_if_due(course)
        ending = await run_step(course)
        if ending.reason is None and not is_pending(course.session.history):
            ending = attrs.evolve(ending, reason="done")  # a listener would have it go on
        if ending.reason in ("done", "length", "refused"):
            ending = await _stopping(course, ending)
        if ending.reason is not None:
            return ending


def _limit(course: Course) -> TurnReason | None:
    limits, spent = course.limits, course.usage.input_tokens + course.usage.output_tokens
    if limits.max_steps is not None and course.steps >= limits.max_steps:
        return "max-steps"
    if limits.max_tokens is not None and spent >= limits.max_tokens:
        return "max-tokens"
    return None


async def _stopping(course: Course, ending: StepEnd) -> StepEnd:
    """Ask the listeners whether the turn is to go on; write the message with which it does."""
    stopping = Stopping(course.agent, course.result(ending))
    try:
        asked = await run_waterfall(course.agent, STOPPING, (stopping,), lambda: stopping, Stopping)
    except Exception as error:
        return StepEnd("listener-failed", error=error)
    if not asked.message.strip():
        return ending
    left = course.session.history.unanswered
    drafts = [answer_of(one, unfinished(one, NOT_RUN, ending.reason)) for one in left]
    message = message_of(Message("user", asked.message), source=STOPPING.name)
    try:
        await course.write([*drafts, message])
    except Exception as error:
        return StepEnd("history-failed", error=error)
    return StepEnd()
