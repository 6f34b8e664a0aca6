"""The kernel's own events: state, error, service, mount, dispatch."""

from __future__ import annotations

import pytest

from harness_core import Context, Fiber, FiberState, scope_target

pytestmark = pytest.mark.asyncio


async def test_fiber_state_tells_of_every_move() -> None:
    """`fiber/state`: the fiber and the state it came from."""
    journal: list[tuple[str, FiberState, FiberState]] = []
    async with Context() as root:
        root.on("fiber/state", lambda fiber, old: journal.append((fiber.name, old, fiber.state)))

        def plugin(ctx: Context) -> None: ...

        root.plugin(plugin)
        assert journal == [
            ("plugin", FiberState.PENDING, FiberState.LOADING),
            ("plugin", FiberState.LOADING, FiberState.ACTIVE),
        ]


async def test_plugin_mount_tells_of_each_mount() -> None:
    """`plugin/mount`: the new fiber, with its parent, before it loads."""
    journal: list[tuple[str, FiberState]] = []
    async with Context() as root:
        root.on("plugin/mount", lambda fiber: journal.append((fiber.path, fiber.state)))

        def child(ctx: Context) -> None: ...

        def plugin(ctx: Context) -> None:
            ctx.plugin(child)

        root.plugin(plugin)
        assert journal == [
            ("root/plugin", FiberState.PENDING),
            ("root/plugin/child", FiberState.PENDING),
        ]


async def test_service_change_tells_key_and_provider() -> None:
    """`service/change`: when one comes and when it goes."""
    journal: list[tuple[str, bool]] = []
    async with Context() as root:

        def listener(key: str, fiber: Fiber) -> None:
            journal.append((key, root.get(key) is not None))

        root.on("service/change", listener)
        fiber = root.plugin(lambda ctx: ctx.provide("clock", 1) and None)
        await fiber.dispose()
        assert journal == [("clock", True), ("clock", False)]


async def test_event_dispatch_tells_of_every_dispatch_but_its_own() -> None:
    """`event/dispatch`: name, mode and target, for diagnostics; also of what nobody hears."""
    journal: list[tuple[str, str, object]] = []
    async with Context() as root:
        root.on("event/dispatch", lambda *args: journal.append(args))
        target = scope_target(None, object())
        root.emit("ping")
        await root.serial("ask", target=target)
        root.bail("ask")
        await root.parallel("all")
        await root.waterfall("wrap")
        assert journal == [
            ("ping", "emit", None),
            ("ask", "serial", target),
            ("ask", "bail", None),
            ("all", "parallel", None),
            ("wrap", "waterfall", None),
        ]


async def test_a_raising_diagnostic_listener_stops_nothing() -> None:
    """The kernel's events are emitted like others."""

    def fail(*args: object) -> None:
        raise LookupError("planned")

    async with Context() as root:
        for event in ("fiber/state", "plugin/mount", "service/change", "event/dispatch"):
            root.on(event, fail)
        fiber = root.plugin(lambda ctx: ctx.provide("clock", 1) and None)
        assert fiber.state is FiberState.ACTIVE
        await fiber.dispose()
        assert fiber.state is FiberState.DISPOSED
