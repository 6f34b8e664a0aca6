"""Tool calls in a turn: what runs beside what, what is written when, what can be wrong."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from harness_plugins.agents.api import ToolEnded, ToolStarted
from harness_plugins.agents.loop import COMPACT, Limits, send
from harness_plugins.agents.loop.tool_calls import read_arguments
from harness_plugins.llm.api import Message, Reply, ToolRequest, Usage
from harness_plugins.tools.api import PRE_EXECUTE, ToolCall, ToolDecision

from .tree import check_conversation, events_of, tool, tree, wants

pytestmark = pytest.mark.asyncio


def results(t: Any) -> list[str]:
    return [message.text for message in t.messages if message.role == "tool"]


async def test_safe_tools_run_beside_each_other_and_results_keep_the_order_of_requests() -> None:
    first, second = anyio.Event(), anyio.Event()

    async def slow(_: object) -> str:
        first.set()
        await second.wait()  # the other one runs meanwhile
        return "slow"

    async def quick(_: object) -> str:
        await first.wait()
        second.set()
        return "quick"

    tools = [tool("slow", slow, parallel=True), tool("quick", quick, parallel=True)]
    async with tree(wants("slow", "quick"), tools=tools) as t:
        events = await events_of(t.agent, "Go.")
        assert results(t) == ["slow", "quick"]
        started = [one.request.name for one in events if isinstance(one, ToolStarted)]
        ended = [one.request.name for one in events if isinstance(one, ToolEnded)]
        assert started == ended == ["slow", "quick"]


async def test_other_tools_run_one_after_the_other_in_the_order_of_requests() -> None:
    """Also where a check of the first takes longer than one of the second."""
    journal: list[str] = []

    async def write(arguments: Any, call: ToolCall) -> str:
        journal.append(f"{call.name} in")
        await checkpoint()
        journal.append(f"{call.name} out")
        return call.name

    tools = [tool("one", write), tool("two", write)]
    async with tree(wants("one", "two"), tools=tools) as t:

        async def check(call: ToolCall) -> ToolDecision | None:
            for _ in range(5 if call.name == "one" else 0):
                await checkpoint()
            return None

        t.root.on(PRE_EXECUTE, check)
        await send(t.agent, "Go.")
        assert journal == ["one in", "one out", "two in", "two out"]
        assert results(t) == ["one", "two"]


async def test_a_tool_has_ended_when_its_result_is_in_the_history() -> None:
    async with tree(wants("look"), tools=[tool("look", "seen")]) as t:
        async for event in t.agent.run("Go."):
            if isinstance(event, ToolEnded):
                assert results(t) == ["seen"]


async def test_a_call_is_made_in_the_scope_of_the_agent_with_the_id_of_the_request() -> None:
    calls: list[tuple[Any, Any]] = []

    def look(_: object, call: ToolCall) -> str:
        calls.append((call.scope, call.call_id))
        return "seen"

    async with tree(wants("look")) as t:
        t.agent.ctx.tools.register(tool("look", look))
        await send(t.agent, "Go.")
        assert calls == [(t.agent, "id-0-look")]
        assert t.messages[2].call_id == "id-0-look"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("{", "no JSON object: Expecting property name"),
        ("[1]", "expected a JSON object, got [1]"),
        ('"text"', 'expected a JSON object, got "text"'),
        ('{"a": NaN}', "NaN is no JSON value"),
        ("[" * 100_000, "no JSON object"),
        ('{"a": 1} {"b": 2}', "no JSON object: Extra data"),
    ],
)
async def test_arguments_that_are_no_object_are_answered_with_what_is_wrong(
    arguments: str, said: str
) -> None:
    async with tree(wants("look", arguments=arguments), tools=[tool("look")]) as t:
        assert (await send(t.agent, "Go.")).reason == "done"
        (answer,) = results(t)
        assert answer.startswith('invalid arguments for tool "look":\n- $: ')
        assert said in answer
        assert t.messages[2].is_error
        assert t.messages[1].requests[0].arguments == arguments  # exactly as it came


async def test_no_arguments_are_an_empty_object() -> None:
    assert read_arguments("") == read_arguments(" ") == read_arguments("{}") == {}


async def test_an_unknown_tool_a_failing_one_and_a_hidden_one_are_answers() -> None:
    def fail(_: object) -> None:
        raise RuntimeError("broken pipe")

    script = [wants("nothing", "fail", "hidden"), "I see."]
    async with tree(*script, tools=[tool("fail", fail), tool("hidden")]) as t:
        t.agent.ctx.tools.restrict(deny=["hidden"])
        assert (await send(t.agent, "Go.")).text == "I see."
        unknown, failed, hidden = results(t)
        assert unknown == 'unknown tool "nothing"; available tools: fail'
        assert failed == 'tool "fail" failed: RuntimeError: broken pipe'
        assert hidden == 'unknown tool "hidden"; available tools: fail'
        assert [one.data["status"] for one in t.log if "status" in one.data] == [
            "unknown",
            "failed",
            "unknown",
        ]


async def test_a_tool_whose_plugin_goes_during_the_call_is_an_answer() -> None:
    async def leave(_: object) -> None:
        fiber.dispose()
        await anyio.sleep_forever()

    async with tree(wants("leave"), "Gone.") as t:

        def plugin(ctx: Any) -> None:
            ctx.tools.register(tool("leave", leave))

        plugin.inject = ["tools"]  # type: ignore[attr-defined]
        fiber = await t.root.plugin(plugin)
        assert (await send(t.agent, "Go.")).text == "Gone."
        assert results(t) == ['tool "leave" was cancelled during the call: its plugin was disposed']
        assert [len(request.tools) for request in t.model.requests] == [1, 0]
        check_conversation(t.messages)


async def test_a_log_that_cannot_be_written_cancels_the_other_calls() -> None:
    journal: list[str] = []

    async def wait(_: object) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            journal.append("cancelled")

    tools = [tool("quick", parallel=True), tool("slow", wait, parallel=True)]
    async with tree(wants("quick", "slow"), "next", tools=tools) as t:
        t.journal.fails = lambda events: "tool" in events[0].data
        result = await send(t.agent, "Go.")
        assert result.reason == "history-failed"
        assert "no space left" in str(result.error)
        assert journal == ["cancelled"]
        t.journal.fails = lambda _: False
        assert (await send(t.agent, "Again.")).text == "next"
        check_conversation(t.messages)


async def test_a_call_whose_arguments_were_cut_off_is_not_made_without_any() -> None:
    ran: list[str] = []
    cut = Message("assistant", requests=[ToolRequest("1", "tidy"), ToolRequest("2", "wipe", "")])
    tools = [tool(name, lambda _, name=name: ran.append(name)) for name in ("tidy", "wipe")]
    async with tree(Reply(cut, "length"), tools=tools) as t:
        await send(t.agent, "Go.")
        assert ran == ["tidy"]
        assert "the reply was cut off at its limit" in results(t)[1]
        check_conversation(t.messages)


async def test_a_call_is_never_answered_with_the_result_of_an_earlier_one_of_its_id() -> None:
    """Compaction takes the earlier one out of sight, and the provider uses its id again."""
    entered, given_up = anyio.Event(), anyio.Event()
    count = 0

    async def look(_: object) -> str:
        nonlocal count
        count += 1
        if count == 3:
            entered.set()
            await anyio.sleep_forever()
        return f"result {count}"

    said = Message("assistant", requests=[ToolRequest("same", "look")])
    script = [Reply(said, "tools", usage=Usage(1000, 1)) for _ in range(3)]
    limits = Limits(compact_above=10, compact_keep=1)
    async with tree(*script, tools=[tool("look", look)], limits=limits) as t:
        t.root.on(COMPACT, lambda *_: "summary")
        async with anyio.create_task_group() as tasks:

            async def give_up() -> None:
                await entered.wait()
                given_up.set()

            tasks.start_soon(give_up)
            await send(t.agent, "Go.", signal=given_up)
        assert t.messages[-1].call_id == "same"
        assert "was cancelled" in t.messages[-1].text
