"""Reports about lives that did not end, and reloads at the wrong moment."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel
import attrs
import pytest

from harness_core import Context, Fiber, FiberState, create_scope
from harness_core.errors import ConfigError, InactiveFiberError

from .reports import Kind, Scenario

pytestmark = pytest.mark.asyncio


lifecycle = Kind()


@lifecycle.report("cordiverse/cordis#8")
async def _registered_from_anywhere() -> None:
    """From a listener, a task and an awaited continuation: all of it goes with the plugin."""
    go = anyio.Event()

    async def work(ctx: Context) -> None:
        await go.wait()
        ctx.on("from task", lambda: None)

    async def plugin(ctx: Context) -> None:
        def on_ping() -> None:
            ctx.on("from listener", lambda: None)
            ctx.effect(lambda: lambda: journal.append("effect of listener"))

        ctx.on("ping", on_ping)
        ctx.start_soon(work, ctx)
        await anyio.lowlevel.checkpoint()
        ctx.on("from continuation", lambda: None)

    journal: list[str] = []
    async with Context() as root:
        before = root.kernel.bus.listeners()
        fiber = await root.plugin(plugin)
        root.emit("ping")
        go.set()
        await anyio.wait_all_tasks_blocked()
        for name in ("from listener", "from task", "from continuation"):
            assert name in root.kernel.bus.listeners()
        await fiber.dispose()
        assert root.kernel.bus.listeners() == before
        assert journal == ["effect of listener"]
        assert fiber.effects() == []


@lifecycle.report("cordiverse/cordis#127")
async def _from_every_state() -> None:
    """PENDING and FAILED ones end DISPOSED too, and say so."""
    ended: list[str] = []

    def broken(ctx: Context) -> None:
        raise LookupError

    def waiting(ctx: Context) -> None: ...

    async with Context() as root:

        def listener(fiber: Fiber, old: FiberState) -> None:
            if fiber.state is FiberState.DISPOSED:
                ended.append(fiber.name)

        root.on("fiber/state", listener)
        for fiber in (root.inject(["clock"], waiting), root.plugin(broken)):
            await fiber.dispose()
            assert fiber.state is FiberState.DISPOSED
        assert ended == ["waiting", "broken"]


@lifecycle.report("cordiverse/cordis#56")
async def _update_hooks_do_not_pile_up() -> None:
    """One call for each update, however many restarts there were."""
    called: list[int] = []

    def plugin(ctx: Context, config: dict[str, int]) -> None:
        ctx.on_update(lambda new: called.append(new["n"]))

    async with Context() as root:
        fiber = root.plugin(plugin, {"n": 0})
        for number in (1, 2, 3):
            await fiber.update({"n": number})
            await fiber.restart()
        assert called == [1, 2, 3]


@lifecycle.report("cordiverse/cordis#33")
async def _one_truth() -> None:
    """The handle is the fiber that the tree holds."""

    def plugin(ctx: Context, config: dict[str, int]) -> None: ...

    async with Context() as root:
        handle = root.plugin(plugin, {"n": 0})
        await root.fiber.children[0].update({"n": 1})
        await handle.restart()
        assert handle is root.fiber.children[0]
        assert handle.config == {"n": 1}


@lifecycle.report("cordiverse/cordis#31")
async def _root_disposal() -> None:
    """Nothing enters, everything is attempted, every failure is told."""
    journal: list[str] = []

    def plugin(ctx: Context, config: dict[str, str]) -> object:
        name = config["name"]
        ctx.effect(lambda: lambda: journal.append(name))

        async def fail() -> None:
            await anyio.lowlevel.checkpoint()
            with pytest.raises(InactiveFiberError):
                ctx.root.plugin(plugin, {"name": "late"})
            raise LookupError(name)

        return fail

    told: list[str] = []
    async with Context() as root:
        root.on("fiber/error", lambda fiber, error: told.append(str(error)))
        for name in "ab":
            root.plugin(plugin, {"name": name})
    assert told == ["b", "a"]
    assert journal == ["b", "a"]


@lifecycle.report("Effect-TS/effect#7916")
async def _a_finalizer_that_raises_at_once() -> None:
    """Before it has returned an awaitable: the others run."""
    journal: list[str] = []

    def plugin(ctx: Context) -> None:
        ctx.effect(lambda: lambda: journal.append("first"))

        def fail() -> Any:
            raise LookupError

        ctx.effect(lambda: fail)
        ctx.effect(lambda: lambda: journal.append("last"))

    async with Context() as root:
        await root.plugin(plugin).dispose()
    assert journal == ["last", "first"]


@lifecycle.report("ets-labs/python-dependency-injector#449")
async def _one_of_many_fails() -> None:
    """The others of the batch are neither cancelled nor orphaned."""
    go = anyio.Event()

    async def plugin(ctx: Context, config: dict[str, int]) -> None:
        await go.wait()
        if config["n"] == 2:
            raise LookupError

    async with Context() as root:
        fibers = [root.plugin(plugin, {"n": number}) for number in range(5)]
        go.set()
        for fiber in fibers:
            await fiber.wait_quiet()
        assert [fiber.state.name for fiber in fibers] == ["ACTIVE"] * 2 + ["FAILED"] + [
            "ACTIVE"
        ] * 2


@lifecycle.report("errbotio/errbot#21")
async def _a_timer_of_an_earlier_life() -> None:
    """Restarted twice within one turn, only the last life's task is alive."""
    alive: set[int] = set()
    lives = [0]

    async def tick(life: int) -> None:
        alive.add(life)
        try:
            await anyio.sleep_forever()
        finally:
            alive.discard(life)

    def plugin(ctx: Context) -> None:
        lives[0] += 1
        ctx.start_soon(tick, lives[0])

    async with Context() as root:
        fiber = root.plugin(plugin)
        await fiber.restart()
        await fiber.restart()
        await anyio.wait_all_tasks_blocked()
        assert alive == {3}


