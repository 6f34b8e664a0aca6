"""A tree lives in one thread and one loop; use from elsewhere is an error, not corruption."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import pytest
import uvloop

from harness_core import Context, FiberState, Service
from harness_core.errors import ForeignThreadError


class Clock(Service, key="clock"):
    """Any service."""

    def __init__(self, ctx: Context) -> None: ...


REGISTRATIONS: dict[str, Callable[[Context], object]] = {
    "plugin": lambda ctx: ctx.plugin(lambda inner: None),
    "on": lambda ctx: ctx.on("ping", lambda: None),
    "effect": lambda ctx: ctx.effect(lambda: None),
    "provide": lambda ctx: ctx.provide("database", 1),
    "service": lambda ctx: ctx.plugin(Clock),
    "accessor": lambda ctx: ctx.accessor("where", lambda inner: 1),
    "dispose": lambda ctx: ctx.fiber.dispose(),
}


@pytest.mark.asyncio
@pytest.mark.parametrize("act", REGISTRATIONS)
async def test_a_foreign_thread_is_refused_and_changes_nothing(act: str) -> None:
    """The message says how to come in."""
    async with Context() as root:
        fiber = root.plugin(lambda ctx: None)
        with pytest.raises(ForeignThreadError, match="thread") as caught:
            await anyio.to_thread.run_sync(REGISTRATIONS[act], fiber.ctx)
        assert isinstance(caught.value, RuntimeError)
        assert fiber.state is FiberState.ACTIVE
        assert fiber.effects() == []
        assert fiber.children == ()


@pytest.mark.asyncio
@pytest.mark.parametrize("mode", ["emit", "bail", "serial", "parallel", "waterfall"])
async def test_no_dispatch_from_a_foreign_thread(mode: str) -> None:
    """No listener runs there, not even under a loop of that thread's own."""
    called: list[str] = []

    async def dispatch(root: Context) -> None:
        outcome = getattr(root, mode)("ping")
        if outcome is not None:
            await outcome

    async with Context() as root:
        root.on("ping", lambda *args: called.append("listener") or "x")
        with pytest.raises(ForeignThreadError):
            await anyio.to_thread.run_sync(lambda: asyncio.run(dispatch(root)))
        assert called == []


@pytest.mark.asyncio
async def test_a_foreign_thread_comes_in_through_anyio() -> None:
    """`anyio.from_thread` is the way that the error names."""
    async with Context() as root:

        def work() -> None:
            anyio.from_thread.run_sync(root.provide, "database", 1)

        await anyio.to_thread.run_sync(work)
        assert root.database == 1


@pytest.mark.parametrize("act", REGISTRATIONS)
def test_another_loop_in_the_same_thread_is_refused(act: str) -> None:
    """While its own loop stands still, or is gone, a tree takes nothing."""
    opened, close = asyncio.Event(), asyncio.Event()
    kept: list[Context] = []

    async def hold() -> None:
        async with Context() as root:
            kept.append(root.plugin(lambda ctx: None).ctx)
            opened.set()
            await close.wait()

    async def intrude() -> None:
        with pytest.raises(ForeignThreadError, match="loop"):
            REGISTRATIONS[act](kept[0])
        assert kept[0].fiber.effects() == []
        assert kept[0].fiber.state is FiberState.ACTIVE

    loop = asyncio.new_event_loop()
    try:
        task = loop.create_task(hold())
        loop.run_until_complete(opened.wait())
        asyncio.run(intrude())
    finally:
        close.set()
        loop.run_until_complete(task)
        loop.close()


def test_another_loop_in_another_thread_is_refused() -> None:
    """Having a loop of one's own does not help."""
    kept: list[Context] = []

    async def first() -> None:
        async with Context() as root:
            kept.append(root)
            with pytest.raises(ForeignThreadError, match="loop"):
                await anyio.to_thread.run_sync(lambda: asyncio.run(second()))
            assert "ping" not in root.kernel.bus.listeners()

    async def second() -> None:
        kept[0].on("ping", lambda: None)

    asyncio.run(first())


def test_an_unopened_context_takes_nothing() -> None:
    """A tree is used inside `async with`."""
    ran: list[str] = []
    with pytest.raises(RuntimeError):
        Context().plugin(lambda ctx: ran.append("body"))
    assert ran == []


def test_a_tree_runs_on_uvloop() -> None:
    """Tasks, async teardown and services, on the other loop."""
    journal: list[str] = []

    async def main() -> None:
        async with Context() as root:

            async def work() -> None:
                try:
                    await anyio.sleep_forever()
                finally:
                    journal.append("task cancelled")

            async def plugin(ctx: Context) -> object:
                ctx.start_soon(work)
                await anyio.lowlevel.checkpoint()

                async def undo() -> None:
                    await anyio.lowlevel.checkpoint()
                    journal.append("undone")

                return undo

            fiber = await root.plugin(plugin)
            await anyio.wait_all_tasks_blocked()
            await fiber.dispose()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
    assert journal == ["undone", "task cancelled"]


def test_a_tree_runs_under_anyio_run_with_uvloop() -> None:
    """`anyio.run(..., backend_options={"use_uvloop": True})`."""

    async def main() -> str:
        async with Context() as root:
            await root.plugin(Clock)
            return type(asyncio.get_running_loop()).__module__

    assert anyio.run(main, backend_options={"use_uvloop": True}).startswith("uvloop")
