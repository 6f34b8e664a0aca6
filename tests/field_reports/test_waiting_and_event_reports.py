"""Reports about waiting for services, borrowed cancel scopes, and events."""

from __future__ import annotations

import contextvars
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from harness_core import Context, Event, FiberState, inject

from .reports import Kind, Scenario

pytestmark = pytest.mark.asyncio


waiting = Kind()


@waiting.report("lninghaha/dsh-coding-subscription-oauth#17")
async def _routes_of_an_optional_service() -> None:
    """None after the service is gone, all of them once it is back, exactly."""
    routes: list[int] = []

    @inject("server")
    def register(ctx: Context) -> None:
        for number in range(23):

            def add(ctx: Context, number: int = number) -> object:
                routes.append(number)
                return lambda: routes.remove(number)

            ctx.effect(add)

    def plugin(ctx: Context) -> None:
        ctx.plugin(register)

    async with Context() as root:
        fiber = await root.plugin(plugin)
        assert fiber.state is FiberState.ACTIVE
        for _ in range(2):
            assert routes == []
            effect = root.provide("server", object())
            assert len(routes) == 23
            await effect()
        assert routes == []


@waiting.report("anywhere-labs/dsh-desktop#729")
async def _a_removed_service() -> None:
    """The start settles, and says who waits for what."""

    def plugin(ctx: Context) -> None: ...

    async with Context() as root:
        with anyio.fail_after(5):
            pending = await root.inject(["removed"], plugin)
            other = await root.plugin(plugin)
        assert (pending.state, pending.waiting_for) == (FiberState.PENDING, ["removed"])
        assert other.state is FiberState.ACTIVE


@waiting.report("modern-python/that-depends#93", "fastapi/fastapi#4575")
async def _context_variables_in_a_manager() -> None:
    """What is set on entering is reset on leaving, by the same task."""
    word: contextvars.ContextVar[str] = contextvars.ContextVar("word", default="unset")
    journal: list[str] = []

    @asynccontextmanager
    async def held() -> AsyncIterator[None]:
        token = word.set("held")
        await anyio.lowlevel.checkpoint()
        yield
        await anyio.lowlevel.checkpoint()
        journal.append(word.get())
        word.reset(token)

    async with Context() as root:
        told: list[BaseException] = []
        root.on("fiber/error", lambda fiber, error: told.append(error))
        fiber = await root.plugin(lambda ctx: held())
        async with anyio.create_task_group() as tasks:

            async def dispose() -> None:
                await fiber.dispose()

            tasks.start_soon(dispose)
        assert journal == ["held"]
        assert told == []


@waiting.report("agronholm/anyio#74")
async def _a_task_group_in_a_plugin() -> None:
    """Entered in one call, left in another, from other tasks."""
    journal: list[str] = []

    async def work() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            journal.append("cancelled")

    async def plugin(ctx: Context) -> None:
        tasks = await ctx.enter(anyio.create_task_group())
        tasks.start_soon(work)
        ctx.effect(lambda: tasks.cancel_scope.cancel)

    async with Context() as root:
        fiber = await root.plugin(plugin)
        await anyio.wait_all_tasks_blocked()

        async def dispose() -> None:
            await fiber.dispose()

        async with anyio.create_task_group() as others:
            others.start_soon(dispose)
        assert journal == ["cancelled"]
        assert fiber.state is FiberState.DISPOSED


@waiting.each()
async def test_waiting_settles_and_scopes_are_left_where_they_were_entered(
    scenario: Scenario,
) -> None:
    """A missing service blocks nobody else, and no cancel scope changes hands."""
    await scenario()


events = Kind()


@events.report("pallets-eco/blinker#10", "eclipse-theia/theia#13079")
async def _one_stops_no_other() -> None:
    """In each mode: what a raising listener does to the rest."""

    def fail(*args: Any) -> Any:
        raise LookupError("planned")

    for mode, reached in (
        ("emit", ["after"]),
        ("parallel", ["after"]),
        ("serial", []),
        ("bail", []),
        ("waterfall", []),
    ):
        journal: list[str] = []
        async with Context() as root:
            root.on("ping", fail)
            root.on("ping", lambda *args, journal=journal: journal.append("after"))
            try:
                outcome = getattr(root, mode)("ping")
                if outcome is not None:
                    await outcome
            except (LookupError, ExceptionGroup):
                assert mode != "emit"
            else:
                assert mode == "emit"
            assert journal == reached, mode
            # The bus is none the worse for it.
            root.emit("ping")


@events.report("jfhbrook/pyee#76", "jfhbrook/pyee#63", "apify/crawlee-python#2100")
async def _once_async_calls_and_falsy_listeners() -> None:
    """Once is once while it runs; objects are called; nobody's coroutine is lost."""
    journal: list[str] = []
    done = anyio.Event()

    class Listener:
        def __bool__(self) -> bool:
            return False

        async def __call__(self) -> None:
            await anyio.lowlevel.checkpoint()
            journal.append("called")
            done.set()

    async with Context() as root:
        root.once("ping", Listener())
        root.emit("ping")
        root.emit("ping")
        with anyio.fail_after(5):
            await done.wait()
        await anyio.wait_all_tasks_blocked()
        assert journal == ["called"]
        assert root.fiber.effects() == []
        # A vetoed emit leaves nothing behind either.
        saving = Event("saving", vetoing=True)

        def veto() -> None:
            raise LookupError

        effect = root.once(saving, veto)
        with pytest.raises(LookupError):
            root.emit(saving)
        root.emit(saving)
        await effect()
        assert root.fiber.effects() == []


@events.report("Kludex/starlette#1678", "Kludex/starlette#3458", "Kludex/starlette#919")
async def _next_in_the_same_task() -> None:
    """Context variables set inside are seen outside, and background work outlives the dispatch."""
    word: contextvars.ContextVar[str] = contextvars.ContextVar("word", default="unset")
    journal: list[str] = []
    go = anyio.Event()

    async def work() -> None:
        await go.wait()
        journal.append("background work done")

    async def layer(next: Any) -> Any:
        task = anyio.get_current_task().id
        result = await next()
        assert anyio.get_current_task().id == task
        journal.append(word.get())
        return result

    async with Context() as root:

        async def inner() -> str:
            word.set("set inside")
            root.start_soon(work)
            return "x"

        root.on("wrap", layer)
        assert await root.waterfall("wrap", inner=inner) == "x"
        go.set()
        await anyio.wait_all_tasks_blocked()
        assert journal == ["set inside", "background work done"]


@events.each()
async def test_events_reach_everybody_they_should(scenario: Scenario) -> None:
    """Nobody is stopped, called twice, or run where it does not belong."""
    await scenario()
