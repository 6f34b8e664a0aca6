"""Weak references prove that what is disposed can be collected (L2)."""

from __future__ import annotations

import gc
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_core import (
    Context,
    Event,
    Fiber,
    Service,
    create_scope,
    inject,
    mount_container,
    override,
    scope_target,
)
from harness_core.prompt import AssembleContext, SystemPrompt, ToolSchema
from harness_core.testing import observe, run_with_virtual_clock

from .bodies import Body, World, bodies, plugin_of
from .machine import Boom, laws


class Witness:
    """Something that a plugin holds. When the plugin is gone, it must be too."""


class Watch:
    """Weak references to witnesses, by what held them."""

    def __init__(self) -> None:
        self.references: dict[str, weakref.ref[Any]] = {}

    def __call__(self, name: str, thing: Any = None) -> Any:
        thing = Witness() if thing is None else thing
        self.references[name] = weakref.ref(thing)
        return thing

    def alive(self) -> list[str]:
        gc.collect()
        return sorted(name for name, ref in self.references.items() if ref() is not None)


class Database(Service, key="database"):
    def __init__(self) -> None:
        self.pool = Witness()


async def use_everything(ctx: Context, watch: Watch) -> AsyncIterator[Any]:
    """Register one of each kind; every closure holds a witness of its own."""
    prompt = ctx.system_prompt

    def holder(name: str, result: Any) -> Callable[..., Any]:
        held = watch(name)
        return lambda *_: (held, result)[1]

    prompt.section("a", holder("section provider", "text {{v}}"), order=1)
    prompt.context("a", holder("context provider", "text"), order=1)
    prompt.variable("v", holder("variable provider", "value"))
    prompt.tools(holder("tool provider", [ToolSchema("bash")]))
    prompt.final_check(holder("final check", None))
    ctx.on("law", holder("listener", None))
    ctx.on(Event("declared"), holder("listener of a declared event", None))
    ctx.once("law", holder("once listener", None))
    ctx.on_update(holder("update handler", None))
    ctx.accessor("attribute", holder("accessor", 1))
    ctx.effect(holder("effect body", holder("disposer", None)))
    ctx.provide("value", watch("provided value"))
    ctx.isolate("value").provide("value", watch("value in a realm"))
    ctx.start_soon(holder("background task", anyio.sleep_forever()))

    @asynccontextmanager
    async def manager(held: Witness) -> AsyncIterator[Witness]:
        yield held

    await ctx.enter(manager(watch("entered value")))
    scope = create_scope(ctx, watch("scope key"), parent=watch("parent key"))
    scope.ctx.on("law", holder("listener in a scope", None))
    sub = inject("system_prompt")(lambda ctx: ctx.system_prompt.section("b", "b", order=1) and None)
    scope.ctx.plugin(sub)
    await prompt.assemble(AssembleContext(scope.key))
    ctx.emit("law", target=scope_target(None, scope.key))
    child = await ctx.plugin(watch("child", lambda _: None))
    watch("child fiber", child)
    with override(ctx, "value", watch("override")):
        pass
    watch("context", ctx)
    watch("fiber", ctx.fiber)
    yield holder("yielded disposer", None)


async def prepared(root: Context) -> None:
    await root.plugin(SystemPrompt)


@pytest.mark.parametrize("end", ["dispose", "restart", "fail", "parent", "consumer"])
def test_everything_of_a_plugin_is_collected(end: str) -> None:
    """Whatever held a witness, however the plugin ended: the witness is gone."""

    async def live_and_die(root: Context, watch: Watch) -> None:
        @inject("system_prompt")
        async def plugin(ctx: Context, _: Any) -> AsyncIterator[Any]:
            async for disposer in use_everything(ctx, watch):
                yield disposer
            if end == "fail":
                raise Boom

        watch("plugin", plugin)
        if end == "parent":
            parent = await root.plugin(lambda ctx: ctx.plugin(plugin) and None)
            await parent.children[0]
            await parent.dispose()
            return
        fiber = root.plugin(plugin)
        try:
            await fiber
        except Boom:
            pass
        if end == "restart":
            first, watch.references = watch.references, {}
            await fiber.restart()
            stay = {"plugin", "fiber", "context"}
            watch.references |= {
                f"{name} of the first life": ref for name, ref in first.items() if name not in stay
            }
        if end == "consumer":
            user = await root.plugin(watch("consumer", inject("value")(lambda _: None)))
            await fiber.dispose()
            await user.dispose()
        await fiber.dispose()

    async def main() -> None:
        async with Context() as root:
            await prepared(root)
            before = observe(root)
            watch = Watch()
            await live_and_die(root, watch)
            await anyio.sleep(1)
            assert len(watch.references) > 25
            assert watch.alive() == []
            assert [str(one) for one in observe(root).added_since(before)] == []

    run_with_virtual_clock(main)


