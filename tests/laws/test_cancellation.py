"""Cancellation at every await of load, restart, update, assemble and dispose.

Each operation is run once to count its checkpoints, then once for each of them with its caller
cancelled in just that moment. Afterwards it is either done or as before (L5), and nothing is left
(L2). The checkpoints of the plugins' own code are the matter of `check_plugin`, which is turned
loose on random plugins here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given

from harness_core import Context, Fiber, FiberState, inject
from harness_core.prompt import SystemPrompt, render_prompt
from harness_core.testing import (
    Checkpoints,
    assert_no_residue,
    check_plugin,
    ledger,
    run_with_virtual_clock,
)

from .bodies import Body, World, bodies, expect, plugin_of
from .machine import laws

Operation = Callable[[], Awaitable[object]]


class Cancelling:
    """Runs an operation and cancels its caller at one checkpoint; 0 for none."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.passed = 0
        self.cancelled = False

    async def __call__(self, operation: Operation) -> None:
        with anyio.CancelScope() as scope:

            def intrude(number: int) -> None:
                if number == self.at:
                    scope.cancel()

            counted = Checkpoints(operation(), intrude)
            try:
                await counted
            finally:
                self.passed = counted.passed
        self.cancelled = scope.cancelled_caught


def at_every_checkpoint(scenario: Callable[[Cancelling], Awaitable[None]], least: int) -> None:
    """Play a scenario without cancellation, then once for each checkpoint of its operation."""
    clean = Cancelling(0)
    run_with_virtual_clock(scenario, clean)
    assert clean.passed >= least, "the operation waits nowhere: the test proves nothing"
    hits = 0
    for at in range(1, clean.passed + 1):
        cancelling = Cancelling(at)
        run_with_virtual_clock(scenario, cancelling)
        hits += cancelling.cancelled
    assert hits


async def settle() -> None:
    await anyio.sleep(50)


class Thing:
    """A plugin that waits wherever it can. `seen` are the configs it has run with."""

    def __init__(self, fails_with: object = None) -> None:
        self.seen: list[Any] = []
        self.running = 0
        self.fails_with = fails_with

    @asynccontextmanager
    async def manager(self) -> AsyncIterator[None]:
        await checkpoint()
        self.running += 1
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.1)
            self.running -= 1

    async def background(self) -> None:
        self.running += 1
        try:
            await anyio.sleep_forever()
        finally:
            self.running -= 1

    async def effect(self, ctx: Context) -> Callable[[], Awaitable[None]]:
        ctx.on("inner", print)
        await anyio.sleep(0.1)

        async def undo() -> None:
            await anyio.sleep(0.1)

        return undo

    async def apply(self, ctx: Context, config: Any) -> AsyncIterator[Any]:
        await checkpoint()
        await ctx.enter(self.manager())
        await ctx.effect(self.effect, label="effect")
        ctx.start_soon(self.background)
        ctx.provide("thing", self)
        child = await ctx.plugin(lambda ctx: ctx.on("child", print) and None)
        yield child.dispose
        if config == self.fails_with and config is not None:
            raise ValueError("this config will not do")
        await anyio.sleep(0.1)
        self.seen.append(config)


@inject("thing")
async def consumer(ctx: Context) -> Callable[[], Awaitable[None]]:
    ctx.on("consumer", print)
    await checkpoint()

    async def undo() -> None:
        await anyio.sleep(0.1)
        assert ctx["thing"].running == 2, "what the provider set up outlives its users"

    return undo


def is_whole(fiber: Fiber, thing: Thing) -> None:
    assert fiber.state is FiberState.ACTIVE
    assert thing.running == 2
    assert thing.seen[-1] == fiber.config


def test_mounting() -> None:
    """A caller that stops waiting for a load does not stop the load."""

    async def scenario(cancelling: Cancelling) -> None:
        async with Context() as root, assert_no_residue(root):
            thing = Thing()
            fiber = root.plugin(thing, {"n": 1})
            await cancelling(lambda: fiber.wait_active())
            await settle()
            is_whole(fiber, thing)
            await fiber.dispose()
            assert thing.running == 0

    at_every_checkpoint(scenario, 1)


