"""A model hands a task to a sub-agent, and reads what came of it."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import harness_plugins.presets
import pytest
from harness_plugins.agents.api import Agent, delegate_tool
from harness_plugins.llm.api import (
    Message,
    ModelEvent,
    ModelRequest,
    Reply,
    ToolRequest,
    publish_adapter,
)

from harness_core import Context
from harness_core.testing import assert_no_residue

from .tree import tools_of, tree

pytestmark = pytest.mark.asyncio


class Model:
    """A paid model, faked: `answer(request)` is a text, or tasks to delegate."""

    provider = "test"
    model = "m"

    def __init__(self, answer: Callable[[ModelRequest], str | list[dict[str, str]]]) -> None:
        self.answer = answer
        self.requests: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield the whole reply at once."""
        self.requests.append(request)
        await anyio.lowlevel.checkpoint()
        said = self.answer(request)
        if isinstance(said, str):
            yield Reply(Message("assistant", said))
            return
        wanted = tuple(
            ToolRequest(str(number), "delegate", json.dumps(one)) for number, one in enumerate(said)
        )
        yield Reply(Message("assistant", requests=wanted), "tools")


@asynccontextmanager
async def asking(
    answer: Callable[[ModelRequest], Any], **config: Any
) -> AsyncIterator[tuple[Context, Model]]:
    """Open a tree with a model and one agent that may delegate."""
    settings = {"agents": {"boss": {"delegate": True, "persona": "You lead."}}, **config}
    async with tree(**settings) as root:
        model = Model(answer)
        publish_adapter(root, model)
        presets = {"writer": {"persona": "You write."}}
        await root.plugin(harness_plugins.presets, {"presets": presets})
        yield root, model


def last(request: ModelRequest) -> str:
    """Return the last message of a request, as text."""
    return request.messages[-1].text


async def test_a_task_is_answered_by_a_sub_agent_that_then_goes() -> None:
    """It begins with nothing but the task, and sees what its preset says."""

    def answer(request: ModelRequest) -> Any:
        if last(request) == "Report.":
            return [{"task": "Write it.", "preset": "writer"}]
        return "Once upon a time." if last(request) == "Write it." else f"Told: {last(request)}"

    async with asking(answer) as (root, model):
        boss: Agent = root.agents["boss"]
        await boss.open_session()
        async with assert_no_residue(root):
            result = await boss.send("Report.")
        assert (result.reason, result.text) == ("done", "Told: Once upon a time.")
        assert [request.system for request in model.requests] == [
            "You lead.",
            "You write.",
            "You lead.",
        ]
        assert [len(request.messages) for request in model.requests] == [1, 1, 3]
        assert list(root.agents) == ["boss"]


async def test_tasks_are_done_at_once_by_agents_of_names_of_their_own() -> None:
    """Without a preset, an agent like the one that asks."""
    names: set[str] = set()
    both = anyio.Event()

    def answer(request: ModelRequest) -> Any:
        if last(request) == "Go.":
            return [{"task": "One."}, {"task": "Two."}]
        return "ok"

    async with asking(answer) as (root, model):

        async def meet(step: Any, rest: Any) -> Any:
            names.add(step.agent.name)
            if step.agent.name != "boss":
                if {"boss/1", "boss/2"} <= names:
                    both.set()
                await both.wait()
            return await rest()

        root.on("agent/step", meet, unfiltered=True)
        with anyio.fail_after(10):
            result = await root.agents["boss"].send("Go.")
        assert result.reason == "done"
        assert names == {"boss", "boss/1", "boss/2"}
        assert [request.system for request in model.requests] == ["You lead."] * 4


async def test_delegation_goes_as_deep_as_agents_may_stand() -> None:
    """Then the model is told."""
    depths: list[int] = []

    def answer(request: ModelRequest) -> Any:
        return [{"task": "Deeper."}] if len(request.messages) == 1 else last(request)

    async with asking(answer, max_depth=2) as (root, _):
        root.on("agent/step", lambda step, rest: depth(step, rest), unfiltered=True)

        async def depth(step: Any, rest: Any) -> Any:
            depths.append(step.agent.depth)
            return await rest()

        result = await root.agents["boss"].send("Go.")
        assert "that is depth 3, and the greatest depth is 2" in result.text
        assert max(depths) == 2
        assert list(root.agents) == ["boss"]


async def test_what_goes_wrong_is_said_to_the_model() -> None:
    """A preset that is unknown, a sub-agent that does not finish."""

    def answer(request: ModelRequest) -> Any:
        if last(request) == "Go.":
            return [{"task": "x", "preset": "writr"}, {"task": "Fail."}]
        if last(request) == "Fail.":
            raise ZeroDivisionError("no model")
        return " | ".join(one.text for one in request.messages[-2:])

    async with asking(answer) as (root, _):
        result = await root.agents["boss"].send("Go.")
        assert 'there is no preset "writr"; presets: writer; did you mean "writer"' in result.text
        assert "sub-agent boss/" in result.text
        assert "did not finish: model-failed" in result.text
        assert list(root.agents) == ["boss"]


async def test_a_turn_that_is_cancelled_takes_its_sub_agents_along() -> None:
    """They are gone before the turn has ended."""

    def answer(request: ModelRequest) -> Any:
        return [{"task": "Wait."}]

    async with asking(answer) as (root, _):
        waiting, journal = anyio.Event(), list[str]()

        async def undo() -> None:
            for _ in range(5):
                await anyio.lowlevel.checkpoint()
            journal.append("over")

        async def wait(step: Any, rest: Any) -> Any:
            if step.agent.name != "boss":
                step.agent.ctx.effect(lambda: undo)
                waiting.set()
                await anyio.sleep_forever()
            return await rest()

        root.on("agent/step", wait, unfiltered=True)
        boss: Agent = root.agents["boss"]
        await boss.open_session()
        async with assert_no_residue(root):
            async with anyio.create_task_group() as group:
                group.start_soon(boss.send, "Go.")
                with anyio.fail_after(10):
                    await waiting.wait()
                assert list(root.agents) == ["boss", "boss/1"]
                group.cancel_scope.cancel()
            assert journal == ["over"]
            assert list(root.agents) == ["boss"]


async def test_only_an_agent_can_delegate() -> None:
    """The tool may be registered for all; whoever calls it is asked who he is."""
    async with tree() as root:
        root.tools.register(delegate_tool())
        result = await root.tools.execute("delegate", {"task": "x"}, scope=None)
        assert (result.status, result.text) == (
            "failed", "only an agent can delegate: this call is of no agent's scope",
        )  # fmt: skip
        agent = await root.agents.create("a")
        assert await tools_of(root, agent) == ["delegate"]
