"""Effects: labelled, nested, undone in strict reverse, early or with their fiber."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterator

import anyio
import anyio.lowlevel
import pytest

from harness_core import Context, Effect, FiberState
from harness_core.errors import InactiveFiberError

pytestmark = pytest.mark.asyncio


def undo(journal: list[str], name: str) -> Callable[[], object]:
    """Return an effect body whose undo writes a line."""
    return lambda: lambda: journal.append(name)


async def test_an_effect_runs_its_body_like_a_plugin_body() -> None:
    """The body takes the context or nothing, and may be a generator, or return a disposer."""
    journal: list[str] = []

    def steps(ctx: Context) -> Iterator[Callable[[], None]]:
        yield lambda: journal.append("one")
        yield lambda: journal.append("two")

    async with Context() as root:
        effect = root.effect(steps)
        assert isinstance(effect, Effect)
        await effect()
        assert journal == ["two", "one"]
        assert root.fiber.effects() == []


async def test_calling_or_disposing_an_effect_undoes_it_once() -> None:
    """Idempotent, and shared between callers."""
    journal: list[str] = []
    async with Context() as root:
        effect = root.effect(undo(journal, "undo"))
        assert not effect.disposed
        first = effect()
        assert effect.disposed
        await first
        await effect.dispose()
        await effect()
        assert journal == ["undo"]


async def test_synchronous_steps_are_over_before_the_call_returns() -> None:
    """Calling it performs every synchronous step before it returns."""
    journal: list[str] = []
    async with Context() as root:
        effect = root.effect(undo(journal, "undo"))
        effect()
        assert journal == ["undo"]


async def test_the_rest_is_awaited_in_strict_reverse() -> None:
    """Leading synchronous steps now; behind the first asynchronous one, all in order."""
    journal: list[str] = []

    def body(ctx: Context) -> Iterator[Callable[[], object]]:
        yield lambda: journal.append("one")

        async def slow() -> None:
            journal.append("two begins")
            await anyio.lowlevel.checkpoint()
            journal.append("two ends")

        yield slow
        yield lambda: journal.append("three")

    async with Context() as root:
        effect = root.effect(body)
        rest = effect()
        assert journal == ["three"]
        await rest
        assert journal == ["three", "two begins", "two ends", "one"]


async def test_effects_made_inside_a_body_belong_to_that_effect() -> None:
    """They are its children in `effects()`, and are undone before it, newest first."""
    journal: list[str] = []

    def outer(ctx: Context) -> Callable[[], None]:
        ctx.effect(undo(journal, "first"), label="first")
        ctx.on("ping", lambda: None)
        return lambda: journal.append("outer")

    async with Context() as root:
        effect = root.effect(outer, label="outer")
        (info,) = root.fiber.effects()
        assert [child.label for child in info.children][:2] == ["first", 'listener "ping"']
        await effect()
        assert journal == ["outer", "first"]
        assert "ping" not in root.kernel.bus.listeners()


async def test_nesting_goes_as_deep_as_it_likes() -> None:
    """An effect of an effect of an effect goes with the outermost."""
    journal: list[str] = []

    def third(ctx: Context) -> Callable[[], None]:
        return lambda: journal.append("third")

    def second(ctx: Context) -> None:
        ctx.effect(third)
        ctx.effect(undo(journal, "second"))

    def first(ctx: Context) -> None:
        ctx.effect(second)
        ctx.effect(undo(journal, "first"))

    async with Context() as root:
        await root.effect(first)()
        assert journal == ["first", "second", "third"]


async def test_disposing_an_effect_early_removes_it_from_the_fiber() -> None:
    """The rest stays, and the fiber's teardown does not run it again."""
    journal: list[str] = []

    def plugin(ctx: Context) -> None:
        for name in "abc":
            effects.append(ctx.effect(undo(journal, name), label=name))

    effects: list[Effect] = []
    async with Context() as root:
        fiber = root.plugin(plugin)
        await effects[1]()
        assert [info.label for info in fiber.effects()] == ["a", "c"]
        await fiber.dispose()
        assert journal == ["b", "c", "a"]


async def test_an_inner_effect_may_go_before_its_outer() -> None:
    """Early disposal removes it from the effect that holds it."""
    journal: list[str] = []
    inner: list[Effect] = []

    def body(ctx: Context) -> None:
        inner.append(ctx.effect(undo(journal, "inner"), label="inner"))

    async with Context() as root:
        outer = root.effect(body, label="outer")
        await inner[0]()
        assert root.fiber.effects()[0].children == ()
        await outer()
        assert journal == ["inner"]


async def test_a_raising_body_leaves_nothing_and_reaches_the_caller() -> None:
    """L5 and L9: rolled back, and the error has a note with the effect's label and place."""
    journal: list[str] = []

    def body(ctx: Context) -> None:
        ctx.effect(undo(journal, "inner"))
        raise LookupError("planned")

    async with Context() as root:
        with pytest.raises(LookupError, match="planned") as caught:
            root.effect(body, label="loud")
        assert journal == ["inner"]
        assert root.fiber.effects() == []
        (note,) = caught.value.__notes__
        assert "root" in note
        assert "loud" in note
        assert __file__ in note