@lifecycle.report("meadsteve/lagom#187")
async def _a_service_of_a_scope() -> None:
    """It cannot be reached once its scope is gone, and is not kept alive."""

    class Big: ...

    async def visit(root: Context) -> weakref.ref[Big]:
        scope = create_scope(root, object())
        inside = scope.ctx.isolate("big")
        big = Big()
        inside.provide("big", big)
        assert inside.big is big
        await scope.dispose()
        assert inside.get("big") is None
        return weakref.ref(big)

    async with Context() as root:
        gone = await visit(root)
        gc.collect()
        assert gone() is None
        assert root.kernel.services.keys() == []


@lifecycle.each()
async def test_a_life_ends_whole_and_once(scenario: Scenario) -> None:
    """Whatever was registered, from wherever, in whatever state."""
    await scenario()


reloads = Kind()


@reloads.report("koishijs/koishi#1014")
async def _the_others_are_untouched() -> None:
    """Restarting one plugin leaves the registrations of the rest the very same objects."""

    def plugin(ctx: Context) -> None:
        ctx.on("ping", lambda: None)

    async with Context() as root:
        first, second = root.plugin(plugin), root.plugin(plugin)
        before = [one for one in root.kernel.bus.listeners()["ping"] if one.fiber is second]
        await first.restart()
        after = [one for one in root.kernel.bus.listeners()["ping"] if one.fiber is second]
        assert after == before
        assert len(after) == 1


@reloads.report(
    "home-assistant/core#73387",
    "home-assistant/core#73145",
    "home-assistant/core#117756",
    "home-assistant/core#115538",
    "home-assistant/core#110912",
)
async def _in_every_phase() -> None:
    """Restart, update and dispose while it loads, while it unloads, while it waits."""
    for phase in ("loading", "unloading", "pending"):
        for act in ("restart", "update", "dispose"):
            with anyio.fail_after(5):
                await _act_during(phase, act)