def test_restart() -> None:
    async def scenario(cancelling: Cancelling) -> None:
        async with Context() as root, assert_no_residue(root):
            thing = Thing()
            fiber = await root.plugin(thing, {"n": 1})
            user = await root.plugin(consumer)
            before = ledger(root).labels
            await cancelling(fiber.restart)
            await settle()
            is_whole(fiber, thing)
            assert user.state is FiberState.ACTIVE
            assert ledger(root).labels == before
            await fiber.dispose()
            await user.dispose()

    at_every_checkpoint(scenario, 2)


def test_update() -> None:
    """The new config or the old one runs, whole."""

    async def scenario(cancelling: Cancelling) -> None:
        async with Context() as root, assert_no_residue(root):
            thing = Thing()
            fiber = await root.plugin(thing, {"n": 1})
            user = await root.plugin(consumer)
            before = ledger(root).labels
            await cancelling(lambda: fiber.update({"n": 2}))
            await settle()
            is_whole(fiber, thing)
            assert fiber.config in ([{"n": 1}, {"n": 2}] if cancelling.cancelled else [{"n": 2}])
            assert user.state is FiberState.ACTIVE
            assert ledger(root).labels == before
            await fiber.dispose()
            await user.dispose()

    at_every_checkpoint(scenario, 2)


def test_update_that_fails() -> None:
    """A config that will not do is rolled back, whoever still waits for that."""

    async def scenario(cancelling: Cancelling) -> None:
        async with Context() as root, assert_no_residue(root):
            thing = Thing(fails_with={"n": 2})
            fiber = await root.plugin(thing, {"n": 1})

            async def update() -> None:
                with pytest.raises(ValueError, match="will not do"):
                    await fiber.update({"n": 2})

            await cancelling(update)
            await settle()
            is_whole(fiber, thing)
            assert fiber.config == {"n": 1}
            await fiber.dispose()

    at_every_checkpoint(scenario, 2)


def test_update_in_place() -> None:
    """A handler that was cancelled has not accepted: the old config stays."""

    async def scenario(cancelling: Cancelling) -> None:
        async with Context() as root, assert_no_residue(root):
            taken: list[Any] = []

            def plugin(ctx: Context, _: Any) -> None:
                async def accept(config: Any) -> None:
                    await checkpoint()
                    await anyio.sleep(0.1)
                    taken.append(config)

                ctx.on_update(accept)

            fiber = await root.plugin(plugin, {"n": 1})
            await cancelling(lambda: fiber.update({"n": 2}))
            assert fiber.state is FiberState.ACTIVE
            assert (fiber.config == {"n": 2}) == bool(taken)
            await fiber.update({"n": 3})
            assert fiber.config == {"n": 3}
            await fiber.dispose()

    at_every_checkpoint(scenario, 2)


def test_dispose() -> None:
    """A caller that gives up does not cancel the teardown (L6)."""

    async def scenario(cancelling: Cancelling) -> None:
        async with Context() as root, assert_no_residue(root):
            thing = Thing()
            fiber = await root.plugin(thing, {"n": 1})
            user = await root.plugin(consumer)
            await cancelling(lambda: fiber.dispose().wait())
            assert fiber.state in (FiberState.UNLOADING, FiberState.DISPOSED)
            await fiber.dispose()
            assert fiber.state is FiberState.DISPOSED
            assert user.state is FiberState.PENDING
            assert thing.running == 0
            await user.dispose()

    at_every_checkpoint(scenario, 1)


def test_early_disposal_of_an_effect() -> None:
    async def scenario(cancelling: Cancelling) -> None:
        async with Context() as root, assert_no_residue(root):
            thing = Thing()
            effect = await root.effect(thing.effect)
            await cancelling(lambda: effect().wait())
            await effect()

    at_every_checkpoint(scenario, 1)


def test_entering_a_context_manager() -> None:
    """Whoever is cancelled while it is entered holds nothing."""

    async def scenario(cancelling: Cancelling) -> None:
        async with Context() as root:
            thing = Thing()
            before = ledger(root)
            await cancelling(lambda: root.enter(thing.manager()))
            await settle()
            assert thing.running == (0 if cancelling.cancelled else 1)
            assert (ledger(root) == before) == cancelling.cancelled

    at_every_checkpoint(scenario, 1)


