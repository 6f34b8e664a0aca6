"""What a turn does when the provider does not reply, and how long it tries."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from harness_plugins.agents.api import Retrying
from harness_plugins.agents.loop import Limits, send
from harness_plugins.agents.loop.model_calls import pause_before
from harness_plugins.llm.api import Message, ModelError, Reply, ToolRequest

from .tree import Model, check_conversation, ending, events_of, failure, kinds, tool, tree, wants

pytestmark = pytest.mark.asyncio

QUICK = Limits(retry_seconds=1e-6)


async def test_retries_reuse_the_very_same_request_and_assembly() -> None:
    count = 0

    def counted() -> str:
        nonlocal count
        count += 1
        return f"Assembly {count}."

    script = [failure("overloaded"), failure("disconnected"), failure("rate-limited"), "Yes."]
    async with tree(*script, limits=QUICK) as t:
        t.agent.ctx.system_prompt.section("count", counted, order=1)
        events = await events_of(t.agent, "Go.")
        assert ending(events).text == "Yes."
        assert ending(events).steps == 1
        first, *others = t.model.requests
        assert len(others) == 3
        assert all(one is first for one in others)
        assert count == 1
        retries = [one for one in events if isinstance(one, Retrying)]
        assert [one.attempt for one in retries] == [1, 2, 3]
        assert [one.error.kind for one in retries] == ["overloaded", "disconnected", "rate-limited"]
        assert kinds(events).count("StepStarted") == 1
        assert t.model.closed == 4


async def test_a_failure_that_will_not_pass_is_not_tried_again() -> None:
    async with tree(failure("authentication"), "next") as t:
        result = await send(t.agent, "Go.")
        assert (result.reason, result.is_error) == ("model-failed", True)
        assert isinstance(result.error, ModelError)
        assert len(t.model.requests) == 1
        assert t.log[-1].data["error"] == "ModelError: test: authentication"
        assert (await send(t.agent, "Again.")).text == "next"
        assert t.roles == "uua"


async def test_attempts_are_limited() -> None:
    limits = Limits(retries=2, retry_seconds=1e-6)
    async with tree(*(failure() for _ in range(9)), limits=limits) as t:
        assert (await send(t.agent, "Go.")).reason == "model-failed"
        assert len(t.model.requests) == 3
        assert t.roles == "u"


async def test_pauses_double_and_half_of_each_is_by_chance() -> None:
    limits = Limits(retry_seconds=1, max_retry_seconds=4, retries=5)
    error = failure()
    never, always = (lambda: 0.0), (lambda: 1.0)
    assert [pause_before(n, error, limits, always) for n in range(2, 8)] == [1, 2, 4, 4, 4, None]
    assert [pause_before(n, error, limits, never) for n in range(2, 6)] == [0.5, 1, 2, 2]


async def test_the_providers_own_word_on_the_pause_counts() -> None:
    limits = Limits(retry_seconds=1, max_retry_seconds=60)
    assert pause_before(2, failure(retry_after=7), limits, lambda: 1.0) == 7
    assert pause_before(2, failure(retry_after=0.1), limits, lambda: 1.0) == 1
    too_long = failure(retry_after=3600)
    assert pause_before(2, too_long, limits, lambda: 1.0) is None
    assert "asks to wait 3600 s, more than the limit" in too_long.__notes__[0]


async def test_a_stream_without_a_reply_is_a_failure_that_may_pass() -> None:
    class Broken(Model):
        async def stream(self, request: Any) -> Any:
            async for event in super().stream(request):
                if not isinstance(event, Reply) or len(self.requests) > 1:
                    yield event

    async with tree() as t:
        await t.model_fiber.dispose()
        await t.root.plugin(Broken("lost", "found", name="test").plugin)
        events = await events_of(t.agent, "Go.")
        assert ending(events).text == "found"
        (retry,) = [one for one in events if isinstance(one, Retrying)]
        assert retry.error.kind == "protocol"


async def test_a_reply_that_is_none_of_an_assistant_is_a_failure() -> None:
    async with tree(Reply(Message("user", "I am you.")), "ok", limits=QUICK) as t:
        assert (await send(t.agent, "Go.")).text == "ok"
        check_conversation(t.messages)


async def test_what_an_adapter_raises_against_its_contract_names_it() -> None:
    async with tree(KeyError("choices"), "next") as t:
        result = await send(t.agent, "Go.")
        assert result.reason == "model-failed"
        assert isinstance(result.error, KeyError)
        assert 'in the adapter of provider "test"' in t.log[-1].data["error"]
        assert (await send(t.agent, "Again.")).text == "next"


async def test_no_adapter_is_a_reason_that_says_what_to_mount() -> None:
    async with tree() as t:
        await t.model_fiber.dispose()
        result = await send(t.agent, "Go.")
        assert result.reason == "model-failed"
        assert "mount one: llm_openai" in str(result.error)
        assert t.roles == "u"


async def test_no_model_is_a_reason() -> None:
    async with tree() as t:
        t.model.model = ""
        result = await send(t.agent, "Go.")
        assert result.reason == "model-failed"
        assert "no model is named" in str(result.error)


async def test_an_agent_asks_its_own_provider() -> None:
    async with tree("first", provider="other") as t:
        other = Model("second", name="other")
        await t.root.plugin(other.plugin)
        assert (await send(t.agent, "Go.")).text == "second"
        assert not t.model.requests


async def test_an_adapter_that_is_reloaded_during_a_turn_is_used_from_the_next_step_on() -> None:
    """The step in flight ends on what it began with."""
    new = Model("from the new one")

    async def swap(_: object) -> str:
        await t.model_fiber.dispose()
        await t.root.plugin(new.plugin)
        return "swapped"

    async with tree(wants("swap"), tools=[tool("swap", swap)]) as t:
        result = await send(t.agent, "Go.")
        assert (result.reason, result.text) == ("done", "from the new one")
        assert (len(t.model.requests), len(new.requests)) == (1, 1)


async def test_an_adapter_that_goes_while_it_is_asked_is_followed_by_the_new_one() -> None:
    """The attempt fails, and the next one, of the same request, finds the new adapter."""
    new = Model("from the new one")
    entered = anyio.Event()

    class Going(Model):
        async def stream(self, request: Any) -> Any:
            self.requests.append(request)
            entered.set()
            await gone.wait()
            raise failure("disconnected")
            yield

    gone = anyio.Event()
    old = Going()
    async with tree(limits=QUICK) as t:
        await t.model_fiber.dispose()
        fiber = await t.root.plugin(old.plugin)
        results = []

        async def turn() -> None:
            results.append(await send(t.agent, "Go."))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(turn)
            await entered.wait()
            await fiber.dispose()
            await t.root.plugin(new.plugin)
            gone.set()
        assert [one.text for one in results] == ["from the new one"]
        assert old.requests[0] is new.requests[0]


@pytest.mark.parametrize("when", ["before the assembly", "before the request"])
async def test_a_step_waits_for_an_adapter_that_is_being_reloaded(when: str) -> None:
    """Between two versions there is none: that is no failure."""
    loads = 0

    async def slow_adapter(ctx: Any) -> None:
        nonlocal loads
        loads += 1
        if loads > 1:
            began.set()
            await opened.wait()
        t.model.plugin(ctx)

    began, opened = anyio.Event(), anyio.Event()
    async with tree("Yes.") as t:
        await t.model_fiber.dispose()
        fiber = await t.root.plugin(slow_adapter)
        results = []

        async def reload() -> None:
            tasks.start_soon(fiber.restart)
            await began.wait()

        async def on_request(request: Any, step: Any, next: Any) -> Any:
            await reload()
            return await next()

        async def turn() -> None:
            results.append(await send(t.agent, "Go."))

        async with anyio.create_task_group() as tasks:
            if when == "before the assembly":
                await reload()
            else:
                t.root.on("agent/request", on_request)
            tasks.start_soon(turn)
            await began.wait()
            await anyio.wait_all_tasks_blocked()
            assert not results
            opened.set()
        assert [one.text for one in results] == ["Yes."]


async def test_a_stream_is_closed_before_its_reply_is_acted_upon() -> None:
    journal: list[str] = []

    class Slow(Model):
        async def stream(self, request: Any) -> Any:
            async with aclosing(super().stream(request)) as events:
                try:
                    async for event in events:
                        yield event
                finally:
                    for _ in range(9):
                        await checkpoint()
                    journal.append("closed")

    async with tree(tools=[tool("look", lambda _: journal.append("look"))]) as t:
        await t.model_fiber.dispose()
        await t.root.plugin(Slow(wants("look")).plugin)
        t.journal.fails = lambda events: journal.append(events[0].kind) or False
        await send(t.agent, "Go.")
        assert journal[:4] == ["turn-started", "closed", "message", "look"]


class Wrong(Model):
    """An adapter that does not do what its contract says."""

    def __init__(self, stream: Any) -> None:
        super().__init__()
        self.stream = stream  # type: ignore[method-assign]


def replying(reply: Any) -> Any:
    """Return the stream of an adapter that gives this reply."""

    async def stream(_: object) -> Any:
        yield reply

    return stream


async def no_generator(_: object) -> Any:
    """Return, where it should yield."""
    return Reply(Message("assistant", "hi"))


@pytest.mark.parametrize(
    ("stream", "said"),
    [
        (no_generator, "stream() of an adapter is an async generator"),
        (lambda _: iter([]), "stream() of an adapter is an async generator"),
        (replying(Reply("hi")), "a Reply has a Message and a Usage"),  # type: ignore[arg-type]
        (replying(Reply(Message("assistant", "hi"), usage=None)), "and a Usage"),  # type: ignore[arg-type]
        (replying(Reply(Message("assistant", None))), "a Message holds texts"),  # type: ignore[arg-type]
        (
            replying(Reply(Message("assistant", requests=[ToolRequest("1", "x", {})]))),  # type: ignore[arg-type]
            "a Message holds texts",
        ),
    ],
)
async def test_an_adapter_that_breaks_its_contract_is_told_how(stream: Any, said: str) -> None:
    async with tree() as t:
        await t.model_fiber.dispose()
        await t.root.plugin(Wrong(stream).plugin)
        result = await send(t.agent, "Go.")
        assert result.reason == "model-failed"
        assert said in str(result.error)
        assert t.roles == "u"


async def test_another_model_is_asked_from_the_next_step_on_and_the_prompt_says_so() -> None:
    async with tree(wants("switch"), "Yes.", model="m-1") as t:
        t.agent.ctx.system_prompt.section("who", "You are {{model}}.", order=1)
        below = await t.agent.create("below")

        def switch(_: object) -> str:
            t.agent.model = "m-2"
            return "switched"

        t.root.tools.register(tool("switch", switch))
        assert (await send(t.agent, "Go.")).reason == "done"
        asked = [(one.model, one.system) for one in t.model.requests]
        assert asked == [("m-1", "You are m-1."), ("m-2", "You are m-2.")]
        assert below.model == "m-1"
