"""Running the turns of an agent, one at a time: `run_turn` yields what happens, `send` waits."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from random import random as by_chance

import anyio

from harness_core.errors import InactiveFiberError

from .records import AgentEvent, TurnEnded, TurnResult
from .signals import check_signal
from .speaker import Speaker
from .turn import Turn
from .work import NestedTurnError

__all__ = ["run_turn", "send"]


async def run_turn(
    agent: Speaker,
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
    turn = Turn(agent, text, check_signal(signal), random)
    try:
        try:
            await turn.start()
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
                yield await turn.events.receive()
        except anyio.EndOfStream:
            pass
    finally:
        await turn.stop()


async def send(
    agent: Speaker,
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
