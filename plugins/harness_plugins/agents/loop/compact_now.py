"""Compaction on demand, between two turns."""

from __future__ import annotations

from collections.abc import Callable
from random import random as by_chance

import anyio

from harness_core.errors import InactiveFiberError
from harness_plugins.llm.api import Usage
from harness_plugins.session.api import Session

from .compaction import compact_history
from .limits import Limits
from .records import AgentEvent, Compacted
from .speaker import Speaker
from .strays import no_strays
from .work import Work

__all__ = ["compact_now"]


async def compact_now(
    agent: Speaker, *, random: Callable[[], float] = by_chance
) -> Compacted | None:
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
