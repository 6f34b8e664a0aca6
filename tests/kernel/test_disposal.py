"""Disposal: in reverse, once for all callers, always to its end."""

from __future__ import annotations

import gc
import logging
import weakref
from collections.abc import Callable

import anyio
import anyio.lowlevel
import pytest

from harness_core import Context, FiberState
from harness_core.errors import InactiveFiberError, SelfDisposalError

pytestmark = pytest.mark.asyncio


async def test_teardown_is_strictly_last_in_first_out_each_step_awaited() -> None:
    """L3: over children, effects and returned disposers alike."""
    journal: list[str] = []

    def slow(name: str) -> Callable[[], object]:
        async def undo() -> None:
            journal.append(f"{name} begins")
            await anyio.lowlevel.checkpoint()
            journal.append(f"{name} ends")

        return undo

    def child(ctx: Context) -> object:
        return slow("child")

    def plugin(ctx: Context) -> object:
        ctx.effect(lambda: slow("one"))
        ctx.plugin(child)
        ctx.effect(lambda: lambda: journal.append("sync"))
        return slow("body")

    async with Context() as root:
        fiber = root.plugin(plugin)
        rest = fiber.dispose()
        assert fiber.state is FiberState.UNLOADING
        await rest
        assert journal == [
            "body begins",
            "body ends",
            "sync",
            "child begins",
            "child ends",
            "one begins",
            "one ends",
        ]


async def test_a_synchronous_disposal_is_over_when_dispose_returns() -> None:
    """Nothing has to be awaited where nothing is asynchronous."""
    async with Context() as root:
        fiber = root.plugin(lambda ctx: ctx.plugin(lambda inner: None) and None)
        fiber.dispose()
        assert fiber.state is FiberState.DISPOSED
        assert root.fiber.effects() == []


async def test_concurrent_callers_share_one_teardown() -> None:
    """L6: any number of callers from any task await one and the same."""
    journal: list[str] = []
    go = anyio.Event()

    def plugin(ctx: Context) -> object:
        async def undo() -> None:
            journal.append("undo")
            await go.wait()

        return undo

    async def call(name: str) -> None:
        await fiber.dispose()
        journal.append(name)

    async with Context() as root:
        fiber = root.plugin(plugin)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, "a")
            tasks.start_soon(call, "b")
            await anyio.wait_all_tasks_blocked()
            assert journal == ["undo"]
            go.set()
        assert sorted(journal) == ["a", "b", "undo"]
        await fiber.dispose()
        assert journal.count("undo") == 1


async def test_a_cancelled_caller_does_not_cancel_the_teardown() -> None:
    """L6: it goes on for the others, and to its end."""
    journal: list[str] = []
    go = anyio.Event()

    def plugin(ctx: Context) -> object:
        async def undo() -> None:
            await go.wait()
            journal.append("undone")

        return undo

    async with Context() as root:
        fiber = root.plugin(plugin)
        with anyio.CancelScope() as cancel_scope:
            rest = fiber.dispose()
            cancel_scope.cancel()
            await rest
        assert cancel_scope.cancelled_caught
        assert fiber.state is FiberState.UNLOADING
        go.set()
        await fiber.dispose()
        assert journal == ["undone"]


@pytest.mark.parametrize("call", ["dispose", "restart"])
async def test_a_fiber_that_waits_for_its_own_end_gets_an_error(call: str) -> None:
    """L6: awaited from its own code it would deadlock; the error says whose code it is."""
    caught: list[SelfDisposalError] = []

    async def work(ctx: Context) -> None:
        try:
            await getattr(ctx.fiber, call)()
        except SelfDisposalError as error:
            caught.append(error)

    def plugin(ctx: Context) -> None:
        ctx.start_soon(work, ctx)

    with anyio.fail_after(5):
        async with Context() as root:
            fiber = root.plugin(plugin)
            await anyio.wait_all_tasks_blocked()
            assert len(caught) == 1
            assert 'fiber "root/plugin"' in str(caught[0])
            await fiber.dispose()
            assert fiber.state is FiberState.DISPOSED


async def test_a_child_that_waits_for_its_parents_end_gets_an_error() -> None:
    """The parent's teardown waits for the child's code, too."""
    caught: list[str] = []

    async def child(ctx: Context) -> None:
        assert ctx.fiber.parent is not None
        try:
            await ctx.fiber.parent.dispose()
        except SelfDisposalError as error:
            caught.append(str(error))

    def parent(ctx: Context) -> None:
        ctx.plugin(child)

    with anyio.fail_after(5):
        async with Context() as root:
            root.plugin(parent)
            await anyio.wait_all_tasks_blocked()
            assert len(caught) == 1
            assert "root/parent/child" in caught[0]


