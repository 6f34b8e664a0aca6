"""An agent's session: opened at first use, once, and closed with the agent."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import harness_plugins.session
import pytest
from harness_plugins.agents.api import assemble_context_for
from harness_plugins.llm.api import Message
from harness_plugins.session.api import Session, SessionBusyError, SessionError

from harness_core import Context, Fiber
from harness_core.errors import InactiveFiberError

from .tree import tree

pytestmark = pytest.mark.asyncio


@asynccontextmanager
async def keeping(directory: Path) -> AsyncGenerator[tuple[Context, Fiber]]:
    """Open a tree in which sessions are kept, in a real database."""
    async with tree() as root:
        fiber = await root.plugin(harness_plugins.session, directory=str(directory))
        yield root, fiber


async def test_without_a_keeper_a_session_lasts_as_long_as_the_agent() -> None:
    """It is opened once, however many ask, and closed at the end."""
    async with tree() as root:
        agent = await root.agents.create("a")
        assert agent.session is None
        found: list[Session] = []

        async def ask() -> None:
            found.append(await agent.open_session())

        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(ask)
        assert found == [agent.session] * 3
        session = found[0]
        assert session.is_open
        await agent.dispose()
        assert not session.is_open
        with pytest.raises(InactiveFiberError):
            await agent.open_session()


async def test_a_kept_session_is_created_or_opened(tmp_path: Path) -> None:
    """Under the agent's name, or the id that the agent was created with; one for all who ask."""
    async with keeping(tmp_path) as (root, _):
        first = await root.agents.create("first")
        async with anyio.create_task_group() as group:
            group.start_soon(first.open_session)
            group.start_soon(first.open_session)
        session = await first.open_session()
        assert [(one.id, one.agent) for one in await root.session.list()] == [(session.id, "first")]
        await session.add(Message("user", "Hello."))
        second = await root.agents.create("second", session=session.id)
        with pytest.raises(SessionBusyError):
            await second.open_session()
        await first.dispose()
        assert not session.is_open
        resumed = await second.open_session()
        assert [one.text for one in resumed.history.messages] == ["Hello."]
        await second.dispose()
        assert not resumed.is_open
        third = await root.agents.create("third", session="unknown")
        with pytest.raises(SessionError, match="unknown"):
            await third.open_session()


async def test_a_session_whose_keeper_was_restarted_is_opened_again(tmp_path: Path) -> None:
    """By its id, with all that was said."""
    async with keeping(tmp_path) as (root, fiber):
        agent = await root.agents.create("a")
        session = await agent.open_session()
        await session.add(Message("user", "Hello."))
        await fiber.restart()
        assert not session.is_open
        again = await agent.open_session()
        assert (again.id, again.is_open) == (session.id, True)
        assert [one.text for one in again.history.messages] == ["Hello."]


async def test_a_session_that_is_given_stays_its_givers() -> None:
    """It is not closed with the agent; a closed one is refused."""
    given = Session("given")
    async with tree() as root:
        agent = await root.agents.create("a", session=given)
        assert await agent.open_session() is given
        await agent.dispose()
        assert given.is_open
        await given.close()
        agent = await root.agents.create("a", session=given)
        with pytest.raises(SessionError, match='session "given", which agent "a" was given'):
            await agent.open_session()


async def test_an_id_without_a_keeper_is_an_error() -> None:
    """There is nobody who could know it."""
    async with tree() as root:
        agent = await root.agents.create("a", session="kept")
        with pytest.raises(SessionError, match="mount the plugin session"):
            await agent.open_session()
        assert agent.session is None


async def test_what_an_assembly_is_for() -> None:
    """Agent and scope together, a signal, and when the last message came."""
    async with tree() as root:
        agent = await root.agents.create("a")
        context = assemble_context_for(agent)
        assert (context.scope, context.agent, context.signal) == (agent, agent, None)
        assert context.last_message_at is None
        session = await agent.open_session()
        event = await session.add(Message("user", "Hello."))
        scope = anyio.CancelScope()
        context = assemble_context_for(agent, scope)
        assert context.last_message_at == event.at
        root.system_prompt.section("who", lambda c: f"{c.agent} {c.signal is scope}", order=1)
        assembly = await root.system_prompt.assemble(context)
        assert [section.text for section in assembly.sections if section.text] == ["a True"]


async def test_a_turn_without_anything_to_say_makes_no_session(tmp_path: Path) -> None:
    async with keeping(tmp_path / "sessions") as (root, _):
        agent = await root.agents.create("a")
        assert (await agent.send("  ")).reason == "nothing-to-say"
        assert agent.session is None
        assert await root.session.list() == []
