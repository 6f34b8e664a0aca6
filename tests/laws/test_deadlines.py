"""L6: disposal always ends, whatever the code does that it waits for; in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given
from hypothesis import strategies as st

from harness_core import Context, Fiber, FiberState
from harness_core.errors import SelfDisposalError
from harness_core.testing import assert_no_residue, run_with_virtual_clock

from .machine import laws

GRACE = 2.0


async def endless() -> None:
    await anyio.sleep_forever()


async def deaf() -> None:
    """Swallow every cancellation."""
    while True:
        try:
            await anyio.sleep(1000)
        except asyncio.CancelledError:
            pass


async def shielded() -> None:
    with anyio.CancelScope(shield=True):
        await anyio.sleep_forever()


async def late() -> None:
    """Leave when cancelled, but slowly."""
    try:
        await anyio.sleep_forever()
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(GRACE / 2)


async def good() -> None:
    await anyio.sleep(GRACE / 2)


MANNERS: dict[str, tuple[Callable[[], Awaitable[None]], bool]] = {
    "endless": (endless, True),
    "deaf": (deaf, True),
    "shielded": (shielded, True),
    "late": (late, True),
    "good": (good, False),
}
PLACES = ("disposer", "effect disposer", "task", "body", "manager", "effect set-up", "child")


def bad_plugin(place: str, manner: Callable[[], Awaitable[None]], journal: list[str]) -> Any:
    """Return a plugin that misbehaves in one place, between two well-behaved effects."""

    @asynccontextmanager
    async def manager() -> Any:
        yield
        await manner()

    async def effect_body() -> None:
        await manner()

    def child(_: Context) -> Any:
        return manner

    async def plugin(ctx: Context) -> Any:
        ctx.effect(lambda: lambda: journal.append("first"), label="first")
        if place == "body":
            await manner()
        elif place == "task":
            ctx.start_soon(manner)
        elif place == "manager":
            await ctx.enter(manager())
        elif place == "effect set-up":
            ctx.effect(effect_body, label="bad")
        elif place == "effect disposer":
            ctx.effect(lambda: manner, label="bad")
        elif place == "child":
            await ctx.plugin(child)
        ctx.effect(lambda: lambda: journal.append("last"), label="last")
        return manner if place == "disposer" else None

    plugin.grace = GRACE  # type: ignore[attr-defined]
    return plugin


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("manner", MANNERS)
def test_disposal_ends(place: str, manner: str) -> None:
    """A step that takes longer than its grace is cancelled, reported and passed over."""
    code, is_slow = MANNERS[manner]
    # What is cancelled at once, and leaves at once or in its grace, takes no whole grace.
    cancelled_at_once = place in ("task", "body", "effect set-up")
    passed_over = is_slow and not (cancelled_at_once and manner in ("endless", "late"))

    async def main() -> None:
        async with Context() as root:
            journal: list[str] = []
            reports: list[str] = []
            root.on("fiber/error", lambda _, error: reports.append(str(error)))
            with assert_no_residue(root):
                fiber = root.plugin(bad_plugin(place, code, journal))
                await checkpoint()
                await anyio.sleep(0.1)
                began = anyio.current_time()
                await fiber.dispose()
                took = anyio.current_time() - began
                assert fiber.state is FiberState.DISPOSED
                # The grace, and the moment that cancelled code gets to leave; never twice.
                assert took <= GRACE + 2.1
            assert journal == (["first"] if place == "body" else ["last", "first"])
            overdue = [one for one in reports if "grace of 2 s" in one]
            if manner == "deaf" and cancelled_at_once:
                return  # closed by force before its grace is over, or passed over after it
            assert len(overdue) == (1 if passed_over else 0), reports
            if overdue:
                assert f"{__file__}:" in overdue[0], "the report names the source line"

    run_with_virtual_clock(main)


@laws(examples=50)
@given(
    callers=st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), max_size=6),
    steps=st.integers(1, 4),
)
def test_callers_share_one_teardown(callers: list[tuple[float, float]], steps: int) -> None:
    """Callers come and give up at any time; the teardown runs once and to its end."""

    async def main() -> None:
        async with Context() as root, assert_no_residue(root):
            journal: list[int] = []

            def step(ctx: Context, number: int) -> None:
                async def undo() -> None:
                    await anyio.sleep(0.2)
                    journal.append(number)

                ctx.effect(lambda: undo)

            def plugin(ctx: Context) -> None:
                for number in range(steps):
                    step(ctx, number)

            fiber = await root.plugin(plugin)

            async def caller(comes: float, patience: float) -> None:
                await anyio.sleep(comes)
                with anyio.move_on_after(patience):
                    await fiber.dispose()
                    assert journal == list(range(steps))[::-1]

            async with anyio.create_task_group() as tasks:
                for comes, patience in callers:
                    tasks.start_soon(caller, comes, patience)
            await fiber.dispose()
            assert journal == list(range(steps))[::-1]
            assert fiber.dispose() is fiber.dispose()
            await fiber.dispose()

    run_with_virtual_clock(main)


@pytest.mark.parametrize("place", ["body", "task", "disposer", "child body", "listener", "effect"])
def test_waiting_for_its_own_end_is_an_error(place: str) -> None:
    """A fiber that awaits its own disposal is told so, in no time, and can still be disposed."""

    async def main() -> None:
        async with Context() as root, assert_no_residue(root):
            errors: list[SelfDisposalError] = []

            async def end(fiber: Fiber) -> None:
                try:
                    await fiber.dispose()
                except SelfDisposalError as error:
                    errors.append(error)
                    raise

            async def plugin(ctx: Context) -> Any:
                own = ctx.fiber
                if place == "body":
                    await end(own)
                elif place == "task":
                    ctx.start_soon(end, own)
                elif place == "child body":

                    async def child(_: Context) -> None:
                        await end(own)

                    await ctx.plugin(child)
                elif place == "listener":
                    ctx.on("law", lambda: end(own))
                elif place == "effect":
                    await ctx.effect(lambda: end(own))
                return (lambda: end(own)) if place == "disposer" else None

            fiber = root.plugin(plugin)
            await anyio.sleep(0.1)
            root.emit("law")
            await anyio.sleep(0.1)
            began = anyio.current_time()
            await fiber.dispose()
            assert anyio.current_time() - began < 1
            assert len(errors) == 1
            assert "cannot end" in str(errors[0])

    run_with_virtual_clock(main)
