"""A failure of any part of a turn, at any of its waits: nothing is lost, the next turn works."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from harness_plugins.agents.api import TurnStarted
from harness_plugins.agents.loop import REQUEST, STEP, STOPPING, Limits, compact_now, send
from harness_plugins.llm.api import ModelRequest
from harness_plugins.session.api import LogEvent
from harness_plugins.tools.api import EXECUTE, POST_EXECUTE, PRE_EXECUTE, RESULT

from harness_core.errors import HarnessError
from harness_core.testing import assert_no_residue

from .tree import Model, Tree, check_conversation, ending, events_of, failure, tool, tree, wants


class Broken(Exception):
    """What a part raises that nobody expected."""


class Parts:
    """Numbers the waits of everything that takes part in a turn; breaks one of them."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.passed = 0
        self.names: list[str] = []

    async def wait(self, name: str) -> None:
        """Wait; break if it is the one."""
        self.names.append(name)
        self.passed += 1
        number = self.passed
        await checkpoint()
        if number == self.at:
            raise Broken(name)

    def around(self, name: str) -> Any:
        """Return a waterfall listener."""

        async def listener(*args: Any) -> Any:
            await self.wait(f"{name} in")
            result = await args[-1]()
            await self.wait(f"{name} out")
            return result

        return listener

    def part(self, name: str, result: Any = None) -> Any:
        """Return a tool, a provider or another listener."""

        async def run(*_: Any) -> Any:
            await self.wait(name)
            return result

        return run


class BrokenModel(Model):
    """A model whose waits are numbered."""

    parts: Parts

    async def stream(self, request: ModelRequest) -> Any:
        await self.parts.wait("model in")
        async for event in super().stream(request):
            yield event
            await self.parts.wait("model out")


@asynccontextmanager
async def broken_turn(at: int) -> AsyncIterator[tuple[Tree, Parts]]:
    """Open a tree in which everything that can takes part in a turn, and one wait is broken."""
    parts = Parts(at)
    tools = [
        tool("read", parts.part("read", "seen"), parallel=True),
        tool("write", parts.part("write", "written")),
    ]
    async with tree(tools=tools, limits=Limits(retry_seconds=1e-6)) as t:
        await t.model_fiber.dispose()
        t.model = BrokenModel(failure(), wants("read", "write"), "The end.")
        t.model.parts = parts
        await t.root.plugin(t.model.plugin)
        ctx = t.agent.ctx
        ctx.system_prompt.section("slow", parts.part("section", "text"), order=1)
        ctx.system_prompt.context("now", parts.part("context", "noon"), order=1)
        ctx.system_prompt.variable("who", parts.part("variable", "me"))
        for event in (STEP, REQUEST, STOPPING, EXECUTE, "system-prompt/assemble"):
            ctx.on(event, parts.around(event if isinstance(event, str) else event.name))
        for event in (PRE_EXECUTE, POST_EXECUTE, RESULT):
            ctx.on(event, parts.part(event.name))
        append = t.journal.append

        async def slowly(events: Sequence[LogEvent]) -> None:
            await parts.wait("journal")
            await append(events)

        t.journal.append = slowly  # type: ignore[method-assign]
        await t.agent.open_session()
        yield t, parts


async def turn_with_failure(at: int) -> list[str]:
    """Run a turn whose wait number `at` breaks, and check what is left; return all waits."""
    async with broken_turn(at) as (t, parts):
        async with assert_no_residue(t.root):
            events = await events_of(t.agent, "Do it.")
            await anyio.wait_all_tasks_blocked()  # listeners of `emit` are on their own
        names, parts.at = parts.names[:], 0
        result = ending(events)
        broken = names[at - 1] if at else ""
        check_conversation(t.messages)
        check_reason(broken, result.reason)
        if result.is_error:
            assert result.error is not None
            assert isinstance(result.error, Broken | HarnessError)
        if any(isinstance(event, TurnStarted) for event in events):
            assert t.messages[0].text == "Do it."
        else:
            assert result.reason == "history-failed"
        t.model.script = ["Next."]
        assert (await send(t.agent, "And now?")).text == "Next."
        check_conversation(t.model.requests[-1].messages)
        check_conversation(t.messages)
        return names


REASONS = {
    "journal": "history-failed",
    "section": "assembly-failed",
    "context": "assembly-failed",
    "variable": "assembly-failed",
    "system-prompt/assemble in": "assembly-failed",
    "system-prompt/assemble out": "assembly-failed",
    "model in": "model-failed",
    "model out": "model-failed",
}


def check_reason(broken: str, reason: str) -> None:
    """Assert that the reason says which part it was; tools and their listeners end no turn."""
    if broken.startswith("agent/"):
        assert reason == "listener-failed", broken
    else:
        assert reason == REASONS.get(broken, "done"), broken