async def test_awaiting_an_async_effect_waits_for_its_set_up() -> None:
    """The effect is returned at once, and is itself what awaiting it gives."""
    journal: list[str] = []

    async def body(ctx: Context) -> Callable[[], None]:
        await anyio.lowlevel.checkpoint()
        journal.append("set up")
        return lambda: journal.append("undo")

    async with Context() as root:
        effect = root.effect(body)
        assert journal == []
        assert await effect is effect
        assert journal == ["set up"]
        await effect()
        assert journal == ["set up", "undo"]


async def test_awaiting_a_sync_effect_is_harmless() -> None:
    """A synchronous effect is set up already."""
    async with Context() as root:
        effect = root.effect(lambda: None)
        assert await effect is effect


async def test_an_async_set_up_that_raises_leaves_nothing() -> None:
    """The error reaches whoever awaits, after the roll-back is over."""
    journal: list[str] = []

    async def body(ctx: Context) -> AsyncIterator[Callable[[], object]]:
        async def slow() -> None:
            await anyio.lowlevel.checkpoint()
            journal.append("undone")

        yield slow
        await anyio.lowlevel.checkpoint()
        raise LookupError("planned")

    async with Context() as root:
        effect = root.effect(body)
        with pytest.raises(LookupError, match="planned"):
            await effect
        assert journal == ["undone"]
        assert root.fiber.effects() == []


async def test_what_an_async_body_registers_belongs_to_its_effect() -> None:
    """Ownership is found by the body, not by time: others register in between."""
    turn = anyio.Event()

    async def body(ctx: Context) -> None:
        await turn.wait()
        ctx.effect(lambda: None, label="inner")

    async with Context() as root:
        effect = root.effect(body, label="outer")
        root.effect(lambda: None, label="beside")
        turn.set()
        await effect
        outer, beside = root.fiber.effects()
        assert (outer.label, beside.label) == ("outer", "beside")
        assert [child.label for child in outer.children] == ["inner"]
        assert beside.children == ()


async def test_disposing_during_the_set_up_cancels_and_undoes_it() -> None:
    """The body is cancelled and awaited; what it had registered is taken back."""
    journal: list[str] = []

    async def body(ctx: Context) -> None:
        ctx.effect(undo(journal, "inner"))
        try:
            await anyio.sleep_forever()
        finally:
            journal.append("cancelled")

    async with Context() as root:
        effect = root.effect(body)
        await anyio.wait_all_tasks_blocked()
        await effect()
        assert journal == ["cancelled", "inner"]
        assert root.fiber.effects() == []


async def test_a_fiber_waits_for_the_set_up_it_cancels() -> None:
    """Disposing the fiber during an effect's set-up ends both."""
    journal: list[str] = []

    async def body(ctx: Context) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
            journal.append("cancelled")

    async with Context() as root:
        fiber = root.plugin(lambda ctx: ctx.effect(body) and None)
        await anyio.wait_all_tasks_blocked()
        await fiber.dispose()
        assert journal == ["cancelled"]
        assert fiber.state is FiberState.DISPOSED


async def test_every_step_runs_even_if_an_earlier_one_raised(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """L3: a teardown error is reported, with label and place, and never escapes."""
    journal: list[str] = []

    def fail() -> None:
        raise LookupError("planned")

    async def fail_later() -> None:
        await anyio.lowlevel.checkpoint()
        raise ValueError("planned too")

    def plugin(ctx: Context) -> None:
        ctx.effect(undo(journal, "first"))
        ctx.effect(lambda: fail, label="raises")
        ctx.effect(lambda: fail_later, label="raises later")
        ctx.effect(undo(journal, "last"))

    async with Context() as root:
        told: list[str] = []
        root.on("fiber/error", lambda fiber, error: told.append(f"{fiber.name}: {error}"))
        fiber = root.plugin(plugin)
        with caplog.at_level(logging.ERROR, "harness_core"):
            await fiber.dispose()
        assert journal == ["last", "first"]
        assert told == ["plugin: planned too", "plugin: planned"]
        messages = [record.getMessage() for record in caplog.records]
        assert "raises later registered at" in messages[0]
        assert __file__ in messages[0]


async def test_no_effect_on_a_closing_fiber() -> None:
    """L4: from the moment a fiber unloads, registrations raise; its teardown goes on."""
    caught: list[BaseException] = []
    journal: list[str] = []

    def plugin(ctx: Context) -> Callable[[], object]:
        ctx.effect(undo(journal, "earlier"))

        async def late() -> None:
            await anyio.lowlevel.checkpoint()
            try:
                ctx.effect(undo(journal, "late"))
            except InactiveFiberError as error:
                caught.append(error)

        return late

    async with Context() as root:
        fiber = root.plugin(plugin)
        await fiber.dispose()
        assert len(caught) == 1
        assert "unloading" in str(caught[0])
        assert journal == ["earlier"]
        assert fiber.effects() == []
