"""`fiber.update`: validated first, in place where the plugin accepts it, else by a restart."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import attrs
import pytest

from harness_core import Context, Fiber, FiberState
from harness_core.errors import ConfigError, InactiveFiberError

pytestmark = pytest.mark.asyncio


@attrs.frozen
class Settings:
    """One field."""

    size: int = 1


class Plugin:
    """Writes what happens to it; accepts updates as told."""

    Config = Settings

    def __init__(self, handler: object = None) -> None:
        self.journal: list[str] = []
        self.handler = handler

    def apply(self, ctx: Context, config: Settings) -> object:
        """Note the load."""
        self.journal.append(f"load {config.size}")
        if config.size < 0:
            raise LookupError(f"planned {config.size}")
        if self.handler is not None:
            ctx.on_update(self.handler)  # type: ignore[arg-type]
        return lambda: self.journal.append(f"unload {config.size}")


async def test_without_a_handler_an_update_restarts() -> None:
    """The old run is undone before the new one begins; same fiber, new config."""
    plugin = Plugin()
    async with Context() as root:
        fiber = root.plugin(plugin)
        assert await fiber.update({"size": 2}) is fiber
        assert plugin.journal == ["load 1", "unload 1", "load 2"]
        assert fiber.config == Settings(2)


@pytest.mark.parametrize("raw", [{"size": "x"}, {"sise": 2}, 5], ids=repr)
async def test_an_invalid_update_changes_nothing_and_raises(raw: object) -> None:
    """It is validated before anything is touched."""
    plugin = Plugin()
    async with Context() as root:
        fiber = root.plugin(plugin, {"size": 2})
        effects = fiber.effects()
        with pytest.raises(ConfigError):
            await fiber.update(raw)
        assert plugin.journal == ["load 2"]
        assert fiber.config == Settings(2)
        assert fiber.state is FiberState.ACTIVE
        assert fiber.error is None
        assert fiber.effects() == effects


async def test_a_handler_takes_the_update_in_place() -> None:
    """`ctx.on_update(handler)`: no restart, and the fiber's config is the new one."""
    got: list[Settings] = []
    plugin = Plugin(got.append)
    async with Context() as root:
        fiber = root.plugin(plugin)
        await fiber.update({"size": 2})
        assert got == [Settings(2)]
        assert plugin.journal == ["load 1"]
        assert fiber.config == Settings(2)


async def test_an_async_handler_is_awaited() -> None:
    """`update` returns when it has."""
    got: list[Settings] = []

    async def handler(config: Settings) -> None:
        await anyio.lowlevel.checkpoint()
        got.append(config)

    async with Context() as root:
        await root.plugin(Plugin(handler)).update({"size": 2})
        assert got == [Settings(2)]


async def test_a_handler_that_returns_false_asks_for_a_restart() -> None:
    """It may look at the config and decline."""
    plugin = Plugin(lambda config: False)
    async with Context() as root:
        await root.plugin(plugin).update({"size": 2})
        assert plugin.journal == ["load 1", "unload 1", "load 2"]


async def test_a_handler_that_raises_leaves_the_old_config_running() -> None:
    """L5: the error reaches the caller, nothing else changes."""

    def handler(config: Settings) -> None:
        raise LookupError("planned")

    plugin = Plugin(handler)
    async with Context() as root:
        fiber = root.plugin(plugin)
        with pytest.raises(LookupError, match="planned"):
            await fiber.update({"size": 2})
        assert fiber.config == Settings(1)
        assert fiber.state is FiberState.ACTIVE
        assert plugin.journal == ["load 1"]


async def test_a_new_body_that_fails_is_rolled_back() -> None:
    """The old config runs again, and the error is raised."""
    plugin = Plugin()
    async with Context() as root:
        fiber = root.plugin(plugin)
        with pytest.raises(LookupError, match="planned -1"):
            await fiber.update({"size": -1})
        assert plugin.journal == ["load 1", "unload 1", "load -1", "load 1"]
        assert fiber.config == Settings(1)
        assert fiber.state is FiberState.ACTIVE
        assert fiber.error is None


async def test_n_updates_call_the_handler_n_times() -> None:
    """Handlers do not pile up over restarts."""
    got: list[int] = []
    plugin = Plugin(lambda config: got.append(config.size))
    async with Context() as root:
        fiber = root.plugin(plugin)
        for _ in range(3):
            await fiber.restart()
        for size in (2, 3, 4):
            await fiber.update({"size": size})
        assert got == [2, 3, 4]


