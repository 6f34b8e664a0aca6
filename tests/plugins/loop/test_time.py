"""Pauses and limits of time, on a clock that jumps."""

from __future__ import annotations

from typing import Any

import anyio
from harness_plugins.agents.api import Retrying
from harness_plugins.agents.loop import Limits, send

from harness_core.testing import run_with_virtual_clock

from .tree import check_conversation, events_of, failure, tool, tree, wants


def test_the_pause_is_waited_for_and_told() -> None:
    async def main() -> None:
        async with tree(failure(retry_after=30), failure(), "Yes.") as t:
            began = anyio.current_time()
            events = await events_of(t.agent, "Go.", random=lambda: 1.0)
            assert anyio.current_time() - began == 31
            assert [one.seconds for one in events if isinstance(one, Retrying)] == [30, 1]

    run_with_virtual_clock(main)


def test_time_is_limited_whatever_the_turn_is_doing() -> None:
    async def slow(_: object) -> None:
        await anyio.sleep(3600)

    async def of(script: list[Any], roles: str) -> None:
        tools = [tool("slow", slow, timeout=9999)]
        async with tree(*script, tools=tools, limits=Limits(max_seconds=60)) as t:
            began = anyio.current_time()
            result = await send(t.agent, "Go.")
            assert result.reason == "max-seconds"
            assert anyio.current_time() - began == 60
            check_conversation(t.messages)
            assert t.roles == roles
            t.model.script = ["next"]
            assert (await send(t.agent, "Go on.")).text == "next"

    async def main() -> None:
        await of([wants("slow")], "uat")
        await of([failure(retry_after=50), failure(retry_after=50)], "u")

    run_with_virtual_clock(main)


def test_the_wait_for_ones_turn_is_not_counted() -> None:
    async def slow(_: object) -> str:
        await anyio.sleep(50)
        return "ok"

    async def main() -> None:
        limits = Limits(max_seconds=60)
        script = [wants("slow"), "one", wants("slow"), "two"]
        async with tree(*script, tools=[tool("slow", slow)], limits=limits) as t:
            results = []

            async def turn() -> None:
                results.append((await send(t.agent, "Go.")).reason)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(turn)
                tasks.start_soon(turn)
            assert results == ["done", "done"]

    run_with_virtual_clock(main)
