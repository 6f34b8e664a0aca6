"""A turn: its order of work, what it writes, what it tells, how it ends."""

from __future__ import annotations

import pytest
from harness_plugins.agents.api import ToolEnded, TurnStarted
from harness_plugins.agents.loop import send
from harness_plugins.llm.api import Message, Reply, ToolRequest, Usage, as_data
from harness_plugins.session.api import Draft

from .tree import check_conversation, ending, events_of, failure, kinds, tool, tree, wants

pytestmark = pytest.mark.asyncio


async def test_a_turn_tells_what_happens_in_order() -> None:
    async with tree(wants("look"), "Found it.", tools=[tool("look", "a key")]) as t:
        events = await events_of(t.agent, "Look!")
        assert kinds(events) == [
            "TurnStarted",
            "StepStarted",
            "Replied",
            "ToolStarted",
            "ToolEnded",
            "StepStarted",
            "TextDelta",
            "Replied",
            "TurnEnded",
        ]
        result = ending(events)
        assert (result.reason, result.text, result.steps) == ("done", "Found it.", 2)
        assert result.usage == Usage(20, 4)
        assert result.error is None
        assert not result.is_error
        assert str(result) == "Found it."
        (ended,) = [one for one in events if isinstance(one, ToolEnded)]
        assert (ended.result.text, ended.request.name) == ("a key", "look")
        check_conversation(t.messages)


async def test_a_turn_writes_what_it_is_in_order() -> None:
    async with tree(wants("look"), "Found it.", tools=[tool("look", "a key")]) as t:
        await send(t.agent, "Look!")
        assert [event.kind for event in t.log] == [
            "turn-started",
            "message",
            "message",
            "message",
            "message",
            "turn-ended",
        ]
        assert [message.role for message in t.messages] == [
            "user",
            "assistant",
            "tool",
            "assistant",
        ]
        reply = t.log[2].data
        assert reply["model"] == "model-1"
        assert reply["stop"] == "tools"
        assert reply["usage"]["input_tokens"] == 10
        assert (t.log[3].data["tool"], t.log[3].data["status"]) == ("look", "ok")
        assert t.log[-1].data["reason"] == "done"
        assert t.log[-1].data["usage"]["output_tokens"] == 4
        assert "error" not in t.log[-1].data


async def test_the_model_gets_the_prompt_the_history_and_the_tools() -> None:
    async with tree("one", "two", tools=[tool("look")], model="model-9") as t:
        t.agent.ctx.system_prompt.section("rule", "Be brief.", order=1)
        await send(t.agent, "First.")
        await send(t.agent, "Second.")
        first, second = t.model.requests
        assert (first.model, first.agent) == ("model-9", "a")
        assert first.system == "Be brief."
        assert [one.name for one in first.tools] == ["look"]
        assert first.messages == (Message("user", "First."),)
        assert [one.text for one in second.messages] == ["First.", "one", "Second."]
        assert second.max_tokens is None


async def test_the_message_is_durable_before_assembly_begins() -> None:
    async with tree("hi") as t:
        seen: list[tuple[str, ...]] = []

        def look() -> str:
            seen.extend(t.journal.appends)
            return ""

        t.agent.ctx.system_prompt.section("spy", look, order=1)
        await send(t.agent, "Hello.")
        assert seen == [("turn-started", "message")]


async def test_the_message_is_durable_before_the_turn_says_that_it_began() -> None:
    async with tree("hi") as t:
        async for event in t.agent.run("Hello."):
            if isinstance(event, TurnStarted):
                assert t.journal.appends == [("turn-started", "message")]
                assert event.seq == 2
                assert event.session == "s"


async def test_a_reply_is_durable_before_its_tools_run() -> None:
    seen: list[int] = []
    look = tool("look", lambda _: seen.append(len(t.journal.appends)))
    async with tree(wants("look"), tools=[look]) as t:
        await send(t.agent, "Look!")
        assert seen == [2]
        assert [one.text for one in t.messages if one.role == "tool"] == [""]


async def test_results_are_durable_before_the_next_request() -> None:
    async with tree(wants("look", "look"), "end", tools=[tool("look", "seen")]) as t:
        await send(t.agent, "Look!")
        assert [one.text for one in t.model.requests[1].messages[2:]] == ["seen", "seen"]
        assert t.journal.appends[:4] == [
            ("turn-started", "message"),
            ("message",),
            ("message",),
            ("message",),
        ]