def test_any_wait_of_any_part_may_fail() -> None:
    names = anyio.run(turn_with_failure, 0)
    assert len(names) > 40
    assert set(REASONS) <= set(names)
    for at in range(1, len(names) + 1):
        try:
            anyio.run(turn_with_failure, at)
        except BaseException as error:
            error.add_note(f"wait {at} of {len(names)}: {names[at - 1]}")
            raise


@pytest.mark.asyncio
async def test_a_log_that_can_never_be_written_is_a_reason_and_makes_no_call() -> None:
    async with tree("never") as t:
        t.journal.fails = lambda _: True
        events = await events_of(t.agent, "Go.")
        assert [type(one).__name__ for one in events] == ["TurnEnded"]
        result = ending(events)
        assert (result.reason, result.is_error) == ("history-failed", True)
        assert isinstance(result.error, OSError)
        assert not t.model.requests
        assert not t.messages


@pytest.mark.asyncio
async def test_a_session_that_cannot_be_opened_is_a_reason() -> None:
    async with tree() as t:
        agent = await t.root.agents.create("b", session="kept")  # nothing keeps sessions here
        async with assert_no_residue(t.root):
            result = await send(agent, "Go.")
        assert result.reason == "history-failed"
        assert "mount the plugin session" in str(result.error)
        again = await send(agent, "Go.")
        assert again.reason == "history-failed"  # and nobody waits for the first one


@pytest.mark.asyncio
async def test_the_last_word_that_cannot_be_written_is_a_reason_too() -> None:
    async with tree("one", "two") as t:
        t.journal.fails = lambda events: events[-1].kind == "turn-ended"
        result = await send(t.agent, "Go.")
        assert (result.reason, result.text) == ("history-failed", "one")
        t.journal.fails = lambda _: False
        assert (await send(t.agent, "Again.")).text == "two"
        assert t.roles == "uaua"


@pytest.mark.asyncio
async def test_a_fault_of_the_loop_itself_ends_the_turn_and_not_the_agent() -> None:
    async with tree("one") as t:
        t.agent.limits = "many"  # not what it takes
        result = await send(t.agent, "Go.")
        assert (result.reason, result.is_error) == ("failed", True)
        t.agent.limits = None
        assert (await send(t.agent, "Go.")).text == "one"


class Unspeakable(Exception):
    """An error that cannot even be told."""

    def __init__(self) -> None:
        self.__notes__: list[Any] = [3, "a note"]

    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.asyncio
async def test_an_error_that_cannot_be_told_is_written_down_all_the_same() -> None:
    async with tree(Unspeakable(), "next") as t:
        assert (await send(t.agent, "Go.")).reason == "model-failed"
        assert t.log[-1].kind == "turn-ended"
        assert t.log[-1].data["error"].startswith("Unspeakable")
        assert (await send(t.agent, "Again.")).text == "next"


def stray(*_: object) -> Any:
    """Raise what is raised by awaiting a task that somebody else has cancelled."""
    raise anyio.get_cancelled_exc_class()


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("section", "assembly-failed"),
        ("adapter", "model-failed"),
        ("agent/step", "listener-failed"),
        ("agent/request", "listener-failed"),
        ("agent/stopping", "listener-failed"),
        ("journal", "history-failed"),
    ],
)
async def test_a_cancellation_that_nobody_asked_for_ends_the_turn_and_not_the_agent(
    where: str, reason: str
) -> None:
    async with tree(stray if where == "adapter" else "one", "next") as t:
        if where == "section":
            off = t.root.system_prompt.section("s", stray, order=1)
        elif where.startswith("agent/"):
            off = t.root.on(where, stray)
        elif where == "journal":
            t.journal.fails = lambda events: events[0].kind == "message" and stray()
        with anyio.fail_after(5):
            result = await send(t.agent, "Go.")
        assert result.reason == reason
        assert "nobody has cancelled this" in str(result.error)
        if where == "journal":
            t.journal.fails = lambda _: False
        elif where != "adapter":
            await off()
        assert t.agent.is_live
        assert (await send(t.agent, "Again.")).reason == "done"
        check_conversation(t.messages)


@pytest.mark.asyncio
async def test_a_compaction_that_raises_a_cancellation_of_nobody_costs_no_agent() -> None:
    async with tree("one", "next", limits=Limits(compact_keep=1)) as t:
        await send(t.agent, "Go.")
        t.root.on("agent/compact", stray)
        with pytest.raises(HarnessError, match="nobody has cancelled this"):
            await compact_now(t.agent)
        assert (await send(t.agent, "Again.")).text == "next"
