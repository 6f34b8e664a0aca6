"""Mistakes of earlier systems about turns and snapshots: none of them happens here."""

from __future__ import annotations

from typing import Any

import pytest
from harness_plugins.agents.loop import Limits, compact_now, send

from .tree import check_conversation, failure, tool, tree, wants

pytestmark = pytest.mark.asyncio


@pytest.mark.parametrize("fault", ["raises", "renders badly", "no provider", "provider fails"])
async def test_the_users_message_is_not_lost_when_a_part_fails(fault: str) -> None:
    def broken() -> str:
        if fault == "raises":
            raise RuntimeError("no file")
        return "{{nobody}}"

    script: list[Any] = [failure("authentication")] if fault == "provider fails" else []
    async with tree(*script, "It was: 1.") as t:
        effect = None
        if fault in ("raises", "renders badly"):
            effect = t.agent.ctx.system_prompt.section("bad", broken, order=1)
        elif fault == "no provider":
            await t.model_fiber.dispose()
        result = await send(t.agent, "Remember: 1.")
        assert result.is_error
        assert [one.text for one in t.messages] == ["Remember: 1."]
        assert t.log[-1].data["reason"] == result.reason
        if effect is not None:
            effect()
        elif fault == "no provider":
            await t.root.plugin(t.model.plugin)
        assert (await send(t.agent, "What was it?")).text == "It was: 1."
        sent = [one.text for one in t.model.requests[-1].messages]
        assert sent == ["Remember: 1.", "What was it?"]


async def test_a_turn_without_a_message_makes_no_call_though_a_context_is_pending() -> None:
    async with tree("one") as t:
        text = "noon"
        t.agent.ctx.system_prompt.context("clock", lambda: text, order=1)
        assert (await send(t.agent, "")).reason == "nothing-to-say"
        await send(t.agent, "Go.")
        text = "one o'clock"
        assert (await send(t.agent, " ")).reason == "nothing-to-say"
        assert len(t.model.requests) == 1
        assert t.roles == "usa"


async def test_an_unchanged_snapshot_is_not_written_again_each_turn() -> None:
    async with tree() as t:
        t.agent.ctx.system_prompt.context("clock", "noon", order=1)
        for text in ("1", "2", "3"):
            await send(t.agent, text)
        assert t.roles == "usauaua"


async def test_a_snapshot_removed_by_compaction_comes_back() -> None:
    async with tree("1", "2", "summary", "3", limits=Limits(compact_keep=1)) as t:
        t.agent.ctx.system_prompt.context("clock", "noon", order=1)
        await send(t.agent, "1")
        await send(t.agent, "2")
        await compact_now(t.agent)
        await send(t.agent, "3")
        assert t.roles == "causa"


async def test_recalled_data_with_braces_does_not_kill_turns() -> None:
    async with tree() as t:
        prompt = t.agent.ctx.system_prompt
        prompt.section("memory", "{{name}} and {{ x }}", order=1, literal=True)
        prompt.context("recalled", "{% {{", order=1, literal=True)
        for text in ("Use {{braces}}.", "Again."):
            assert (await send(t.agent, text)).reason == "done"
        assert t.model.requests[-1].system == "{{name}} and {{ x }}"
        assert t.messages[0].text == "Use {{braces}}."


async def test_tools_keep_their_order_between_turns() -> None:
    async with tree(tools=[tool("b"), tool("a")]) as t:
        await send(t.agent, "1")
        t.root.tools.register(tool("c"))
        effect = t.root.tools.register(tool("aa"))
        effect()
        await send(t.agent, "2")
        names = [[one.name for one in request.tools] for request in t.model.requests]
        assert names == [["a", "b"], ["a", "b", "c"]]


async def test_guidance_for_a_hidden_tool_is_not_in_the_request() -> None:
    async with tree(tools=[tool("bash")]) as t:
        t.root.system_prompt.section("bash", "Use bash.", order=100, requires_tools=["bash"])
        await send(t.agent, "1")
        t.agent.ctx.tools.restrict(deny=["bash"])
        await send(t.agent, "2")
        assert [one.system for one in t.model.requests] == ["Use bash.", ""]


async def test_it_can_be_told_whose_contribution_failed() -> None:
    def guilty(ctx: Any) -> None:
        def provider() -> str:
            raise RuntimeError("no file")

        ctx.system_prompt.section("files", provider, order=1)

    guilty.inject = ["system_prompt"]  # type: ignore[attr-defined]
    async with tree() as t:
        await t.root.plugin(guilty)
        result = await send(t.agent, "Go.")
        notes = "\n".join(getattr(result.error, "__notes__", ()))
        assert 'plugin "guilty"' in notes
        assert 'section "files"' in notes
        assert notes in t.log[-1].data["error"]


async def test_a_failed_reply_leaves_a_conversation_that_any_provider_takes() -> None:
    async with tree(wants("look"), failure("authentication"), "ok", tools=[tool("look")]) as t:
        assert (await send(t.agent, "Go.")).reason == "model-failed"
        check_conversation(t.messages)
        assert t.roles == "uat"
        assert (await send(t.agent, "And?")).text == "ok"
        check_conversation(t.model.requests[-1].messages)
