"""Agents that share a session, and agents that wait for each other."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from harness_plugins.agents.api import NestedTurnError, compact_now
from harness_plugins.agents.loop import send
from harness_plugins.llm.api import Message

from .tree import Tree, check_conversation, tool, tree, wants

pytestmark = pytest.mark.asyncio


def session_of(t: Tree) -> Any:
    """Return the session that the tree's agent was given."""
    return t.agent.wanted_session


async def test_agents_that_share_a_session_have_one_turn_at_a_time() -> None:
    entered, opened = anyio.Event(), anyio.Event()
    ended: list[str] = []

    async def slow(_: object) -> str:
        entered.set()
        await opened.wait()
        return "looked"

    async with tree(wants("slow"), "one", "two", tools=[tool("slow", slow)]) as t:
        other = await t.root.agents.create("b", session=session_of(t))

        async def say(agent: Any) -> None:
            result = await send(agent, f"I am {agent}.")
            ended.append(f"{agent}: {result.text}")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(say, t.agent)
            await entered.wait()
            tasks.start_soon(say, other)
            await anyio.wait_all_tasks_blocked()
            assert t.roles == "ua"
            opened.set()
        assert ended == ["a: one", "b: two"]
        assert t.roles == "uataua"
        check_conversation(t.messages)


async def test_a_compaction_waits_for_the_turn_of_another_agent_in_the_same_session() -> None:
    entered, opened = anyio.Event(), anyio.Event()

    async def slow(_: object) -> None:
        entered.set()
        await opened.wait()

    async with tree(wants("slow"), "one", "sum", tools=[tool("slow", slow)]) as t:
        other = await t.root.agents.create("b", session=session_of(t))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send, t.agent, "Go.")
            await entered.wait()
            tasks.start_soon(compact_now, other)
            await anyio.wait_all_tasks_blocked()
            assert len(t.model.requests) == 1
            opened.set()


async def test_a_turn_in_a_turn_of_the_same_session_is_an_error_and_no_deadlock() -> None:
    async def ask(_: object) -> str:
        return (await send(t.root.agents["b"], "Help.")).text

    async with tree(wants("ask"), "end", tools=[tool("ask", ask)]) as t:
        await t.root.agents.create("b", session=session_of(t))
        assert (await send(t.agent, "Go.")).text == "end"
        assert t.roles == "uata"
        assert 'agent "b" is in a turn that waits for this code, or shares' in t.messages[2].text


async def test_two_agents_that_ask_each_other_at_once_do_not_wait_for_ever() -> None:
    """Each is in a turn of its own whose tool wants a turn of the other one."""
    both: list[str] = []

    async def ask(_: object, call: Any) -> str:
        both.append(call.scope.name)
        while len(both) < 2:
            await checkpoint()
        other = "b" if call.scope.name == "a" else "a"
        return (await send(t.root.agents[other], "Help.")).text

    script = [wants("ask"), wants("ask"), "one", "two", "three"]
    async with tree(*script, tools=[tool("ask", ask, parallel=True)]) as t:
        other = await t.root.agents.create("b")
        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(send, t.agent, "Go.")
                tasks.start_soon(send, other, "Go.")
        assert other.session is not None
        histories = [t.messages, other.session.history.messages]
        answers = [one.text for messages in histories for one in messages if one.role == "tool"]
        assert sum("NestedTurnError" in text for text in answers) == 1
        for messages in histories:
            check_conversation(messages)


async def test_an_agent_that_waits_for_its_session_may_not_be_asked_by_who_has_it() -> None:
    """The circle goes through a line: `a` waits for the session of `b`, whose tool asks `a`."""
    entered, opened = anyio.Event(), anyio.Event()

    async def ask(_: object) -> None:
        entered.set()
        await opened.wait()
        with pytest.raises(NestedTurnError):
            await send(t.agent, "Help.")

    async with tree(wants("ask"), "one", "two", tools=[tool("ask", ask)]) as t:
        other = await t.root.agents.create("b", session=session_of(t))
        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(send, other, "Go.")
                await entered.wait()
                tasks.start_soon(send, t.agent, "Me too.")
                await anyio.wait_all_tasks_blocked()
                opened.set()
        assert t.roles == "uataua"


async def test_whoever_gives_up_waiting_for_a_session_lets_the_next_turn_of_the_agent_in() -> None:
    entered, opened = anyio.Event(), anyio.Event()

    async def slow(_: object) -> None:
        entered.set()
        await opened.wait()

    async with tree(wants("slow"), "one", "two", tools=[tool("slow", slow)]) as t:
        other = await t.root.agents.create("b", session=session_of(t))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send, t.agent, "Go.")
            await entered.wait()
            with anyio.CancelScope() as impatient:
                tasks.start_soon(opened_after, impatient)
                await send(other, "Never said.")
            assert impatient.cancelled_caught
            opened.set()
        with anyio.fail_after(5):
            assert (await send(other, "Now.")).text == "two"
        assert [one.text for one in t.messages if one.role == "user"] == ["Go.", "Now."]


async def opened_after(scope: anyio.CancelScope) -> None:
    """Cancel a scope when everybody waits."""
    await anyio.wait_all_tasks_blocked()
    scope.cancel()


async def test_an_agent_that_goes_does_not_wait_for_its_turn_any_more() -> None:
    """Whoever has sent it a message hears so at once, however long the other one's turn takes."""
    entered, opened = anyio.Event(), anyio.Event()

    async def slow(_: object) -> None:
        entered.set()
        await opened.wait()

    async with tree(wants("slow"), "one", tools=[tool("slow", slow)]) as t:
        other = await t.root.agents.create("b", session=session_of(t))
        ended: list[str] = []

        async def say(agent: Any) -> None:
            ended.append(f"{agent}: {(await send(agent, 'Go.')).reason}")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(say, t.agent)
            await entered.wait()
            tasks.start_soon(say, other)
            await anyio.wait_all_tasks_blocked()
            await other.dispose()
            await anyio.wait_all_tasks_blocked()
            assert ended == ["b: disposed"]
            opened.set()
        assert t.roles == "uata"


async def test_what_somebody_writes_while_a_tool_runs_comes_behind_its_result() -> None:
    async def remember(_: object) -> str:
        session = t.agent.session
        assert session is not None
        await session.add(Message("user", "Remember this."), pinned=True)
        return "remembered"

    async with tree(wants("remember"), "end", tools=[tool("remember", remember)]) as t:
        await send(t.agent, "Go.")
        sent = t.model.requests[1].messages
        assert [one.text for one in sent[-2:]] == ["remembered", "Remember this."]
        check_conversation(t.messages)
