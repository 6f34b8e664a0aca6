"""Background tasks and entered context managers belong to the fiber that started them."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import anyio
import anyio.lowlevel
import pytest

from harness_core import Context, Fiber, FiberState
from harness_core.errors import InactiveFiberError, PluginError

pytestmark = pytest.mark.asyncio


async def test_enter_returns_the_value_and_leaves_with_the_fiber() -> None:
    """`await ctx.enter(cm)`: entered now, value returned, left at teardown, newest first."""
    journal: list[str] = []

    @contextmanager
    def held(name: str) -> Iterator[str]:
        journal.append(f"enter {name}")
        yield f"value of {name}"
        journal.append(f"exit {name}")

    @asynccontextmanager
    async def held_async(name: str) -> AsyncIterator[str]:
        await anyio.lowlevel.checkpoint()
        journal.append(f"enter {name}")
        yield f"value of {name}"
        await anyio.lowlevel.checkpoint()
        journal.append(f"exit {name}")

    async def plugin(ctx: Context) -> None:
        assert await ctx.enter(held("a")) == "value of a"
        assert await ctx.enter(held_async("b")) == "value of b"

    async with Context() as root:
        fiber = await root.plugin(plugin)
        assert len(fiber.effects()) == 2
        await fiber.dispose()
        assert journal == ["enter a", "enter b", "exit b", "exit a"]


async def test_enter_raises_what_entering_raised_and_leaves_nothing() -> None:
    """A manager that cannot be entered is no effect."""

    @asynccontextmanager
    async def broken() -> AsyncIterator[None]:
        raise LookupError("planned")
        yield

    @contextmanager
    def broken_too() -> Iterator[None]:
        raise LookupError("planned")
        yield

    async with Context() as root:
        for manager in (broken(), broken_too()):
            with pytest.raises(LookupError, match="planned"):
                await root.enter(manager)
            assert root.fiber.effects() == []


async def test_enter_refuses_what_is_no_context_manager() -> None:
    """It says what came."""
    async with Context() as root:
        with pytest.raises(PluginError, match="5 is no context manager"):
            await root.enter(5)  # type: ignore[call-overload]
        assert root.fiber.effects() == []


async def test_enter_on_a_closed_fiber_does_not_enter() -> None:
    """L4: the door is checked before anything happens."""
    journal: list[str] = []

    @contextmanager
    def held() -> Iterator[None]:
        journal.append("enter")
        yield

    @asynccontextmanager
    async def held_async() -> AsyncIterator[None]:
        journal.append("enter")
        yield

    async with Context() as root:
        fiber = root.plugin(lambda ctx: None)
        await fiber.dispose()
        for manager in (held(), held_async()):
            with pytest.raises(InactiveFiberError):
                await fiber.ctx.enter(manager)
        assert journal == []


async def test_an_exit_that_raises_is_reported_and_stops_nothing() -> None:
    """A teardown error: told with the owner, the rest goes on."""
    journal: list[str] = []

    @asynccontextmanager
    async def sore() -> AsyncIterator[None]:
        yield
        raise LookupError("planned")

    async def plugin(ctx: Context) -> None:
        ctx.effect(lambda: lambda: journal.append("earlier"))
        await ctx.enter(sore())

    async with Context() as root:
        root.on("fiber/error", lambda fiber, error: journal.append(f"{fiber.name}: {error}"))
        fiber = await root.plugin(plugin)
        await fiber.dispose()
        assert journal == ["plugin: planned", "earlier"]


async def test_a_held_task_group_whose_task_crashes_fails_the_fiber() -> None:
    """A crash inside a held manager is the fiber's crash."""

    async def crash(go: anyio.Event) -> None:
        await go.wait()
        raise LookupError("planned")

    async def plugin(ctx: Context) -> None:
        tasks = await ctx.enter(anyio.create_task_group())
        tasks.start_soon(crash, go)

    go = anyio.Event()
    async with Context() as root:
        told = anyio.Event()
        root.on("fiber/error", lambda fiber, error: told.set())
        fiber = await root.plugin(plugin)
        go.set()
        await told.wait()
        assert fiber.state is FiberState.FAILED
        with pytest.raises(ExceptionGroup) as caught:
            await fiber
        assert caught.group_contains(LookupError, match="planned")