@pytest.mark.parametrize("text", ["", "  \n\t"])
async def test_a_turn_with_nothing_to_say_makes_no_call_and_writes_nothing(text: str) -> None:
    async with tree("never") as t:
        events = await events_of(t.agent, text)
        assert kinds(events) == ["TurnEnded"]
        assert ending(events).reason == "nothing-to-say"
        assert not t.model.requests
        assert not t.log
        await send(t.agent, "Hello.")
        count = len(t.log)
        assert (await send(t.agent, text)).reason == "nothing-to-say"
        assert (len(t.log), len(t.model.requests)) == (count, 1)


async def test_a_blank_message_goes_on_with_what_the_model_has_not_answered() -> None:
    async with tree(failure("authentication"), "Now.") as t:
        assert (await send(t.agent, "Hello.")).reason == "model-failed"
        events = await events_of(t.agent, "")
        started = events[0]
        assert isinstance(started, TurnStarted)
        assert started.seq is None
        assert ending(events).text == "Now."
        assert t.roles == "ua"


async def test_white_space_around_a_message_is_kept() -> None:
    async with tree() as t:
        await send(t.agent, "  indented\n")
        assert t.messages[0].text == "  indented\n"


async def test_what_is_no_text_is_refused_at_once() -> None:
    async with tree() as t:
        with pytest.raises(TypeError, match="a message is a str"):
            await send(t.agent, 5)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="anyio Event or CancelScope"):
            await send(t.agent, "x", signal="now")


async def test_an_empty_reply_is_no_message() -> None:
    """Providers refuse an empty assistant message in a later request."""
    async with tree("", "Something.") as t:
        result = await send(t.agent, "Hello.")
        assert (result.reason, result.text) == ("done", "")
        assert t.roles == "u"
        await send(t.agent, "Well?")
        assert t.roles == "uua"


@pytest.mark.parametrize("stop", ["length", "refused"])
async def test_why_the_model_stopped_is_the_reason(stop: str) -> None:
    reply = Reply(Message("assistant", "So far"), stop)  # type: ignore[arg-type]
    async with tree(reply) as t:
        result = await send(t.agent, "Hello.")
        assert (result.reason, result.text, result.is_error) == (stop, "So far", False)


async def test_what_a_refused_reply_asks_for_is_not_run() -> None:
    ran: list[str] = []
    refused = Reply(Message("assistant", requests=tuple(wants("look"))), "refused")
    async with tree(refused, "ok", tools=[tool("look", lambda _: ran.append("look"))]) as t:
        assert (await send(t.agent, "Hello.")).reason == "refused"
        assert not ran
        check_conversation(t.messages)
        assert (
            t.messages[-1].text == 'the call of tool "look" was not run: the turn ended (refused)'
        )


async def test_requests_get_ids_that_the_history_does_not_know() -> None:
    """Some providers give none, or begin anew in each reply."""
    same = [ToolRequest("0", "look"), ToolRequest("", "look"), ToolRequest("0", "look")]
    async with tree(same, same, "end", tools=[tool("look")]) as t:
        await send(t.agent, "Look!")
        check_conversation(t.messages)
        ids = [one.id for message in t.messages for one in message.requests]
        assert ids == ["0", "call-2", "0-2", "0-3", "call-2-2", "0-4"]
        answered = [message.call_id for message in t.messages if message.role == "tool"]
        assert answered == ids


async def test_what_an_interrupted_turn_left_is_closed_with_the_next_message_at_once() -> None:
    """One append: never a message without the answers before it."""
    left = [
        Draft("message", {"message": as_data(Message("user", "Look!"))}),
        Draft("message", {"message": as_data(Message("assistant", requests=wants("a", "b")))}),
        Draft("message", {"message": as_data(Message("tool", "seen", call_id="id-0-a"))}),
    ]
    async with tree("Sorry.", drafts=left) as t:
        await send(t.agent, "Go on.")
        assert t.journal.appends[1] == ("message", "turn-started", "message")
        check_conversation(t.messages)
        answer = t.messages[3]
        assert (answer.call_id, answer.is_error) == ("id-1-b", True)
        assert "whether it was carried out, wholly or in part, is not known" in answer.text
        assert t.log[3].data["status"] == "cancelled"


async def test_what_an_interrupted_turn_left_is_something_to_go_on_with() -> None:
    left = [
        Draft("message", {"message": as_data(Message("user", "Look!"))}),
        Draft("message", {"message": as_data(Message("assistant", requests=wants("a")))}),
    ]
    async with tree("Sorry.", drafts=left) as t:
        assert (await send(t.agent, "")).reason == "done"
        assert t.roles == "uata"


async def test_an_agent_works_without_the_plugin_tools() -> None:
    async with tree(wants("look"), "I cannot.", with_tools=False) as t:
        assert (await send(t.agent, "Look!")).text == "I cannot."
        assert t.messages[2].text == 'unknown tool "look"; available tools: (none)'
        assert t.messages[2].is_error