def test_assembling() -> None:
    """An assembly that is cancelled has touched nothing."""

    async def scenario(cancelling: Cancelling) -> None:
        async with Context() as root, assert_no_residue(root):
            service = await root.plugin(SystemPrompt)
            prompt = root.system_prompt
            calls: list[str] = []

            def provider(name: str, seconds: float) -> Callable[[], Awaitable[str]]:
                async def provide() -> str:
                    calls.append(f"+{name}")
                    try:
                        await checkpoint()
                        await anyio.sleep(seconds)
                        return name
                    finally:
                        calls.append(f"-{name}")

                return provide

            async def listener(assembly: Any, _: Any, proceed: Any) -> Any:
                await anyio.sleep(0.1)
                assembly.sections.reverse()
                result = await proceed()
                await checkpoint()
                return result

            kept = [
                prompt.variable("one", provider("one", 0.1)),
                prompt.variable("two", provider("two", 0.2)),
                prompt.section("s", provider("{{one}} {{two}}", 0.1), order=1),
                prompt.section("slow", provider("x", 9), order=2, optional=True, timeout=0.5),
                prompt.context("c", provider("context", 0.3), order=1),
                root.on("system-prompt/assemble", listener),
            ]
            before = ledger(root)
            await cancelling(prompt.assemble)
            with_calls = [call[1:] for call in calls if call[0] == "+"]
            assert sorted(with_calls) == sorted(call[1:] for call in calls if call[0] == "-")
            assert ledger(root) == before
            expected = "one two\n\nYou are an AI agent powered by DeepSeek Harness."
            assert render_prompt(await prompt.assemble()) == expected
            for effect in reversed(kept):
                await effect()
            await service.dispose()

    at_every_checkpoint(scenario, 3)


@pytest.mark.parametrize("mode", ["parallel", "serial", "waterfall"])
def test_dispatching(mode: str) -> None:
    async def scenario(cancelling: Cancelling) -> None:
        async with Context() as root, assert_no_residue(root):
            inside: list[int] = []

            async def listener(*args: Any) -> Any:
                inside.append(1)
                try:
                    await anyio.sleep(0.1)
                    return await args[-1]() if mode == "waterfall" else None
                finally:
                    inside.pop()

            effects = [root.on("law", listener) for _ in range(3)]
            await cancelling(lambda: getattr(root, mode)("law", "value"))
            assert not inside
            for effect in effects:
                await effect()

    at_every_checkpoint(scenario, 1)


def test_closing_the_tree() -> None:
    """A cancelled `async with Context()` still disposes everything, in order, before it ends."""

    async def scenario(cancelling: Cancelling) -> None:
        things: list[Thing] = [Thing()]

        async def whole() -> None:
            async with Context() as root:
                await root.plugin(things[0], {"n": 1})
                await root.plugin(consumer)

        await cancelling(whole)
        assert things[0].running == 0
        assert len(anyio.get_running_tasks()) == 1

    at_every_checkpoint(scenario, 3)


def test_a_whole_plugin_at_every_await_of_its_own() -> None:
    async def main() -> None:
        report = await check_plugin(Thing(), {"n": 1})
        assert report.checkpoints >= 12
        assert len(report.runs) == 1 + 3 * report.checkpoints
        report.raise_if_faulty()

    run_with_virtual_clock(main)


@laws(examples=60)
@given(body=bodies)
def test_random_plugins_at_every_await_of_their_own(body: Body) -> None:
    """Failure, disposal and a cancelled caller, at each await: nothing is ever left (L2, L4)."""
    if expect(body, "p").failed:
        return

    async def main() -> None:
        plugin = plugin_of(body, "p", World(forgetful=True))
        plugin.inject = ["system_prompt"]
        report = await check_plugin(plugin, limit=40)
        assert not report.left, str(report)
        # Disposers that raise on purpose are reported; nothing else is to be.
        assert all(fault.startswith("Boom") for fault in report.faults), str(report)

    run_with_virtual_clock(main)