async def _act_during(phase: str, act: str) -> None:
    blocked, go = anyio.Event(), anyio.Event()
    block = [True]

    async def hold() -> None:
        if block[0]:
            blocked.set()
            await go.wait()

    async def plugin(ctx: Context, config: dict[str, int]) -> object:
        if phase == "loading":
            await hold()
        return hold if phase == "unloading" else None

    if phase == "pending":
        plugin.inject = ["clock"]  # type: ignore[attr-defined]
    async with Context() as root:
        fiber = root.plugin(plugin, {"n": 1})
        if phase == "unloading":
            await fiber
        async with anyio.create_task_group() as tasks:
            if phase == "unloading":
                tasks.start_soon(_swallowing, fiber.restart)
            if phase != "pending":
                await blocked.wait()
            block[0] = False
            arguments = [{"n": 2}] if act == "update" else []
            tasks.start_soon(_swallowing, getattr(fiber, act), *arguments)
            await anyio.wait_all_tasks_blocked()
            go.set()
        if act == "dispose":
            assert fiber.state is FiberState.DISPOSED, phase
        else:
            expected = "PENDING" if phase == "pending" else "ACTIVE"
            assert fiber.state.name == expected, (phase, act)
            assert fiber.config == {"n": 2 if act == "update" else 1}


async def _swallowing(act: Callable[..., Any], *arguments: object) -> None:
    try:
        await act(*arguments)
    except InactiveFiberError:
        pass


@reloads.report(
    "lnagel/hass-ufh-controller#65",
    "raman325/lock_code_manager#678",
    "home-assistant/core#111784",
)
async def _undone_twice() -> None:
    """Disposers are idempotent; a one-shot that has fired may be undone, and unloaded."""
    called: list[str] = []

    def plugin(ctx: Context) -> None:
        effects.append(ctx.once("ping", lambda: called.append("once")))
        effects.append(ctx.on("ping", lambda: called.append("on")))

    effects: list[Any] = []
    async with Context() as root:
        fiber = root.plugin(plugin)
        root.emit("ping")
        for effect in (*effects, *effects):
            await effect()
        root.emit("ping")
        await fiber.dispose()
        await effects[0]()
        assert called == ["once", "on"]


@reloads.report("Rapptz/discord.py#1658", "Cog-Creators/Red-DiscordBot#714")
async def _no_limbo() -> None:
    """After any failure the plugin is FAILED, can be restarted, updated, disposed and mounted."""

    @attrs.frozen
    class Settings:
        good: bool = True

    def plugin(ctx: Context, config: Settings) -> None:
        ctx.provide("clock", 1)
        if not config.good:
            raise LookupError

    plugin.Config = Settings  # type: ignore[attr-defined]
    async with Context() as root:
        fiber = root.plugin(plugin, {"good": False})
        assert fiber.state is FiberState.FAILED
        with pytest.raises(LookupError):
            await fiber.restart()
        with pytest.raises(ConfigError):
            await fiber.update({"good": "yes"})
        assert fiber.state is FiberState.FAILED
        await fiber.update({"good": True})
        assert fiber.state is FiberState.ACTIVE
        assert root.clock == 1
        await fiber.dispose()
        assert root.plugin(plugin).state is FiberState.ACTIVE


@reloads.report("Kludex/uvicorn#675", "Kludex/uvicorn#679")
async def _an_endless_task() -> None:
    """It is given its grace, then ended by force and reported; the restart goes on."""
    loads = [0]

    async def endless() -> None:
        while True:
            try:
                await anyio.sleep_forever()
            except anyio.get_cancelled_exc_class():
                continue

    def plugin(ctx: Context) -> None:
        loads[0] += 1
        if loads[0] == 1:
            ctx.start_soon(endless)

    plugin.grace = 0.01  # type: ignore[attr-defined]
    async with Context() as root:
        told: list[str] = []
        root.on("fiber/error", lambda fiber, error: told.append(str(error)))
        fiber = root.plugin(plugin)
        await anyio.wait_all_tasks_blocked()
        with anyio.fail_after(10):
            await fiber.restart()
        assert fiber.state is FiberState.ACTIVE
        assert loads == [2]
        assert len(told) == 1


@reloads.each()
async def test_a_reload_at_any_time_ends_well(scenario: Scenario) -> None:
    """The old is down before the new is up; nothing is half there."""
    await scenario()
