"""Compaction in a turn: when, by whom, what stays, and what happens if it fails."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from harness_plugins.agents.api import Compacted
from harness_plugins.agents.loop import COMPACT, Compaction, Limits, compact_now, send
from harness_plugins.agents.loop.compaction import transcript
from harness_plugins.llm.api import Message, ModelError, Reply, ToolRequest, Usage

from harness_core.errors import HarnessError, InactiveFiberError
from harness_core.testing import assert_no_residue

from .everywhere import Everywhere
from .tree import Tree, check_conversation, ending, events_of, failure, reply_of, tool, tree, wants

LOW = Limits(compact_above=100, compact_keep=1, retry_seconds=1e-6)


def long(said: Any) -> Any:
    """Return a reply to a request that was too long."""
    return reply_of(said, input_tokens=101, output_tokens=1)


@pytest.mark.asyncio
async def test_a_history_that_is_too_long_is_compacted_before_the_next_request() -> None:
    async with tree(long("one"), "the summary", "two", limits=LOW) as t:
        await send(t.agent, "First.")
        assert t.roles == "ua"
        events = await events_of(t.agent, "Second.")
        (compacted,) = [one for one in events if isinstance(one, Compacted)]
        assert (compacted.summary, compacted.first) == ("the summary", 2)
        assert ending(events).usage == Usage(20, 4)  # the summary counts
        assert t.roles == "cua"
        last = t.model.requests[-1]
        assert "the summary" in last.messages[0].text
        assert last.messages[1].text == "Second."
        check_conversation(t.messages)


@pytest.mark.asyncio
async def test_the_limit_is_of_the_last_request_and_known_from_the_log() -> None:
    async with tree(long("one"), "summary", "two", "three", limits=LOW) as t:
        await send(t.agent, "First.")
        again = await t.again(limits=LOW)
        await send(again, "Second.")
        assert t.roles == "cua"
        await send(again, "Third.")  # the last request was short again
        assert t.roles == "cuaua"


@pytest.mark.asyncio
async def test_at_the_limit_nothing_is_compacted() -> None:
    at = reply_of("one", input_tokens=100)
    async with tree(at, limits=LOW) as t:
        await send(t.agent, "First.")
        await send(t.agent, "Second.")
        assert t.roles == "uaua"


@pytest.mark.asyncio
async def test_the_summary_is_asked_for_as_text_without_tools() -> None:
    script = [long(wants("look", arguments='{"at": 1}')), long("one"), "summary"]
    limits = Limits(compact_above=100, compact_keep=1)
    async with tree(*script, tools=[tool("look", "seen")], model="m-7", limits=limits) as t:
        t.agent.limits = Limits(compact_above=None)
        await send(t.agent, "First.")
        t.agent.limits = limits
        await send(t.agent, "Second.")
        asked = t.model.requests[2]
        assert asked.model == "m-7"
        assert not asked.tools
        assert "Quote what the user asked for last word for word." in asked.system
        (message,) = asked.messages
        assert message.text == (
            "[user]\nFirst.\n\n"
            '[assistant calls look as id-0-look]\n{"at": 1}\n\n'
            "[tool id-0-look returned]\nseen\n\n"
            "[assistant]\none"
        )


def test_a_failed_call_is_one_in_the_transcript_too() -> None:
    said = Message("assistant", "Let me see.", requests=(ToolRequest("i", "look"),))
    failed = Message("tool", "no", call_id="i", is_error=True)
    assert transcript([said, failed]) == (
        "[assistant]\nLet me see.\n\n[assistant calls look as i]\n{}\n\n[tool i failed]\nno"
    )


@pytest.mark.asyncio
async def test_what_the_turn_is_about_stays_while_there_is_anything_older() -> None:
    script = [long("one"), "s1", long(wants("look")), "s2", long(wants("look")), "s3", "end"]
    async with tree(*script, tools=[tool("look")], limits=LOW) as t:
        await send(t.agent, "First.")
        seen: list[str] = []
        async for event in t.agent.run("Second."):
            if isinstance(event, Compacted):
                seen.append(t.roles)
        # At first what was before the turn; then, as there is nothing else, the turn itself.
        assert seen == ["cu", "cat", "cat"]
        assert t.roles == "cata"
        check_conversation(t.messages)
        assert "Second." in t.model.requests[3].messages[0].text


@pytest.mark.asyncio
async def test_what_was_before_the_turn_goes_first() -> None:
    script = ["one", long(wants("look")), "summary", "end"]
    async with tree(*script, tools=[tool("look")], limits=LOW) as t:
        await send(t.agent, "First.")
        await send(t.agent, "Second.")
        assert t.roles == "cuata"
        assert t.messages[1].text == "Second."


@pytest.mark.asyncio
async def test_a_listener_can_make_the_summary() -> None:
    async def make(compaction: Compaction, next: Any) -> str:
        return f"{len(compaction.messages)} messages of {compaction.agent}"

    async with tree(long("one"), "two", limits=LOW) as t:
        t.agent.ctx.on(COMPACT, make)
        await send(t.agent, "First.")
        await send(t.agent, "Second.")
        assert len(t.model.requests) == 2
        assert "2 messages of a" in t.messages[0].text


FAILURES = {
    "the model": failure("authentication"),
    "a listener": None,
    "nothing said": "  ",
}


@pytest.mark.asyncio
@pytest.mark.parametrize("which", FAILURES)
async def test_a_failed_compaction_is_reported_and_the_turn_goes_on(which: str) -> None:
    async def fail(compaction: Compaction, next: Any) -> str:
        raise RuntimeError("broken")

    script = [long("one")]
    if FAILURES[which] is not None:
        script.append(FAILURES[which])
    script += [long(wants("look")), "two"]
    async with tree(*script, tools=[tool("look")], limits=LOW) as t:
        errors: list[BaseException] = []
        t.root.on("fiber/error", lambda _, error: errors.append(error))
        if which == "a listener":
            t.agent.ctx.on(COMPACT, fail)
        await send(t.agent, "First.")
        result = await send(t.agent, "Second.")
        assert (result.reason, result.text) == ("done", "two")
        assert t.roles == "uauata"
        (error,) = errors  # not again in the same turn
        notes = "\n".join(error.__notes__)
        assert 'compacting the history of agent "a"' in notes
        if which == "a listener":
            assert "fail of plugin" in notes


@pytest.mark.asyncio
async def test_a_failure_of_the_provider_that_may_pass_is_tried_again() -> None:
    async with tree(long("one"), failure(), "summary", "two", limits=LOW) as t:
        await send(t.agent, "First.")
        assert (await send(t.agent, "Second.")).text == "two"
        assert t.roles == "cua"


@pytest.mark.asyncio
async def test_compaction_on_request_waits_for_the_turn() -> None:
    entered, opened = anyio.Event(), anyio.Event()

    async def wait(_: object) -> None:
        entered.set()
        await opened.wait()

    limits = Limits(compact_keep=1)
    script = [wants("wait"), "one", "summary"]
    async with tree(*script, tools=[tool("wait", wait)], limits=limits) as t:
        done: list[Compacted | None] = []

        async def compact() -> None:
            done.append(await compact_now(t.agent))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send, t.agent, "Go.")
            await entered.wait()
            tasks.start_soon(compact)
            await anyio.wait_all_tasks_blocked()
            assert len(t.model.requests) == 1
            opened.set()
        assert t.roles == "ca"
        assert [one.summary for one in done if one is not None] == ["summary"]
        assert await compact_now(t.agent) is None  # nothing would be gained


@pytest.mark.asyncio
async def test_a_compaction_on_request_raises_what_went_wrong() -> None:
    async with tree("one", failure("authentication"), limits=Limits(compact_keep=1)) as t:
        await send(t.agent, "Go.")
        async with assert_no_residue(t.root):
            with pytest.raises(HarnessError, match="authentication"):
                await compact_now(t.agent)
        assert t.roles == "ua"


@pytest.mark.asyncio
@pytest.mark.parametrize("stop", ["refused", "length"])
async def test_what_a_model_refused_or_could_not_finish_replaces_nothing(stop: Any) -> None:
    """An apology is no summary, and half of one is none."""
    reply = Reply(Message("assistant", "I am sorry."), stop)
    async with tree("one", reply, limits=Limits(compact_keep=1)) as t:
        await send(t.agent, "Go.")
        with pytest.raises(ModelError, match="summary"):
            await compact_now(t.agent)
        assert t.roles == "ua"


@pytest.mark.asyncio
async def test_a_compaction_of_an_agent_that_goes_says_so() -> None:
    async def leave(compaction: Compaction, next: Any) -> str:
        t.agent.dispose()
        await anyio.sleep_forever()
        return ""

    async with tree("one", limits=Limits(compact_keep=1)) as t:
        await send(t.agent, "Go.")
        t.agent.ctx.on(COMPACT, leave)
        with pytest.raises(InactiveFiberError):
            await compact_now(t.agent)
        with pytest.raises(InactiveFiberError):
            await compact_now(t.agent)


async def interrupted(at: int) -> int:
    """End a turn that compacts at wait number `at`, and check what is left."""
    async with tree(long("one"), "summary", "two", limits=LOW) as t:
        t.agent.ctx.system_prompt.context("now", "noon", order=1)
        await send(t.agent, "First.")
        scope = anyio.CancelScope()
        everywhere = Everywhere(at, scope.cancel)
        with everywhere.tasks(), scope:
            await everywhere.watch(send(t.agent, "Second."))
        await check_afterwards(t)
        return everywhere.passed


async def check_afterwards(t: Tree) -> None:
    check_conversation(t.messages)
    assert "Second." in [one.text for one in t.messages]
    t.model.script = ["summary", "next"] if "c" not in t.roles else ["next"]
    assert (await send(t.agent, "Third.")).text == "next"
    check_conversation(t.messages)
    assert t.roles.count("c") == t.roles.count("s") == 1
    kinds = [event.kind for event in t.log]
    assert kinds.count("compaction") == 1
    assert kinds.count("snapshot") == 2  # the first one went with the compaction


def test_a_turn_can_be_ended_at_every_wait_of_a_compaction() -> None:
    count = anyio.run(interrupted, 0)
    assert count > 30
    for at in range(1, count + 1):
        try:
            anyio.run(interrupted, at)
        except BaseException as error:
            error.add_note(f"at wait {at} of {count}")
            raise


@pytest.mark.asyncio
async def test_where_a_summary_does_not_help_it_is_not_made_in_each_step() -> None:
    """As when the system prompt alone is longer than the limit."""
    limits = Limits(compact_above=100, compact_keep=4)
    async with tree(*(long(wants("look")) for _ in range(9)), tools=[tool("look")]) as t:
        t.agent.limits = limits
        t.root.on(COMPACT, lambda *_: "summary")
        seen = [one for one in await events_of(t.agent, "Go.") if isinstance(one, Compacted)]
        assert 2 <= len(seen) <= 4  # nine steps of two messages, four of which stay
        check_conversation(t.messages)


@pytest.mark.asyncio
async def test_a_turn_that_had_nothing_to_compact_at_first_is_compacted_later() -> None:
    limits = Limits(compact_above=100, compact_keep=3)
    script = [long(wants("look")), long(wants("look")), long(wants("look")), "end"]
    async with tree(*script, tools=[tool("look")], limits=limits) as t:
        t.root.on(COMPACT, lambda *_: "summary")
        seen = [one for one in await events_of(t.agent, "Go.") if isinstance(one, Compacted)]
        assert seen
        check_conversation(t.messages)


@pytest.mark.asyncio
@pytest.mark.parametrize("usage", [None, "much", {}, {"input_tokens": "many"}])
async def test_a_note_of_another_hand_is_no_number_of_tokens(usage: object) -> None:
    async with tree(long("one"), "summary", "two", limits=LOW) as t:
        await send(t.agent, "First.")
        assert t.agent.session is not None
        await t.agent.session.add(Message("user", "By the way."), usage=usage)
        assert (await send(t.agent, "Second.")).text == "two"
        assert t.roles.startswith("c")