async def test_start_soon_runs_until_teardown_and_is_awaited() -> None:
    """Arguments are passed; at teardown the task is cancelled, and awaited before the next step."""
    journal: list[str] = []

    async def work(name: str) -> None:
        journal.append(f"{name} runs")
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
            journal.append(f"{name} ends")

    def plugin(ctx: Context) -> None:
        ctx.effect(lambda: lambda: journal.append("earlier"))
        ctx.start_soon(work, "a")

    async with Context() as root:
        fiber = root.plugin(plugin)
        assert [info.label for info in fiber.effects()][1].startswith('task "')
        await anyio.wait_all_tasks_blocked()
        await fiber.dispose()
        assert journal == ["a runs", "a ends", "earlier"]


async def test_a_task_that_returns_is_no_effect_any_more() -> None:
    """The effect list holds what is there to be undone."""

    async def work() -> None: ...

    async with Context() as root:
        effect = root.start_soon(work)
        assert len(root.fiber.effects()) == 1
        await anyio.wait_all_tasks_blocked()
        assert root.fiber.effects() == []
        await effect()


async def test_disposing_the_effect_of_a_task_cancels_just_that_task() -> None:
    """Early disposal works for tasks as for everything."""
    journal: list[str] = []

    async def work(name: str) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            journal.append(f"{name} ends")

    async with Context() as root:
        effect = root.start_soon(work, "a")
        root.start_soon(work, "b")
        await anyio.wait_all_tasks_blocked()
        await effect()
        assert journal == ["a ends"]
    assert journal == ["a ends", "b ends"]


async def test_a_crashing_task_is_reported_with_its_owner_and_fails_the_fiber(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """FAILED, rolled back, the error kept for whoever awaits, siblings untouched."""

    async def crash() -> None:
        raise LookupError("planned")

    def plugin(ctx: Context) -> None:
        ctx.on("ping", lambda: None)
        ctx.start_soon(crash)

    told: list[Fiber] = []
    async with Context() as root:
        root.on("fiber/error", lambda fiber, error: told.append(fiber))
        sibling = root.plugin(lambda ctx: None)
        with caplog.at_level(logging.ERROR, "harness_core"):
            fiber = root.plugin(plugin)
            assert fiber.state is FiberState.ACTIVE
            await anyio.wait_all_tasks_blocked()
        assert fiber.state is FiberState.FAILED
        assert fiber.effects() == []
        assert "ping" not in root.kernel.bus.listeners()
        assert sibling.state is FiberState.ACTIVE
        assert told == [fiber]
        assert "root/plugin" in caplog.records[0].getMessage()
        with pytest.raises(LookupError, match="planned") as caught:
            await fiber
        assert 'plugin "plugin"' in caught.value.__notes__[0]
        assert "crash" in caught.value.__notes__[0]


async def test_start_soon_wants_an_async_function() -> None:
    """What is no coroutine fails the fiber with a message that says so."""
    async with Context() as root:
        told = anyio.Event()
        root.on("fiber/error", lambda fiber, error: told.set())

        def plugin(ctx: Context) -> None:
            ctx.start_soon(lambda: 5)  # type: ignore[arg-type, return-value]

        fiber = root.plugin(plugin)
        await told.wait()
        with pytest.raises(PluginError, match="5: expected an async function"):
            await fiber


async def test_start_soon_on_a_closed_fiber_starts_nothing() -> None:
    """L4 holds for tasks."""
    journal: list[str] = []

    async def work() -> None:
        journal.append("ran")

    async with Context() as root:
        fiber = root.plugin(lambda ctx: None)
        await fiber.dispose()
        with pytest.raises(InactiveFiberError):
            fiber.ctx.start_soon(work)
        await anyio.wait_all_tasks_blocked()
        assert journal == []
