"""The events of the loop: who hears them, what they can do, what happens if they fail."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from harness_plugins.agents.loop import (
    REQUEST,
    STEP,
    STOPPING,
    Limits,
    Step,
    StepEnd,
    Stopping,
    TurnResult,
    send,
)
from harness_plugins.llm.api import Message, ModelRequest, Reply

from .tree import check_conversation, failure, tool, tree, wants

pytestmark = pytest.mark.asyncio


async def test_a_step_listener_is_around_the_whole_step() -> None:
    journal: list[object] = []

    async def around(step: Step, next: Any) -> StepEnd:
        journal.append((step.agent.name, step.number, step.session, len(t.model.requests)))
        end: StepEnd = await next()
        journal.append((end.reason, [one.text for one in end.results], t.roles))
        return end

    async with tree(wants("look"), "end", tools=[tool("look", "seen")]) as t:
        t.agent.ctx.on(STEP, around)
        await send(t.agent, "Go.")
        assert journal == [
            ("a", 1, "s", 0),
            (None, ["seen"], "uat"),
            ("a", 2, "s", 1),
            ("done", [], "uata"),
        ]


async def test_a_failure_is_a_value_for_step_listeners() -> None:
    seen: list[object] = []

    async def around(step: Step, next: Any) -> StepEnd:
        end: StepEnd = await next()
        seen.append((end.reason, str(end.error)))
        return end

    async with tree(failure("authentication")) as t:
        t.agent.ctx.on(STEP, around)
        assert (await send(t.agent, "Go.")).reason == "model-failed"
        assert seen == [("model-failed", "test: authentication")]


async def test_a_step_listener_can_end_the_turn() -> None:
    async def stop(step: Step, next: Any) -> StepEnd:
        return attrs.evolve(await next(), reason="stopped")

    async with tree(wants("look"), "never", tools=[tool("look")]) as t:
        t.agent.ctx.on(STEP, stop)
        result = await send(t.agent, "Go.")
        assert (result.reason, result.is_error) == ("stopped", False)
        assert t.roles == "uat"
        check_conversation(t.messages)


async def test_a_step_listener_can_make_the_step_itself() -> None:
    async def instead(step: Step, next: Any) -> StepEnd:
        return StepEnd("stopped")

    async with tree("never") as t:
        t.agent.ctx.on(STEP, instead)
        assert (await send(t.agent, "Go.")).reason == "stopped"
        assert not t.model.requests
        assert t.roles == "u"


async def test_a_turn_does_not_go_on_with_nothing_to_say() -> None:
    """A listener that would have it go on behind a last word changes nothing."""

    async def go_on(step: Step, next: Any) -> StepEnd:
        return attrs.evolve(await next(), reason=None)

    async with tree("done", "never") as t:
        t.agent.ctx.on(STEP, go_on)
        assert (await send(t.agent, "Go.")).reason == "done"
        assert len(t.model.requests) == 1


async def test_a_step_that_never_gets_anywhere_ends_at_the_limit() -> None:
    async def skip(step: Step, next: Any) -> StepEnd:
        return StepEnd()

    async with tree(limits=Limits(max_steps=5)) as t:
        t.agent.ctx.on(STEP, skip)
        assert (await send(t.agent, "Go.")).reason == "max-steps"


async def test_what_a_request_listener_returns_is_sent() -> None:
    seen: list[object] = []

    async def change(request: ModelRequest, step: Step, next: Any) -> ModelRequest:
        seen.append((request, step.number))
        return attrs.evolve(await next(), temperature=0.5, options={"seed": 1})

    async with tree(failure(), "ok", limits=Limits(retry_seconds=1e-6)) as t:
        t.agent.ctx.on(REQUEST, change)
        await send(t.agent, "Go.")
        first, second = t.model.requests
        assert first is second
        assert (first.temperature, first.options) == (0.5, {"seed": 1})
        assert len(seen) == 1  # once a step, not once an attempt


async def test_listeners_hear_the_agents_of_their_scope_and_below_it() -> None:
    heard: list[tuple[str, str]] = []

    def listen(ctx: Any, name: str) -> None:
        async def on_step(step: Step, next: Any) -> StepEnd:
            heard.append((name, step.agent.name))
            return await next()  # type: ignore[no-any-return]

        ctx.on(STEP, on_step)

    async with tree() as t:
        child = await t.agent.create("child")
        other = await t.root.agents.create("other")
        listen(t.root, "root")
        listen(t.agent.ctx, "a")
        listen(child.ctx, "child")
        for agent in (t.agent, child, other):
            await send(agent, "Go.")
        assert heard == [
            ("root", "a"), ("a", "a"),
            ("root", "child"), ("a", "child"), ("child", "child"),
            ("root", "other"),
        ]  # fmt: skip


async def test_a_turn_that_is_about_to_end_can_be_made_to_go_on() -> None:
    results: list[TurnResult] = []

    async def check(stopping: Stopping, next: Any) -> Stopping:
        asked: Stopping = await next()
        results.append(stopping.result)
        if len(results) < 3:
            return attrs.evolve(asked, message=f"Check again ({len(results)}).")
        return asked

    async with tree("one", wants("look"), "two", "three", tools=[tool("look")]) as t:
        t.agent.ctx.on(STOPPING, check)
        result = await send(t.agent, "Go.")
        assert (result.text, result.steps) == ("three", 4)
        assert [one.text for one in results] == ["one", "two", "three"]
        assert [one.reason for one in results] == ["done"] * 3
        assert t.roles == "uauataua"
        assert [one.text for one in t.messages if one.role == "user"] == [
            "Go.",
            "Check again (1).",
            "Check again (2).",
        ]
        sources = [event.data.get("source") for event in t.log if event.kind == "message"]
        assert sources.count("agent/stopping") == 2
        check_conversation(t.messages)


async def test_a_turn_cannot_be_made_to_go_on_beyond_its_limits() -> None:
    async def always(stopping: Stopping, next: Any) -> Stopping:
        return attrs.evolve(await next(), message="More!")

    async with tree(limits=Limits(max_steps=3)) as t:
        t.agent.ctx.on(STOPPING, always)
        assert (await send(t.agent, "Go.")).reason == "max-steps"
        assert len(t.model.requests) == 3


async def test_going_on_behind_a_refusal_answers_its_requests() -> None:
    async def again(stopping: Stopping, next: Any) -> Stopping:
        message = "Please." if stopping.result.reason == "refused" else ""
        return attrs.evolve(await next(), message=message)

    refused = Reply(Message("assistant", requests=tuple(wants("look"))), "refused")
    async with tree(refused, "ok", tools=[tool("look")]) as t:
        t.agent.ctx.on(STOPPING, again)
        assert (await send(t.agent, "Go.")).text == "ok"
        check_conversation(t.messages)
        assert t.roles == "uatua"


@pytest.mark.parametrize("event", [STEP, REQUEST, STOPPING])
@pytest.mark.parametrize("fault", ["raises", "returns nothing", "returns a wrong thing"])
async def test_a_listener_that_fails_ends_the_turn_and_is_named(event: Any, fault: str) -> None:
    is_bad = True

    async def guilty(*args: Any) -> Any:
        result = await args[-1]()
        if not is_bad:
            return result
        if fault == "raises":
            raise RuntimeError("broken")
        return None if fault == "returns nothing" else "text"

    async def innocent(*args: Any) -> Any:
        return await args[-1]()

    def guilty_plugin(ctx: Any) -> None:
        ctx.on(event, guilty)

    async with tree(wants("look"), "one", "two", tools=[tool("look")]) as t:
        t.root.on(event, innocent)
        await t.root.plugin(guilty_plugin)
        t.root.on(event, innocent)
        result = await send(t.agent, "Go.")
        assert (result.reason, result.is_error) == ("listener-failed", True)
        said = t.log[-1].data["error"]
        assert 'guilty of plugin "guilty_plugin"' in said
        assert "innocent" not in said
        check_conversation(t.messages)
        is_bad = False
        t.model.script = ["next"]
        assert (await send(t.agent, "Again.")).text == "next"
        check_conversation(t.messages)
