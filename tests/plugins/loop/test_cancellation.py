"""Whoever ends a turn, and whenever: the log is a conversation, and the next turn works.

`test_a_turn_can_be_ended_at_every_wait` counts the waits of one whole turn, in all of its tasks,
and runs the turn once for each of them and for each way of ending it.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from harness_plugins.agents.api import AgentEvent, ToolStarted, TurnEnded, TurnStarted
from harness_plugins.agents.loop import REQUEST, STEP, STOPPING, Limits, run_turn, send
from harness_plugins.agents.loop.lines import Line, Mark

from harness_core.testing import assert_no_residue

from .everywhere import Everywhere
from .tree import Tree, check_conversation, ending, events_of, failure, tool, tree, wants

QUICK = Limits(retry_seconds=1e-6, max_retry_seconds=1e-6)


async def slowly(*_: Any) -> str:
    await checkpoint()
    await checkpoint()
    return "seen"


async def around(*args: Any) -> Any:
    await checkpoint()
    result = await args[-1]()
    await checkpoint()
    return result


@asynccontextmanager
async def whole_turn() -> AsyncIterator[Tree]:
    """Open a tree in which a turn does everything that one can."""
    tools = [tool("read", slowly, parallel=True), tool("write", slowly)]
    script = [failure(), wants("read", "write", "read", "write"), "The end."]
    async with tree(*script, tools=tools, limits=QUICK) as t:
        t.agent.ctx.system_prompt.section("slow", slowly, order=1)
        t.agent.ctx.system_prompt.context("now", slowly, order=1)
        for event in (STEP, REQUEST, STOPPING):
            t.agent.ctx.on(event, around)
        await t.agent.open_session()
        yield t


async def interrupted_turn(how: str, at: int) -> int:
    """Run a turn, end it at wait number `at`, and check what is left. Return how many there are."""
    async with whole_turn() as t:
        agent = t.agent
        given = anyio.Event()
        scope = anyio.CancelScope()
        this = asyncio.current_task()
        assert this is not None
        acts: dict[str, Callable[[], object]] = {
            "the caller's scope": scope.cancel,
            "the caller's task": this.cancel,
            "the signal": given.set,
            "the agent's disposal": agent.dispose,
            "nothing": lambda: None,
        }
        everywhere = Everywhere(at, acts[how])
        signal = given if how == "the signal" else None
        events: list[AgentEvent] = []

        async def turn() -> None:
            async with aclosing(run_turn(agent, "Do it.", signal=signal)) as happening:
                async for event in happening:
                    events.append(event)

        check = assert_no_residue(t.root) if "disposal" not in how else contextlib.nullcontext()
        async with check:
            with scope, everywhere.tasks(), contextlib.suppress(asyncio.CancelledError):
                await everywhere.watch(turn())
            this.uncancel()
            if "disposal" in how:
                await agent.dispose()
        reasons = {"the signal": "cancelled", "the agent's disposal": "disposed"}
        if how in reasons or any(isinstance(event, TurnEnded) for event in events):
            assert ending(events).reason in ("done", reasons.get(how))
        check_conversation(t.messages)
        kinds = [event.kind for event in t.log]
        assert kinds.count("turn-started") == kinds.count("turn-ended")
        if how != "the agent's disposal" or any(isinstance(one, TurnStarted) for one in events):
            assert "Do it." in [one.text for one in t.messages if one.role == "user"]
        if "disposal" in how:
            agent = await t.again()
        t.model.script = ["Next."]
        t.model.requests.clear()
        assert (await send(agent, "And now?")).text == "Next."
        check_conversation(t.model.requests[-1].messages)
        check_conversation(t.messages)
        return everywhere.passed


WAYS = ("the caller's scope", "the caller's task", "the signal", "the agent's disposal")


@pytest.mark.parametrize("how", WAYS)
def test_a_turn_can_be_ended_at_every_wait(how: str) -> None:
    count = anyio.run(interrupted_turn, "nothing", 0)
    assert count > 50
    for at in range(1, count + 1):
        try:
            anyio.run(interrupted_turn, how, at)
        except BaseException as error:
            error.add_note(f"{how}, at wait {at} of {count}")
            raise


@pytest.mark.asyncio
async def test_a_turn_can_be_closed_at_every_event() -> None:
    """Closing waits: nothing of the turn runs on."""
    at = 0
    while True:
        at += 1
        async with whole_turn() as t:
            async with assert_no_residue(t.root):
                events = run_turn(t.agent, "Do it.")
                async with aclosing(events):
                    seen = [
                        event for _, event in [(i, await anext(events, None)) for i in range(at)]
                    ]
            check_conversation(t.messages)
            assert t.log[-1].kind == "turn-ended"
            assert t.log[-1].data["reason"] in ("cancelled", "done")
            if at == 1:
                assert t.log[-1].data["reason"] == "cancelled"
            t.model.script = ["Next."]
            assert (await send(t.agent, "And now?")).text == "Next."
            check_conversation(t.messages)
        if seen[-1] is None:
            break
    assert at > 15


@pytest.mark.asyncio
async def test_a_running_tool_is_cancelled_and_answered() -> None:
    journal: list[str] = []

    async def wait(_: object) -> None:
        journal.append("in")
        try:
            await anyio.sleep_forever()
        finally:
            journal.append("out")

    tools = [tool("quick", "seen", parallel=True), tool("slow", wait), tool("later")]
    async with tree(wants("slow", "quick", "later"), tools=tools) as t:
        async with anyio.create_task_group() as tasks:
            async for event in t.agent.run("Do it."):
                if isinstance(event, ToolStarted) and event.request.name == "slow":
                    await anyio.wait_all_tasks_blocked()
                    tasks.cancel_scope.cancel()
        assert journal == ["in", "out"]
        check_conversation(t.messages)
        assert [one.text for one in t.messages if one.role == "tool"] == [
            'the call of tool "slow" was cancelled: the turn ended (cancelled)',
            "seen",
            'the call of tool "later" was not run: the turn ended (cancelled)',
        ]
        assert [one.data["status"] for one in t.log if "status" in one.data] == [
            "cancelled",
            "ok",
            "cancelled",
        ]


@pytest.mark.asyncio
async def test_a_cancelled_turn_closes_the_models_stream() -> None:
    async with tree(lambda _: "never") as t:
        entered = anyio.Event()

        async def forever(request: Any) -> Any:
            entered.set()
            try:
                await anyio.sleep_forever()
            finally:
                t.model.closed += 1
            yield

        t.model.stream = forever  # type: ignore[method-assign]
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send, t.agent, "Do it.")
            await entered.wait()
            tasks.cancel_scope.cancel()
        assert t.model.closed == 1
        assert t.roles == "u"


@pytest.mark.asyncio
@pytest.mark.parametrize("kind", ["scope", "event"])
@pytest.mark.parametrize("when", ["before", "meanwhile"])
async def test_a_signal_ends_the_turn_and_nobody_is_cancelled(kind: str, when: str) -> None:
    signal: Any = anyio.CancelScope() if kind == "scope" else anyio.Event()
    give = signal.cancel if kind == "scope" else signal.set

    async def wait(_: object) -> None:
        give()
        await anyio.sleep_forever()

    assemblies: list[str] = []
    async with tree(wants("slow"), tools=[tool("slow", wait)]) as t:
        t.agent.ctx.system_prompt.section("spy", lambda: assemblies.append("") or "", order=1)
        if when == "before":
            give()
        result = await send(t.agent, "Do it.", signal=signal)
        assert len(assemblies) == (0 if when == "before" else 1)
        assert result.reason == "cancelled"
        assert t.roles == ("u" if when == "before" else "uat")
        check_conversation(t.messages)
        assert t.log[-1].data["reason"] == "cancelled"


@pytest.mark.asyncio
async def test_disposal_of_the_agent_is_a_reason_and_waits_for_the_turn() -> None:
    """The session is closed after the last word of the turn is in it."""
    entered = anyio.Event()

    async def wait(_: object) -> None:
        entered.set()
        await anyio.sleep_forever()

    async with tree(wants("slow"), tools=[tool("slow", wait)]) as t:
        agent = await t.root.agents.create("own")  # its session is its own
        async with anyio.create_task_group() as tasks:
            results = []

            async def turn() -> None:
                results.append(await send(agent, "Do it."))

            tasks.start_soon(turn)
            await entered.wait()
            await agent.dispose()
        assert [one.reason for one in results] == ["disposed"]
        assert agent.session is not None
        assert not agent.session.is_open
        check_conversation(agent.session.history.messages)
        assert agent.session.events[-1].data["reason"] == "disposed"
        assert (await send(agent, "Still there?")).reason == "disposed"


@pytest.mark.asyncio
async def test_a_tool_may_dispose_its_own_agent() -> None:
    async def leave(_: object) -> None:
        t.agent.dispose()
        await checkpoint()

    async with tree(wants("leave"), tools=[tool("leave", leave)]) as t:
        assert (await send(t.agent, "Go.")).reason == "disposed"
        check_conversation(t.messages)


@pytest.mark.asyncio
async def test_what_fails_because_the_agent_is_going_is_told_as_that() -> None:
    """Something of the agent takes its time to go, and the turn goes on for a while."""
    asked = anyio.Event()

    def leave(_: object) -> None:
        t.agent.ctx.effect(lambda: asked.wait, label="slow to go")
        t.agent.dispose()

    def fail(_: object) -> Exception:
        asked.set()
        return failure("authentication")

    async with tree(wants("leave"), fail, tools=[tool("leave", leave)]) as t:
        result = await send(t.agent, "Go.")
        assert (result.reason, result.is_error) == ("disposed", False)
        assert "authentication" in str(result.error)
        check_conversation(t.messages)


@pytest.mark.asyncio
@pytest.mark.parametrize("reason", ["cancelled", "max-seconds"])
async def test_an_assembly_that_sees_the_signal_first_is_no_failure(reason: str) -> None:
    def give(context: Any) -> str:
        if reason == "cancelled":
            context.signal.cancel()
        else:
            context.signal.deadline = anyio.current_time() - 1
        return ""

    async with tree() as t:
        t.agent.ctx.system_prompt.section("guilty", give, order=1)
        assert (await send(t.agent, "Go.")).reason == reason
        assert t.roles == "u"


@pytest.mark.asyncio
async def test_turns_of_one_agent_come_one_after_the_other_in_order() -> None:
    journal: list[str] = []

    async def work(_: object) -> None:
        journal.append("in")
        await checkpoint()
        journal.append("out")

    script = [wants("work"), "one", wants("work"), "two", wants("work"), "three"]
    async with tree(*script, tools=[tool("work", work)]) as t:
        texts: list[str] = []

        async def turn(text: str) -> None:
            texts.append((await send(t.agent, text)).text)

        async with anyio.create_task_group() as tasks:
            for text in ("1", "2", "3"):
                tasks.start_soon(turn, text)
        assert texts == ["one", "two", "three"]
        assert journal == ["in", "out"] * 3
        assert [one.text for one in t.messages if one.role == "user"] == ["1", "2", "3"]
        check_conversation(t.messages)


@pytest.mark.asyncio
async def test_who_gives_up_waiting_for_a_turn_leaves_the_line() -> None:
    entered, opened = anyio.Event(), anyio.Event()

    async def work(_: object) -> None:
        entered.set()
        await opened.wait()

    async with tree(wants("work"), "one", "three", tools=[tool("work", work)]) as t:
        results: list[str] = []

        async def turn(text: str) -> None:
            results.append((await send(t.agent, text)).text)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(turn, "1")
            await entered.wait()
            async with anyio.create_task_group() as impatient:
                impatient.start_soon(turn, "2")
                await anyio.wait_all_tasks_blocked()
                tasks.start_soon(turn, "3")
                await anyio.wait_all_tasks_blocked()
                impatient.cancel_scope.cancel()
            opened.set()
        assert results == ["one", "three"]
        assert [one.text for one in t.messages if one.role == "user"] == ["1", "3"]


@pytest.mark.asyncio
async def test_who_waits_for_an_agent_that_goes_is_told() -> None:
    entered = anyio.Event()

    async def work(_: object) -> None:
        entered.set()
        await anyio.sleep_forever()

    async with tree(wants("work"), tools=[tool("work", work)]) as t:
        results: list[str] = []

        async def turn(text: str) -> None:
            results.append((await send(t.agent, text)).reason)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(turn, "1")
            await entered.wait()
            tasks.start_soon(turn, "2")
            await anyio.wait_all_tasks_blocked()
            await t.agent.dispose()
        assert results == ["disposed", "disposed"]
        assert [one.text for one in t.messages if one.role == "user"] == ["1"]


@pytest.mark.asyncio
async def test_a_turn_in_a_turn_of_the_same_agent_is_an_error_and_no_deadlock() -> None:
    async def again(_: object) -> str:
        return (await send(t.agent, "Again.")).text

    async with tree(wants("again"), "end", tools=[tool("again", again)]) as t:
        assert (await send(t.agent, "Go.")).text == "end"
        answer = t.messages[2].text
        assert 'NestedTurnError: agent "a" is in a turn that waits for this code' in answer


@pytest.mark.asyncio
async def test_a_tool_may_run_a_turn_of_another_agent_but_not_come_back() -> None:
    async def ask(arguments: object, call: Any) -> str:
        other = "b" if call.scope.name == "a" else "a"
        return (await send(t.root.agents[other], "Help.")).text

    async with tree(wants("ask"), wants("ask"), "helped", "end", tools=[tool("ask", ask)]) as t:
        helper = await t.root.agents.create("b")
        assert (await send(t.agent, "Go.")).text == "end"
        assert t.messages[2].text == "helped"
        assert helper.session is not None
        assert "NestedTurnError" in helper.session.history.messages[2].text


@pytest.mark.asyncio
async def test_a_task_that_outlives_the_turn_it_began_in_may_ask_for_another() -> None:
    opened = anyio.Event()
    results: list[str] = []

    async def later() -> None:
        await opened.wait()
        results.append((await send(t.agent, "Later.")).text)

    async with tree(wants("begin"), "end", "late") as t, anyio.create_task_group() as tasks:

        def begin(_: object) -> None:
            tasks.start_soon(later)

        t.root.tools.register(tool("begin", begin))
        assert (await send(t.agent, "Go.")).text == "end"
        opened.set()
        await anyio.wait_all_tasks_blocked()
        assert results == ["late"]


@pytest.mark.asyncio
async def test_a_slow_reader_loses_nothing_and_holds_up_nobody() -> None:
    async with tree("one", "two") as t:
        events = run_turn(t.agent, "1")
        async with aclosing(events):
            first = await anext(events)
            assert isinstance(first, TurnStarted)
            assert (await send(t.agent, "2")).text == "two"  # the first turn is over already
            rest = [event async for event in events]
        assert ending(rest).text == "one"
        assert len(rest) == 4


@pytest.mark.asyncio
async def test_code_that_will_not_leave_is_left_behind_after_the_grace() -> None:
    entered, opened = anyio.Event(), anyio.Event()

    async def stubborn(_: object) -> None:
        with anyio.CancelScope(shield=True):
            entered.set()
            await opened.wait()

    async with tree(wants("no"), "next", tools=[tool("no", stubborn)], grace=0.1) as t:
        errors: list[str] = []
        t.root.on("fiber/error", lambda _, error: errors.append(str(error)))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send, t.agent, "Go.")
            await entered.wait()
            tasks.cancel_scope.cancel()
        assert any("longer than its grace" in error for error in errors), errors
        assert (await send(t.agent, "And now?")).text == "next"
        check_conversation(t.messages)
        opened.set()


@pytest.mark.asyncio
async def test_events_of_a_turn_in_a_tree_that_closes_end() -> None:
    """The root goes in the middle of a turn: the reader is told, not left waiting."""
    entered = anyio.Event()
    results: list[str] = []

    async def wait(_: object) -> None:
        entered.set()
        await anyio.sleep_forever()

    slow = tool("slow", wait)
    async with anyio.create_task_group() as tasks, tree(wants("slow"), tools=[slow]) as t:

        async def turn() -> None:
            results.append(ending(await events_of(t.agent, "Go.")).reason)

        tasks.start_soon(turn)
        await entered.wait()
    assert results == ["disposed"]


@pytest.mark.asyncio
async def test_a_reader_that_walks_away_ends_the_turn_when_it_is_forgotten() -> None:
    entered, left = anyio.Event(), anyio.Event()

    async def wait(_: object) -> None:
        entered.set()
        try:
            await anyio.sleep_forever()
        finally:
            left.set()

    async with tree(wants("slow"), "next", tools=[tool("slow", wait)]) as t:
        events = run_turn(t.agent, "Go.")
        await anext(events)
        await entered.wait()
        del events
        gc.collect()
        with anyio.fail_after(5):
            await left.wait()
        assert (await send(t.agent, "And now?")).text == "next"
        check_conversation(t.messages)


@pytest.mark.asyncio
async def test_nothing_keeps_an_agent_that_has_had_turns() -> None:
    async with tree(wants("look"), "end", "one", tools=[tool("look")]) as t:
        agent = await t.root.agents.create("b")
        await send(agent, "Go.")
        async with aclosing(run_turn(agent, "Again.")) as events:
            await anext(events)
        await agent.dispose()
        gone = weakref.ref(agent)
        t.model.requests.clear()
        del agent, events
        gc.collect()
        assert gone() is None


@pytest.mark.asyncio
async def test_a_turn_that_comes_as_its_waiter_gives_up_goes_to_the_next() -> None:
    line, told = Line(), anyio.Event()

    async def wait() -> None:
        await line.take(Mark())
        told.set()

    await line.take(Mark())
    async with anyio.create_task_group() as tasks:
        impatient = asyncio.create_task(line.take(Mark()))
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        line.hand_on()  # to the first of the two, which is gone before it knows
        impatient.cancel()
        with anyio.fail_after(5):
            await told.wait()
    assert impatient.cancelled()
