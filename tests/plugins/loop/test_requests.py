"""What a step sends: the tree as it is then, and how much of it the provider's cache knows."""

from __future__ import annotations

from typing import Any

import pytest
from harness_plugins.agents.api import StepStarted
from harness_plugins.agents.loop import send
from harness_plugins.agents.loop.stable import stable_part

from harness_core.prompt import render_prompt

from .tree import events_of, tool, tree, wants

pytestmark = pytest.mark.asyncio


async def test_each_step_has_one_assembly_and_it_is_the_prompt_of_its_request() -> None:
    count = 0

    def counted() -> str:
        nonlocal count
        count += 1
        return f"Step {count}."

    async with tree(wants("look"), "end", tools=[tool("look")]) as t:
        t.agent.ctx.system_prompt.section("count", counted, order=1)
        events = await events_of(t.agent, "Go.")
        assert count == 2
        steps = [one for one in events if isinstance(one, StepStarted)]
        assert [one.step for one in steps] == [1, 2]
        assert [render_prompt(one.assembly) for one in steps] == ["Step 1.", "Step 2."]
        assert [one.system for one in t.model.requests] == ["Step 1.", "Step 2."]


async def test_what_a_tool_changes_in_the_tree_is_in_the_next_step() -> None:
    def rules(ctx: Any) -> None:
        ctx.system_prompt.section("rules", "New rules.", order=1)
        ctx.tools.register(tool("new"))

    rules.inject = ["system_prompt", "tools"]  # type: ignore[attr-defined]

    async def change(_: object) -> str:
        old()
        await t.root.plugin(rules)
        return "changed"

    script = [wants("change"), wants("new", "old"), "end"]
    async with tree(*script, tools=[tool("change", change)]) as t:
        old = t.root.tools.register(tool("old"))
        assert (await send(t.agent, "Go.")).text == "end"
        first, second, third = t.model.requests
        assert [one.name for one in first.tools] == ["change", "old"]
        assert first.system == ""
        assert [one.name for one in second.tools] == ["change", "new"]
        assert second.system == "New rules."
        new, gone = third.messages[-2:]
        assert (new.text, gone.text) == ("ok", 'unknown tool "old"; available tools: change, new')


async def test_an_assembly_knows_the_agent_a_signal_and_the_last_message_before_the_turn() -> None:
    seen: list[Any] = []

    def look(context: Any) -> str:
        seen.append((context.scope, context.agent, context.last_message_at, context.signal))
        return ""

    async with tree("one", wants("look"), "two", tools=[tool("look")]) as t:
        t.agent.ctx.system_prompt.section("spy", look, order=1)
        await send(t.agent, "Go.")
        await send(t.agent, "Go on.")
        assert all(scope is agent is t.agent for scope, agent, _, _ in seen)
        assert all(signal is not None for _, _, _, signal in seen)
        # Not what was said just now, also not what the turn itself has written.
        replied = t.log[2].at
        assert [last for _, _, last, _ in seen] == [None, replied, replied]


async def test_the_stable_part_is_what_the_step_before_had_too() -> None:
    now = "noon"
    async with tree("1", "2", "3", "4") as t:
        prompt = t.agent.ctx.system_prompt
        prompt.section("rules", "Be brief.", order=1)
        prompt.section("clock", lambda: f"It is {now}.", order=2)
        prompt.section("more", "And kind.", order=3)
        await send(t.agent, "1")
        now = "one"
        await send(t.agent, "2")
        await send(t.agent, "3")
        again = await t.again()
        await send(again, "4")
        stable = [request.stable for request in t.model.requests]
        # Nothing to compare with; the first section; all of it; nothing to compare with.
        assert stable == [None, len("Be brief."), None, None]
        assert t.model.requests[1].system[: len("Be brief.")] == "Be brief."


@pytest.mark.parametrize(
    ("before", "now", "stable"),
    [
        (None, ("a",), None),
        (("a", "b"), ("a", "b"), None),
        (("a", "b"), ("a", "c"), 1),
        (("a", "b", "c"), ("a", "b", "d"), 4),
        (("a", "b"), ("a",), 1),
        (("a",), ("a", "b"), 1),
        (("ab",), ("ac",), 0),
        ((), ("a",), 0),
    ],
)
async def test_only_whole_sections_are_stable(before: Any, now: Any, stable: int | None) -> None:
    assert stable_part(before, now) == stable


async def test_whoever_creates_an_agent_needs_to_inject_nothing_else() -> None:
    results: list[str] = []

    async def plugin(ctx: Any) -> None:
        agent = await ctx.agents.create("b")
        results.append((await send(agent, "Go.")).text)

    plugin.inject = ["agents"]  # type: ignore[attr-defined]
    async with tree(wants("look"), "end", tools=[tool("look")]) as t:
        t.root.system_prompt.section("rules", "Be brief.", order=1)
        await t.root.plugin(plugin)
        assert results == ["end"]
        assert t.model.requests[0].system == "Be brief."
