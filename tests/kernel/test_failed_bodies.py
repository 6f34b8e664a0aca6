"""A failed body takes down its own fiber, and nothing else."""

from __future__ import annotations

import logging

import anyio.lowlevel
import pytest

from harness_core import Context, Fiber, FiberState
from harness_core.errors import HarnessError

pytestmark = pytest.mark.asyncio


def broken(ctx: Context) -> None:
    """Register one of each, then raise."""
    ctx.on("ping", lambda: None)
    ctx.provide("clock", 1)
    ctx.plugin(lambda inner: None)
    ctx.effect(lambda: None)
    raise LookupError("planned")


async def test_its_registrations_are_rolled_back_and_siblings_are_untouched() -> None:
    """State FAILED, no effects left, the siblings' registrations are the same objects."""
    async with Context() as root:
        heard: list[str] = []
        sibling = root.plugin(lambda ctx: ctx.on("ping", lambda: heard.append("sibling")))
        before = root.kernel.bus.listeners()
        fiber = root.plugin(broken)
        assert fiber.state is FiberState.FAILED
        assert fiber.effects() == []
        assert fiber.children == ()
        assert root.get("clock") is None
        assert root.kernel.bus.listeners() == before
        assert sibling.state is FiberState.ACTIVE
        root.emit("ping")
        assert heard == ["sibling"]


async def test_the_error_is_raised_by_each_await_and_kept() -> None:
    """`await fiber` raises the plugin's own exception object, as often as it is awaited."""
    async with Context() as root:
        fiber = root.plugin(broken)
        for _ in range(2):
            with pytest.raises(LookupError, match="planned") as caught:
                await fiber
            assert caught.value is fiber.error


async def test_mounting_it_raises_nothing_at_the_mounting_plugin() -> None:
    """A parent that mounts a broken child is ACTIVE."""
    async with Context() as root:

        def mounts(ctx: Context) -> None:
            ctx.plugin(broken)

        parent = root.plugin(mounts)
        assert parent.state is FiberState.ACTIVE
        assert [child.state for child in parent.children] == [FiberState.FAILED]


async def test_the_error_is_logged_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """The log and `fiber/error` get it, with the fiber."""
    told: list[tuple[Fiber, BaseException]] = []
    async with Context() as root:
        root.on("fiber/error", lambda fiber, error: told.append((fiber, error)))
        with caplog.at_level(logging.ERROR, "harness_core"):
            fiber = root.plugin(broken)
        assert told == [(fiber, fiber.error)]
        assert [record.getMessage() for record in caplog.records] == [
            "root/broken: loading failed: LookupError('planned')"
        ]


async def test_the_error_names_its_owner() -> None:
    """L9: what a body raises keeps its type, and gains a note with plugin and activity."""
    async with Context() as root:
        fiber = root.plugin(broken)
        assert type(fiber.error) is LookupError
        assert not isinstance(fiber.error, HarnessError)
        assert fiber.error.__notes__ == ['in plugin "broken" (fiber root/broken), loading']


async def test_an_async_body_fails_the_same_way() -> None:
    """Rolled back also when it fails after an await."""

    async def late(ctx: Context) -> None:
        ctx.on("ping", lambda: None)
        await anyio.lowlevel.checkpoint()
        raise LookupError("planned")

    async with Context() as root:
        fiber = root.plugin(late)
        with pytest.raises(LookupError):
            await fiber
        assert fiber.effects() == []
        assert "ping" not in root.kernel.bus.listeners()


async def test_a_raising_listener_of_errors_does_not_loop() -> None:
    """A `fiber/error` listener that raises is logged, and is not told of itself."""
    told: list[BaseException] = []

    def listener(fiber: Fiber, error: BaseException) -> None:
        told.append(error)
        raise ValueError("the listener's own")

    async with Context() as root:
        root.on("fiber/error", listener)
        root.plugin(broken)
        assert [type(error) for error in told] == [LookupError]


async def test_children_of_a_failed_fiber_are_disposed() -> None:
    """A child mounted by the failing body goes with it, for good."""
    children: list[Fiber] = []

    def parent(ctx: Context) -> None:
        children.append(ctx.plugin(lambda inner: None))
        raise LookupError

    async with Context() as root:
        root.plugin(parent)
        assert children[0].state is FiberState.DISPOSED
