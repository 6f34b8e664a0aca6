"""The states of a fiber: every move is told, and only legal ones happen."""

from __future__ import annotations

import pytest
from anyio import Event as Signal

from harness_core import Context, Fiber, FiberState
from harness_core.errors import InactiveFiberError

pytestmark = pytest.mark.asyncio


def watch(root: Context) -> list[str]:
    """Write down every move of every fiber but the root."""
    journal: list[str] = []

    def listener(fiber: Fiber, old: FiberState) -> None:
        journal.append(f"{fiber.name}: {old.name} -> {fiber.state.name}")

    root.on("fiber/state", listener)
    return journal


async def test_a_plain_life() -> None:
    """PENDING, LOADING, ACTIVE, UNLOADING, DISPOSED."""
    async with Context() as root:
        journal = watch(root)

        def plugin(ctx: Context) -> None: ...

        await root.plugin(plugin).dispose()
        assert journal == [
            "plugin: PENDING -> LOADING",
            "plugin: LOADING -> ACTIVE",
            "plugin: ACTIVE -> UNLOADING",
            "plugin: UNLOADING -> DISPOSED",
        ]


async def test_a_failing_life() -> None:
    """A raising body goes through UNLOADING to FAILED, and from there it can be disposed."""
    async with Context() as root:
        journal = watch(root)

        def plugin(ctx: Context) -> None:
            raise LookupError

        fiber = root.plugin(plugin)
        assert fiber.state is FiberState.FAILED
        await fiber.dispose()
        assert journal == [
            "plugin: PENDING -> LOADING",
            "plugin: LOADING -> UNLOADING",
            "plugin: UNLOADING -> FAILED",
            "plugin: FAILED -> UNLOADING",
            "plugin: UNLOADING -> DISPOSED",
        ]


async def test_waiting_for_a_service_is_pending_and_no_error() -> None:
    """Awaiting a fiber that waits settles at once and raises nothing; it says what it lacks."""
    async with Context() as root:
        fiber = root.inject(["clock", "database"], lambda ctx: None)
        assert await fiber is fiber
        assert fiber.state is FiberState.PENDING
        assert fiber.error is None
        assert fiber.waiting_for == ["clock", "database"]
        root.provide("clock", 1)
        assert fiber.waiting_for == ["database"]
        root.provide("database", 2)
        assert fiber.waiting_for == []
        assert fiber.state is FiberState.ACTIVE


async def test_wait_active_waits_for_services_to_arrive() -> None:
    """`wait_active` goes on where awaiting the fiber has settled for PENDING."""
    async with Context() as root:
        fiber = root.inject(["clock"], lambda ctx: None)
        arrived = Signal()

        async def provider(ctx: Context) -> None:
            await arrived.wait()
            ctx.provide("clock", 1)

        root.plugin(provider)
        arrived.set()
        assert await fiber.wait_active() is fiber
        assert fiber.state is FiberState.ACTIVE


async def test_wait_active_ends_with_the_fiber() -> None:
    """A failed fiber raises its error, a disposed one says that it is."""

    def broken(ctx: Context) -> None:
        raise LookupError("planned")

    async with Context() as root:
        with pytest.raises(LookupError, match="planned"):
            await root.plugin(broken).wait_active()
        gone = root.inject(["clock"], lambda ctx: None)
        await gone.dispose()
        with pytest.raises(InactiveFiberError):
            await gone.wait_active()


@pytest.mark.parametrize("state", ["PENDING", "LOADING", "ACTIVE", "FAILED"])
async def test_every_state_ends_disposed_and_says_so(state: str) -> None:
    """Disposal from any state reaches DISPOSED, emits the moves and forgets the fiber."""
    reached = Signal()

    async def plugin(ctx: Context) -> None:
        if state == "FAILED":
            raise LookupError
        if state == "LOADING":
            reached.set()
            await Signal().wait()

    async with Context() as root:
        if state == "PENDING":
            fiber = root.inject(["clock"], plugin)
        else:
            fiber = root.plugin(plugin)
            if state == "LOADING":
                await reached.wait()
            elif state == "FAILED":
                with pytest.raises(LookupError):
                    await fiber
            else:
                await fiber
        assert fiber.state is FiberState[state]
        journal = watch(root)
        await fiber.dispose()
        assert fiber.state is FiberState.DISPOSED
        assert journal[-1].endswith("UNLOADING -> DISPOSED")
        assert root.fiber.children == ()


async def test_restart_runs_the_body_again_in_the_same_fiber() -> None:
    """The fiber, its context and its config stay; everything it had registered is made anew."""
    journal: list[str] = []

    def plugin(ctx: Context, config: dict[str, int]) -> object:
        journal.append(f"body {config['n']}")
        return lambda: journal.append("undo")

    async with Context() as root:
        fiber = root.plugin(plugin, {"n": 1})
        ctx = fiber.ctx
        assert await fiber.restart() is fiber
        assert fiber.ctx is ctx
        assert fiber.config == {"n": 1}
        assert journal == ["body 1", "undo", "body 1"]


async def test_restart_of_a_failed_fiber_tries_again() -> None:
    """What failed can be restarted; success clears the error."""
    broken = [True]

    def plugin(ctx: Context) -> None:
        if broken[0]:
            raise LookupError("planned")

    async with Context() as root:
        fiber = root.plugin(plugin)
        with pytest.raises(LookupError):
            await fiber.restart()
        broken[0] = False
        await fiber.restart()
        assert fiber.state is FiberState.ACTIVE
        assert fiber.error is None
        await fiber


async def test_restart_of_a_disposed_fiber_is_refused() -> None:
    """DISPOSED is final."""
    async with Context() as root:
        fiber = root.plugin(lambda ctx: None)
        await fiber.dispose()
        with pytest.raises(InactiveFiberError):
            await fiber.restart()


async def test_effects_tells_labels_places_and_the_tree_of_what_was_registered() -> None:
    """`fiber.effects()`: a tree of labels, each with the file and line of its registration."""

    def child(ctx: Context) -> None: ...

    def plugin(ctx: Context) -> None:
        ctx.on("ping", lambda: None)
        ctx.provide("clock", 1)
        ctx.plugin(child)

        def outer(inner: Context) -> None:
            inner.effect(lambda: None, label="inner")

        ctx.effect(outer, label="outer")

    async with Context() as root:
        fiber = root.plugin(plugin)
        listener, service, mounted, outer = fiber.effects()
        assert listener.label == 'listener "ping"'
        assert service.label == 'service "clock"'
        assert mounted.label == 'plugin "child"'
        assert outer.label == "outer"
        assert [inner.label for inner in outer.children] == ["inner"]
        first = plugin.__code__.co_firstlineno
        assert [info.line - first for info in (listener, service, mounted, outer)] == [1, 2, 3, 8]
        assert outer.children[0].line == first + 6
        assert {info.file for info in fiber.effects()} == {__file__}
        await fiber.dispose()
        assert fiber.effects() == []
