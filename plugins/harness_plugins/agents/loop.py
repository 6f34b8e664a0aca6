"""The loop: runs the turns of an agent, one at a time.

`run_turn` yields what happens, `send` waits for the end. The work itself is in `course` (a turn),
`stepping`, `steps` (a step), `asking` (the model, with retries), `calls` (tools), `compacting`. It
runs in a task of the agent's fiber (`running`), so that neither the caller nor the agent can go
without the turn's having been ended in order.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from random import random as by_chance
from typing import TYPE_CHECKING

import anyio

from harness_core.errors import InactiveFiberError
from harness_plugins.llm.api import Usage
from harness_plugins.session.api import Session

from .compacting import compact_history
from .course import Course
from .limits import Limits as Limits
from .running import NestedTurnError as NestedTurnError
from .running import Work
from .signals import check_signal
from .stepping import make_steps
from .strays import no_strays
from .turns import AgentEvent, Compacted, TurnEnded, TurnResult

if TYPE_CHECKING:
    from .agent import Agent

__all__ = ["Limits", "NestedTurnError", "compact_now", "run_turn", "send"]


async def run_turn(
    agent: Agent,
    text: str,
    *,
    signal: object = None,
    random: Callable[[], float] = by_chance,
) -> AsyncGenerator[AgentEvent, None]:
    """Run one turn of an agent and yield what happens in it, `TurnEnded` last.

        async with contextlib.aclosing(run_turn(agent, "Go on.")) as events:
            async for event in events: ...

    The turn begins when the agent's earlier ones are over, and does not wait for its reader.
    Closing the generator, or cancelling its reader, cancels the turn and waits until it has ended
    in order; so does `signal`, an anyio Event or cancel scope. Whatever goes wrong is the reason
    in `TurnEnded`. Raises NestedTurnError in code that a turn of this agent waits for. `random`
    gives numbers from 0 to 1 for the pauses between attempts.
    """
    if not isinstance(text, str):
        raise TypeError(f"a message is a str, got {text!r} ({type(text).__name__})")
    course = Course(agent, text, make_steps, check_signal(signal), random)
    try:
        try:
            await course.start()
        except NestedTurnError:
            raise
        except InactiveFiberError as error:
            yield TurnEnded(TurnResult("disposed", error=error))
            return
        except Exception as error:
            yield TurnEnded(TurnResult("history-failed", error=error))
            return
        try:
            while True:
                yield await course.events.receive()
        except anyio.EndOfStream:
            pass
    finally:
        await course.stop()


async def send(
    agent: Agent,
    text: str,
    *,
    signal: object = None,
    random: Callable[[], float] = by_chance,
) -> TurnResult:
    """Run one turn of an agent and return how it ended. See `run_turn`."""
    async with aclosing(run_turn(agent, text, signal=signal, random=random)) as events:
        async for event in events:
            if isinstance(event, TurnEnded):
                return event.result
    raise AssertionError("a turn has an end")


async def compact_now(agent: Agent, *, random: Callable[[], float] = by_chance) -> Compacted | None:
    """Compact an agent's history when its turn is over; return None if there is nothing to do.

    Raises what the model or the log raises, and InactiveFiberError if the agent goes meanwhile.
    """
    session: Session
    done: list[Compacted | None] = []
    failures: list[Exception] = []
    scope = anyio.CancelScope()
    over = anyio.Event()
    limits = agent.limits or Limits()

    def ignore(_: AgentEvent | Usage) -> None:
        pass

    async def main() -> None:
        with scope:
            try:
                with no_strays():
                    made = await compact_history(agent, session, limits, ignore, random, ignore)
                done.append(made)
            except Exception as error:
                failures.append(error)

    async def prepare() -> Session:
        nonlocal session
        session = await agent.open_session()
        return session

    work = Work(agent, main, over.set)
    await work.start(prepare, "compaction")
    try:
        await over.wait()
    finally:
        await work.ended(scope.cancel)
    if failures:
        raise failures[0]
    if not done:
        raise InactiveFiberError(agent.ctx.fiber)
    return done[0]
