"""Limits of a turn: each is a reason, and the conversation goes on after it."""

from __future__ import annotations

from typing import Any

import pytest
from harness_plugins.agents.loop import Limits, send
from harness_plugins.llm.api import Usage

from .tree import check_conversation, reply_of, tool, tree, wants

pytestmark = pytest.mark.asyncio


async def test_steps_are_limited() -> None:
    script = [*(wants("look") for _ in range(3)), "next"]
    async with tree(*script, tools=[tool("look")], limits=Limits(max_steps=3)) as t:
        result = await send(t.agent, "Go.")
        assert (result.reason, result.steps, result.is_error) == ("max-steps", 3, False)
        assert t.roles == "uatatat"
        assert (await send(t.agent, "Go on.")).text == "next"
        check_conversation(t.messages)


async def test_tokens_are_limited_over_the_whole_turn() -> None:
    """Input and output; the reply that goes beyond is kept, and its tools have run."""
    heavy = reply_of(wants("look"), input_tokens=40, output_tokens=10)
    script = [heavy, heavy, heavy, "next"]
    async with tree(*script, tools=[tool("look")], limits=Limits(max_tokens=100)) as t:
        result = await send(t.agent, "Go.")
        assert (result.reason, result.steps) == ("max-tokens", 2)
        assert result.usage == Usage(80, 20)
        check_conversation(t.messages)
        t.model.script = ["next"]
        assert (await send(t.agent, "Go on.")).text == "next"


async def test_each_reply_is_limited() -> None:
    async with tree("ok", limits=Limits(max_reply_tokens=77)) as t:
        await send(t.agent, "Go.")
        assert t.model.requests[0].max_tokens == 77


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_steps": 0},
        {"max_tokens": -1},
        {"max_seconds": float("nan")},
        {"retries": -1},
        {"retry_seconds": 0},
        {"compact_keep": 0},
        {"max_steps": True},
    ],
)
async def test_a_limit_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Limits(**wrong)
