"""Running: cancellation, disposal during a call, and whose turn it is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from harness_plugins.tools.api import RESULT, Tool, ToolCall, ToolResult

from harness_core import Context, create_scope
from harness_core.testing import assert_no_residue

from .tree import EMPTY, Gate, plugin_of, tool, tree

pytestmark = pytest.mark.asyncio


def calls(root: Context, scope: object | None = None) -> Callable[[str], Awaitable[ToolResult]]:
    """Return a way to execute."""
    return lambda name: root.tools.execute(name, {}, scope=scope)


async def quiet() -> None:
    """Let everything run that can."""
    for _ in range(20):
        await checkpoint()


@pytest.mark.parametrize("kind", ["event", "scope"])
async def test_a_signal_cancels_one_call(kind: str) -> None:
    """Before it starts, while it waits, or while it runs; the result says so."""
    journal: list[str] = []
    async with tree() as root, assert_no_residue(root):
        gate = Gate(journal)
        effect = root.tools.register(gate.tool)
        listener = root.on(RESULT, lambda _, result: journal.append(result.status))
        signal: Any = anyio.Event() if kind == "event" else anyio.CancelScope()
        results: list[ToolResult] = []

        async def call() -> None:
            results.append(await root.tools.execute("slow", {}, scope=None, signal=signal))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await gate.entered.wait()
            tasks.start_soon(call)  # this one waits for its turn
            await quiet()
            if kind == "event":
                signal.set()
            else:
                signal.cancel()
        await call()  # and this one comes too late
        assert [one.status for one in results] == ["cancelled"] * 3
        assert results[0].text == 'the call of tool "slow" was cancelled'
        assert sorted(journal) == ["cancelled"] * 3 + ["slow cancelled", "slow in"]
        assert len(root.tools.layers.turns) == 0
        gate.opened.set()
        assert (await root.tools.execute("slow", {}, scope=None, signal=anyio.Event())).text
        listener()
        await effect()


async def test_a_cancelled_caller_cancels_the_call_and_stays_cancelled() -> None:
    """The tool is gone before the caller is; `tools/result` is told."""
    journal: list[str] = []
    async with tree() as root, assert_no_residue(root):
        gate = Gate(journal)
        effect = root.tools.register(gate.tool)
        listener = root.on(RESULT, lambda _, result: journal.append(result.status))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(calls(root), "slow")
            await gate.entered.wait()
            tasks.cancel_scope.cancel()
        assert journal == ["slow in", "slow cancelled", "cancelled"]

        task = asyncio.ensure_future(calls(root)("slow"))
        await quiet()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert journal[3:] == ["slow in", "slow cancelled", "cancelled"]
        listener()
        await effect()


async def test_a_tool_that_cancels_itself_has_failed() -> None:
    """Its caller is not cancelled by that."""

    async def awaits_a_cancelled_task() -> None:
        task = asyncio.ensure_future(anyio.sleep_forever())
        await checkpoint()
        task.cancel()
        await task

    async with tree() as root:
        root.tools.register(tool("odd", awaits_a_cancelled_task))
        result = await root.tools.execute("odd", {}, scope=None)
        assert result.text == 'tool "odd" failed: Interrupted: it was cancelled from inside'


@pytest.mark.parametrize("how", ["dispose", "restart"])
async def test_a_tool_whose_plugin_is_disposed_during_its_call_is_cancelled_and_answers_so(
    how: str,
) -> None:
    """And the plugin's teardown waits until its code has left."""
    journal: list[str] = []
    async with tree() as root, assert_no_residue(root):
        gate = Gate(journal)

        class Shell:
            inject = ("tools",)

            def apply(self, ctx: Context) -> Callable[[], None]:
                ctx.tools.register(gate.tool)
                return lambda: journal.append("torn down")

        fiber = await root.plugin(Shell())
        results: list[ToolResult] = []

        async def call() -> None:
            results.append(await root.tools.execute("slow", {}, scope=None))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await gate.entered.wait()
            assert 'tool call "slow"' in [one.label for one in fiber.effects()]
            if how == "dispose":
                await fiber.dispose()
            else:
                await fiber.restart()
        assert journal == ["slow in", "slow cancelled", "torn down"]
        (result,) = results
        assert result.status == "gone"
        assert result.text == ('tool "slow" was cancelled during the call: its plugin was disposed')
        await fiber.dispose()


async def test_a_tool_may_dispose_its_own_plugin() -> None:
    """Without a deadlock."""
    async with tree() as root:
        fiber = None

        async def unload_me() -> str:
            assert fiber is not None
            await fiber.dispose()
            return "never"

        fiber = await root.plugin(plugin_of("mortal", tool("unload_me", unload_me)))
        assert (await root.tools.execute("unload_me", {}, scope=None)).status == "gone"
        await fiber.dispose()
        assert (await root.tools.execute("unload_me", {}, scope=None)).status == "unknown"


async def test_a_finished_call_leaves_no_effect() -> None:
    """Law L1: what is over is on nobody's list."""
    async with tree() as root:
        fiber = await root.plugin(plugin_of("shell", tool("quick", checkpoint)))
        before = fiber.effects()
        for _ in range(10):
            await root.tools.execute("quick", {}, scope=None)
        assert fiber.effects() == before
        assert len(root.tools.layers.turns) == 0


