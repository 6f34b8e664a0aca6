"""Deadlines, on a clock that jumps."""

from __future__ import annotations

import anyio
import pytest

from harness_core.testing import assert_no_residue, run_with_virtual_clock

from .tree import Gate, tool, tree


@pytest.mark.parametrize("where", ["tool", "service"])
def test_a_call_that_takes_too_long_is_cancelled_and_answers_so(where: str) -> None:
    """The tool's own deadline, or that of the service."""

    async def main() -> None:
        journal: list[str] = []
        config = {"timeout": 5} if where == "service" else {"timeout": 900}
        async with tree(**config) as root, assert_no_residue(root):
            gate = Gate(journal, timeout=5 if where == "tool" else None)
            effect = root.tools.register(gate.tool)
            began = anyio.current_time()
            result = await root.tools.execute("slow", {}, scope=None)
            assert anyio.current_time() - began == pytest.approx(5)
            assert result.status == "timed-out"
            assert result.text == 'tool "slow" took longer than 5 s and was cancelled'
            assert journal == ["slow in", "slow cancelled"]
            await effect()

    run_with_virtual_clock(main)


def test_waiting_for_a_turn_or_an_answer_is_not_the_tools_time() -> None:
    """The deadline starts with the code."""

    async def main() -> None:
        async with tree(timeout=5) as root:

            async def slow() -> str:
                await anyio.sleep(4)
                return "done"

            root.tools.register(tool("slow", slow))
            results: list[str] = []

            async def call() -> None:
                results.append((await root.tools.execute("slow", {}, scope=None)).status)

            async with anyio.create_task_group() as tasks:
                for _ in range(3):
                    tasks.start_soon(call)
            assert results == ["ok", "ok", "ok"]

    run_with_virtual_clock(main)


def test_a_tool_that_swallows_its_cancellation_is_closed_by_force() -> None:
    """An answer comes all the same."""

    async def main() -> None:
        async with tree() as root:

            async def stubborn() -> None:
                while True:
                    try:
                        await anyio.sleep(1000)
                    except anyio.get_cancelled_exc_class():
                        pass

            root.tools.register(tool("stubborn", stubborn, timeout=1))
            assert (await root.tools.execute("stubborn", {}, scope=None)).status == "timed-out"

    run_with_virtual_clock(main)
