"""Runtime-context snapshots: written when they say something that is not visible, and only then."""

from __future__ import annotations

import pytest
from harness_plugins.agents.loop import Limits, compact_now, send

from harness_core.prompt import AssembledContext

from .tree import Tree, check_conversation, failure, tool, tree, wants

pytestmark = pytest.mark.asyncio

PREAMBLE = "Current runtime context. This snapshot supersedes earlier runtime-context snapshots."


class Clock:
    """A context whose text a test sets."""

    def __init__(self, t: Tree, text: str = "noon") -> None:
        self.text = text
        self.effect = t.agent.ctx.system_prompt.context("clock", lambda: self.text, order=1)


async def test_a_snapshot_that_has_not_changed_is_written_once() -> None:
    async with tree(wants("look"), "one", "two", tools=[tool("look")]) as t:
        Clock(t)
        await send(t.agent, "First.")
        await send(t.agent, "Second.")
        assert t.roles == "usataua"
        first = t.model.requests[0].messages
        assert [one.role for one in first] == ["user", "user"]
        assert first[1].text == f"{PREAMBLE}\n\nnoon"
        check_conversation(t.messages)


async def test_a_changed_snapshot_is_written_before_the_next_request() -> None:
    """Also between two steps: behind the results, in front of the reply."""
    async with tree(wants("wait"), "one", "two") as t:
        clock = Clock(t)
        t.root.tools.register(tool("wait", lambda _: setattr(clock, "text", "one o'clock")))
        await send(t.agent, "First.")
        assert t.roles == "usatsa"
        assert t.model.requests[1].messages[-1].text == f"{PREAMBLE}\n\none o'clock"
        clock.text = "two o'clock"
        await send(t.agent, "Second.")
        assert t.roles == "usatsausa"
        check_conversation(t.messages)


async def test_when_all_contexts_have_gone_one_message_says_so() -> None:
    async with tree() as t:
        clock = Clock(t)
        await send(t.agent, "1")
        clock.effect()
        await send(t.agent, "2")
        await send(t.agent, "3")
        assert t.roles == "usausaua"
        gone = t.model.requests[1].messages[-1].text
        assert gone == (
            "The runtime context has been withdrawn: nothing of earlier snapshots holds any more."
        )
        Clock(t)
        await send(t.agent, "4")
        assert t.roles == "usausauausa"


async def test_without_any_context_nothing_is_written() -> None:
    async with tree() as t:
        await send(t.agent, "1")
        assert t.roles == "ua"


async def test_a_snapshot_that_compaction_removed_comes_back_and_only_then() -> None:
    async with tree("1", "2", "a summary", "3", "4") as t:
        Clock(t)
        await send(t.agent, "1")
        await send(t.agent, "2")
        assert t.roles == "usaua"
        t.agent.limits = Limits(compact_keep=1)
        assert await compact_now(t.agent) is not None
        assert t.roles == "ca"
        await send(t.agent, "3")
        await send(t.agent, "4")
        assert t.roles == "causaua"
        assert "noon" in t.messages[3].text


async def test_a_snapshot_that_compaction_left_is_not_written_again() -> None:
    async with tree("1", "2", "a summary", "3") as t:
        clock = Clock(t)
        await send(t.agent, "1")
        clock.text = "later"
        await send(t.agent, "2")
        t.agent.limits = Limits(compact_keep=2)
        await compact_now(t.agent)
        assert t.roles == "cusa"
        await send(t.agent, "3")
        assert t.roles == "cusaua"


async def test_what_was_written_is_known_from_the_log_and_not_from_memory() -> None:
    async with tree() as t:
        t.root.system_prompt.context("clock", "noon", order=1)
        await send(t.agent, "1")
        again = await t.again()
        await send(again, "2")
        assert t.roles == "usaua"


async def test_each_contributor_is_named_in_the_log_and_not_to_the_model() -> None:
    async with tree() as t:

        def clock(ctx: object) -> None:
            ctx.system_prompt.context("clock", "noon", order=1)  # type: ignore[attr-defined]

        def silent(ctx: object) -> None:
            ctx.system_prompt.context("silent", "", order=2)  # type: ignore[attr-defined]

        clock.inject = silent.inject = ["system_prompt"]  # type: ignore[attr-defined]
        await t.root.plugin(clock)
        await t.root.plugin(silent)

        async def add(assembly: object, context: object, next: object) -> object:
            result = await next()  # type: ignore[operator]
            result.contexts.append(AssembledContext("added", "by hand"))
            return result

        t.root.on("system-prompt/assemble", add)
        await send(t.agent, "1")
        (snapshot,) = [event for event in t.log if event.kind == "snapshot"]
        assert snapshot.data["sources"] == [
            {"name": "clock", "plugin": "clock"},
            {"name": "added", "plugin": None},
        ]
        assert "plugin" not in t.model.requests[0].messages[1].text


async def test_a_snapshot_stays_written_when_the_turn_fails_behind_it() -> None:
    async with tree(failure("authentication"), "ok") as t:
        Clock(t)
        await send(t.agent, "1")
        assert t.roles == "us"
        await send(t.agent, "2")
        assert t.roles == "usua"


async def test_nothing_is_written_of_a_prompt_that_cannot_be_rendered() -> None:
    async with tree("ok") as t:
        clock = Clock(t)
        bad = t.agent.ctx.system_prompt.section("bad", "{{nobody}}", order=1)
        assert (await send(t.agent, "1")).reason == "assembly-failed"
        assert t.roles == "u"
        bad()
        clock.text = "{{nobody}}"
        result = await send(t.agent, "2")
        assert result.reason == "assembly-failed"
        assert 'in context "clock"' in str(result.error)
        assert t.roles == "uu"
        clock.text = "noon"
        await send(t.agent, "3")
        assert t.roles == "uuusa"


async def test_a_suppressed_context_is_no_snapshot() -> None:
    async with tree() as t:
        Clock(t)
        t.agent.ctx.system_prompt.suppress_runtime_context()
        await send(t.agent, "1")
        assert t.roles == "ua"