def test_a_handle_that_is_kept_keeps_nothing_of_the_plugin() -> None:
    async def main() -> None:
        async with Context() as root:
            watch = Watch()

            async def mount() -> Fiber:
                held = watch("closure")
                await root.plugin(Database)

                @inject("database")
                def plugin(ctx: Context) -> Callable[[], Any]:
                    watch("service", ctx.database.pool)
                    return lambda: held

                return await root.plugin(plugin)

            fiber = await mount()
            await fiber.dispose()
            await root.fiber.children[0].dispose()
            assert watch.alive() == []
            assert fiber.state.value == "disposed"

    run_with_virtual_clock(main)


def test_services_and_their_consumers_are_collected() -> None:
    async def main() -> None:
        async with Context() as root:
            watch = Watch()

            async def round_trip() -> None:
                provider = await root.plugin(Database)

                @inject(Database)
                def consumer(ctx: Context) -> None:
                    watch("pool", ctx[Database].pool)
                    watch("consumer context", ctx)

                first = await root.plugin(consumer)
                second = await root.plugin(consumer)
                await first.dispose()
                await provider.dispose()  # the second now waits for another
                await second.dispose()
                watch("consumer", consumer)

            for _ in range(3):
                await round_trip()
                assert watch.alive() == []

    run_with_virtual_clock(main)


def test_a_container_and_its_singletons_are_collected() -> None:
    async def main() -> None:
        from dependency_injector import containers, providers

        async with Context() as root:
            watch = Watch()

            async def round_trip() -> None:
                container = containers.DynamicContainer()
                container.value = providers.Singleton(Witness)

                def plugin(ctx: Context) -> None:
                    mount_container(ctx, container)
                    watch("singleton", ctx["value"])

                fiber = await root.plugin(plugin)
                await fiber.dispose()

            await round_trip()
            assert watch.alive() == []

    run_with_virtual_clock(main)


def test_an_error_that_is_kept_is_all_that_is_kept() -> None:
    """A failed fiber keeps its error, and its error alone, until it is disposed."""

    async def main() -> None:
        async with Context() as root:
            watch = Watch()

            async def fail() -> None:
                def plugin(ctx: Context) -> None:
                    ctx.on("law", watch("listener", lambda: None))
                    raise Boom

                fiber = root.plugin(plugin)
                with pytest.raises(Boom):
                    await fiber
                fiber.error.__traceback__ = None  # type: ignore[union-attr]

            await fail()
            assert watch.alive() == []

    run_with_virtual_clock(main)


@pytest.mark.parametrize("kind", ["section", "listener", "service", "scope", "child", "task"])
def test_a_thousand_lives_leave_nothing(kind: str) -> None:
    """Memory does not grow with the number of lives: as many objects after 300 as after 30."""

    async def live(ctx: Context) -> None:
        if kind == "section":
            ctx.system_prompt.section("a", "b", order=1)
            scope = create_scope(ctx, Witness(), parent=PARENT)
            scope.ctx.get("system_prompt").section("a", "b", order=1)
            await ctx.system_prompt.assemble(scope=scope.key)
        elif kind == "listener":
            ctx.on("law", print)
        elif kind == "service":
            ctx.isolate("value").provide("value", 1)
            ctx.provide("value", 1)
            ctx.inject(["value"], lambda _: None)
        elif kind == "scope":
            create_scope(ctx, Witness(), parent=PARENT)
        elif kind == "child":
            await ctx.plugin(live_child)
        else:
            ctx.start_soon(anyio.sleep_forever)

    async def lives(root: Context, count: int, body: Callable[[Context], Awaitable[None]]) -> int:
        for _ in range(count):
            fiber = await root.plugin(inject("system_prompt")(body))
            await fiber.restart()
            await fiber.dispose()
        del fiber
        gc.collect()
        return len(gc.get_objects())

    async def main() -> None:
        async with Context() as root:
            await prepared(root)
            await lives(root, 30, live)
            before = await lives(root, 30, live)
            after = await lives(root, 300, live)
            assert after - before < 100

    run_with_virtual_clock(main)


PARENT = Witness()


def live_child(ctx: Context) -> None:
    ctx.effect(lambda: lambda: None)


@laws(examples=150)
@given(body=bodies, turns=st.integers(0, 15))
def test_random_plugins_are_collected(body: Body, turns: int) -> None:
    """Also those that fail, and those that are disposed while they load."""

    async def main() -> None:
        async with Context() as root:
            await prepared(root)
            world = World(forgetful=True)

            async def live_and_die() -> weakref.ref[Any]:
                fiber = root.plugin(plugin_of(body, "p", world))
                for _ in range(turns):
                    await anyio.lowlevel.checkpoint()
                await fiber.dispose()
                return weakref.ref(fiber.ctx)

            reference = await live_and_die()
            await anyio.sleep(1)
            gc.collect()
            assert reference() is None

    run_with_virtual_clock(main)