async def test_calls_run_one_at_a_time_per_scope() -> None:
    """First come, first served; another scope does not wait."""
    journal: list[str] = []
    async with tree() as root:
        gates = [Gate(journal, name) for name in ("a", "b", "c")]
        for gate in gates:
            root.tools.register(gate.tool)
        create_scope(root, "one")
        create_scope(root, "two")
        async with anyio.create_task_group() as tasks:
            for name in ("a", "b"):
                tasks.start_soon(calls(root, "one"), name)
            tasks.start_soon(calls(root, "two"), "c")
            await quiet()
            assert journal == ["a in", "c in"]
            gates[1].opened.set()
            await quiet()
            assert journal == ["a in", "c in"]
            gates[0].opened.set()
            await quiet()
            assert journal[2:] == ["a out", "b in", "b out"]
            gates[2].opened.set()


async def test_a_tool_that_says_it_is_safe_runs_beside_others() -> None:
    """It neither waits nor makes others wait."""
    journal: list[str] = []
    async with tree() as root:
        gates = [Gate(journal, "a"), Gate(journal, "b", parallel=True)]
        for gate in gates:
            root.tools.register(gate.tool)
        async with anyio.create_task_group() as tasks:
            for name in ("a", "b", "b"):
                tasks.start_soon(calls(root), name)
            await quiet()
            assert journal == ["a in", "b in", "b in"]
            for gate in gates:
                gate.opened.set()


async def test_a_tool_may_call_tools_of_its_own_scope() -> None:
    """It does not wait for itself; its inner calls take turns among themselves."""
    journal: list[str] = []
    async with tree() as root:
        gates = {name: Gate(journal, name) for name in ("a", "b", "other")}
        for gate in gates.values():
            root.tools.register(gate.tool)

        async def outer(_: object, call: ToolCall) -> str:
            async with anyio.create_task_group() as inner:
                for name in ("a", "b"):
                    inner.start_soon(calls(root, call.scope), name)
            journal.append("outer out")
            return "done"

        root.tools.register(Tool("outer", "", EMPTY, run=outer))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(calls(root), "outer")
            await quiet()
            tasks.start_soon(calls(root), "other")
            await quiet()
            assert journal == ["a in"]
            gates["b"].opened.set()
            gates["other"].opened.set()
            await quiet()
            assert journal == ["a in"]
            gates["a"].opened.set()
        assert journal == [
            *("a in", "a out", "b in", "b out", "outer out", "other in", "other out")
        ]
        assert len(root.tools.layers.turns) == 0


async def test_a_task_that_outlives_its_call_waits_like_everybody() -> None:
    """It is no longer inside the call that started it."""
    journal: list[str] = []
    async with tree() as root, anyio.create_task_group() as tasks:
        gates = {name: Gate(journal, name) for name in ("a", "late")}
        for gate in gates.values():
            root.tools.register(gate.tool)
        go = anyio.Event()

        async def later() -> None:
            await go.wait()
            await calls(root)("late")

        async def starts() -> str:
            tasks.start_soon(later)
            return "started"

        root.tools.register(tool("starts", starts))
        await calls(root)("starts")
        tasks.start_soon(calls(root), "a")
        await gates["a"].entered.wait()
        go.set()
        await quiet()
        assert journal == ["a in"]
        for gate in gates.values():
            gate.opened.set()


async def test_a_cancelled_wait_for_a_turn_hands_it_on() -> None:
    """Also when the turn came at the very moment of the cancellation."""
    journal: list[str] = []
    async with tree() as root:
        gates = {name: Gate(journal, name) for name in ("a", "b", "c")}
        for gate in gates.values():
            root.tools.register(gate.tool)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(calls(root), "a")
            await quiet()
            second = asyncio.ensure_future(calls(root)("b"))
            await quiet()
            tasks.start_soon(calls(root), "c")
            await quiet()
            gates["a"].opened.set()
            gates["c"].opened.set()
            while "a out" not in journal:
                await checkpoint()
            second.cancel()
            with pytest.raises(asyncio.CancelledError):
                await second
        assert journal == ["a in", "a out", "c in", "c out"]
        assert len(root.tools.layers.turns) == 0


async def test_a_restart_of_the_service_leaves_a_call_alone() -> None:
    """The tool is not the service's."""
    journal: list[str] = []
    async with tree() as root:
        gate = Gate(journal)
        root.tools.register(gate.tool)
        results: list[ToolResult] = []

        async def call() -> None:
            results.append(await root.tools.execute("slow", {}, scope=None))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await gate.entered.wait()
            (fiber,) = [one for one in root.fiber.children if one.name == "tools"]
            await fiber.restart()
            gate.opened.set()
        assert results[0].text == "done"


async def test_a_call_waits_while_its_plugin_is_reloaded() -> None:
    """As an assembly does: no half-swapped tools (law L8)."""
    async with tree() as root:
        opened = anyio.Event()
        lives: list[int] = []

        class Shell:
            inject = ("tools",)

            async def apply(self, ctx: Context) -> None:
                lives.append(len(lives))
                if len(lives) > 1:
                    await opened.wait()
                ctx.tools.register(tool("bash", f"life {lives[-1]}"))

        fiber = await root.plugin(Shell())
        results: list[ToolResult] = []

        async def call() -> None:
            results.append(await root.tools.execute("bash", {}, scope=None))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fiber.restart)
            await quiet()
            tasks.start_soon(call)
            await quiet()
            assert results == []
            opened.set()
        assert results[0].text == "life 1"