async def test_a_handler_is_an_effect() -> None:
    """Its effect takes it back; then an update restarts."""
    plugin = Plugin()
    async with Context() as root:
        fiber = root.plugin(plugin)
        effect = fiber.ctx.on_update(lambda config: None)
        await effect()
        await fiber.update({"size": 2})
        assert plugin.journal == ["load 1", "unload 1", "load 2"]


async def test_concurrent_updates_are_serialised() -> None:
    """Each is applied whole; the last one stands."""
    journal: list[str] = []

    async def handler(config: Settings) -> None:
        journal.append(f"begin {config.size}")
        await anyio.lowlevel.checkpoint()
        journal.append(f"end {config.size}")

    async with Context() as root:
        fiber = root.plugin(Plugin(handler))
        async with anyio.create_task_group() as tasks:
            for size in (2, 3):
                tasks.start_soon(fiber.update, {"size": size})
        assert journal == ["begin 2", "end 2", "begin 3", "end 3"]
        assert fiber.config == Settings(3)


async def test_a_pending_fiber_takes_an_update_for_its_first_load() -> None:
    """The new config is what it will load with."""
    plugin = Plugin()
    plugin.inject = ["clock"]  # type: ignore[attr-defined]
    async with Context() as root:
        fiber = root.plugin(plugin)
        await fiber.update({"size": 5})
        root.provide("clock", 1)
        assert plugin.journal == ["load 5"]


async def test_an_update_of_a_disposed_fiber_is_refused() -> None:
    """There is nothing to configure."""
    async with Context() as root:
        fiber = root.plugin(Plugin())
        await fiber.dispose()
        with pytest.raises(InactiveFiberError):
            await fiber.update({"size": 2})


async def test_an_update_that_waits_behind_another_finds_the_fiber_disposed() -> None:
    """It is refused like one that comes too late, and nothing hangs."""
    go = anyio.Event()
    refused: list[str] = []

    async def handler(config: Settings) -> None:
        await go.wait()

    async def update(fiber: Fiber, size: int) -> None:
        try:
            await fiber.update({"size": size})
        except InactiveFiberError:
            refused.append(f"update to {size}")

    with anyio.fail_after(5):
        async with Context() as root:
            fiber = root.plugin(Plugin(handler))
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(update, fiber, 2)
                tasks.start_soon(update, fiber, 3)
                await anyio.wait_all_tasks_blocked()
                rest = fiber.dispose()
                go.set()
                await rest
            assert "update to 3" in refused
            assert fiber.state is FiberState.DISPOSED


async def test_the_handle_and_the_fiber_are_one_truth() -> None:
    """Config and state read the same through every way to the fiber."""
    async with Context() as root:
        handle = root.plugin(Plugin())
        (registered,) = root.fiber.children
        await registered.update({"size": 7})
        assert handle is registered is handle.ctx.fiber
        assert handle.config == registered.config == Settings(7)


@pytest.mark.parametrize("overlap", [False, True])
async def test_an_update_that_is_cancelled_at_any_moment_leaves_one_config_or_the_other(
    overlap: bool,
) -> None:
    """Never none, and never both."""

    class Slow(Plugin):
        async def apply(self, ctx: Context, config: Settings) -> None:  # type: ignore[override]
            await anyio.lowlevel.checkpoint()
            disposer = super().apply(ctx, config)
            ctx.effect(lambda: disposer)
            ctx.provide("size", config.size)
            await anyio.lowlevel.checkpoint()

    async with Context() as root:
        plugin = Slow()
        plugin.overlap = overlap  # type: ignore[attr-defined]
        fiber = await root.plugin(plugin, {"size": 0})
        size, ticks, was_cancelled = 0, 0, True
        while was_cancelled:
            scope = anyio.CancelScope()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_update_within, scope, fiber, size + 1)
                for _ in range(ticks):
                    await anyio.lowlevel.checkpoint()
                scope.cancel()
            was_cancelled = scope.cancelled_caught
            await anyio.wait_all_tasks_blocked()
            await fiber
            assert fiber.state is FiberState.ACTIVE
            assert fiber.config.size in (size, size + 1)
            size = fiber.config.size
            assert root.get("size") == size
            assert root.kernel.tree.lives == int(overlap)
            loads = sum(line.startswith("load") for line in plugin.journal)
            assert loads - sum(line.startswith("unload") for line in plugin.journal) == 1
            ticks += 1
        assert ticks > 3


async def _update_within(scope: anyio.CancelScope, fiber: Fiber, size: int) -> None:
    with scope:
        await fiber.update({"size": size})