async def test_a_consumers_teardown_that_waits_for_the_provider_gets_an_error() -> None:
    """The provider waits for its consumer; the other way round would be a deadlock."""
    caught: list[str] = []

    def provider(ctx: Context) -> None:
        ctx.provide("clock", 1)

    def consumer(ctx: Context) -> object:
        async def undo() -> None:
            try:
                await providing.dispose()
            except SelfDisposalError as error:
                caught.append(str(error))

        return undo

    consumer.inject = ["clock"]  # type: ignore[attr-defined]
    with anyio.fail_after(5):
        async with Context() as root:
            providing = root.plugin(provider)
            root.plugin(consumer)
            await providing.dispose()
            assert providing.state is FiberState.DISPOSED
    assert len(caught) == 1
    assert "root/provider" in caught[0]


async def test_disposal_cancels_a_load_in_progress() -> None:
    """The body is cancelled and awaited, what it had registered is undone."""
    journal: list[str] = []

    async def plugin(ctx: Context) -> None:
        ctx.effect(lambda: lambda: journal.append("undo"))
        try:
            await anyio.sleep_forever()
        finally:
            journal.append("cancelled")

    async with Context() as root:
        fiber = root.plugin(plugin)
        await anyio.wait_all_tasks_blocked()
        await fiber.dispose()
        assert journal == ["cancelled", "undo"]
        assert fiber.state is FiberState.DISPOSED
        assert fiber.error is None


async def test_a_body_that_registers_while_it_is_being_cancelled_is_refused() -> None:
    """L4: nothing enters a closing door, also from a `finally`."""
    caught: list[type[BaseException]] = []

    async def plugin(ctx: Context) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            try:
                ctx.on("ping", lambda: None)
            except InactiveFiberError as error:
                caught.append(type(error))

    async with Context() as root:
        fiber = root.plugin(plugin)
        await anyio.wait_all_tasks_blocked()
        await fiber.dispose()
        assert caught == [InactiveFiberError]
        assert "ping" not in root.kernel.bus.listeners()


async def test_a_step_beyond_its_grace_is_cancelled_reported_and_passed_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Disposal always ends; the report has label and source line, and the rest still runs."""
    journal: list[str] = []

    def plugin(ctx: Context) -> None:
        ctx.effect(lambda: lambda: journal.append("earlier"))

        async def hang() -> None:
            try:
                await anyio.sleep_forever()
            finally:
                journal.append("cancelled")

        ctx.effect(lambda: hang, label="hanging")

    plugin.grace = 0.01  # type: ignore[attr-defined]
    async with Context() as root:
        fiber = root.plugin(plugin)
        line = plugin.__code__.co_firstlineno + 3  # where the disposer is written
        with caplog.at_level(logging.ERROR, "harness_core"), anyio.fail_after(5):
            await fiber.dispose()
        assert journal == ["cancelled", "earlier"]
        assert fiber.state is FiberState.DISPOSED
        message = caplog.records[0].getMessage()
        assert f"hanging registered at {__file__}:{line}" in message
        assert "0.01 s" in message


async def test_a_step_that_ignores_cancellation_is_passed_over_too() -> None:
    """Shielded and stubborn teardown code does not hold the tree."""
    journal: list[str] = []

    def plugin(ctx: Context) -> None:
        ctx.effect(lambda: lambda: journal.append("earlier"))

        async def hang() -> None:
            with anyio.CancelScope(shield=True):
                await anyio.sleep_forever()

        ctx.effect(lambda: hang)

    plugin.grace = 0.01  # type: ignore[attr-defined]
    async with Context() as root:
        fiber = root.plugin(plugin)
        with anyio.fail_after(10):
            await fiber.dispose()
        assert journal == ["earlier"]


async def test_the_default_grace_is_ten_seconds_and_is_inherited() -> None:
    """`grace`: 10 by default; a tree or a plugin may set another."""
    async with Context() as root:
        assert root.plugin(lambda ctx: None).grace == 10.0
    async with Context(grace=3) as root:
        assert root.plugin(lambda ctx: None).grace == 3


async def test_a_disposed_plugin_can_be_garbage_collected() -> None:
    """L2: nothing in the tree holds on to its objects, even while a handle is kept."""

    class Big: ...

    def mount(root: Context) -> weakref.ref[Big]:
        big = Big()

        def plugin(ctx: Context) -> object:
            ctx.on("ping", lambda: big)
            ctx.provide("big", big)
            return lambda: big

        root.plugin(plugin).dispose()
        return weakref.ref(big)

    async with Context() as root:
        gone = mount(root)
        gc.collect()
        assert gone() is None


async def test_root_disposal_reports_every_failure_and_runs_everything() -> None:
    """Failing disposers in different subtrees: each is reported, all others ran."""
    journal: list[str] = []

    def plugin(ctx: Context, config: dict[str, str]) -> object:
        ctx.effect(lambda: lambda: journal.append(f"undo {config['id']}"))

        def fail() -> None:
            raise LookupError(config["id"])

        return fail

    told: list[str] = []
    async with Context() as root:
        root.on("fiber/error", lambda fiber, error: told.append(str(error.args[0])))
        for name in "ab":
            root.plugin(plugin, {"id": name})
    assert told == ["b", "a"]
    assert journal == ["undo b", "undo a"]
