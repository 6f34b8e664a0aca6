"""`waterfall`: middleware around an innermost call, in the caller's own task."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from harness_core import Context
from harness_core.errors import PluginError

pytestmark = pytest.mark.asyncio

Next = Callable[[], Awaitable[Any]]


async def test_listeners_wrap_the_inner_call_outermost_first() -> None:
    """Each gets `(*args, next)`; its return value is authoritative."""
    journal: list[str] = []

    def layer(name: str) -> Callable[..., Awaitable[str]]:
        async def listener(word: str, next: Next) -> str:
            journal.append(f"{name} in {word}")
            result = await next()
            journal.append(f"{name} out")
            return f"{name}({result})"

        return listener

    def inner(word: str) -> str:
        journal.append("inner")
        return word

    async with Context() as root:
        root.on("wrap", layer("a"))
        root.on("wrap", layer("b"))
        assert await root.waterfall("wrap", "x", inner=inner) == "a(b(x))"
        assert journal == ["a in x", "b in x", "inner", "b out", "a out"]


async def test_inner_may_be_sync_or_async_and_take_the_arguments_or_none() -> None:
    """Without listeners its result is the result; without it, the first argument."""

    async def later() -> str:
        await anyio.lowlevel.checkpoint()
        return "later"

    async with Context() as root:
        assert await root.waterfall("wrap", 1, 2, inner=lambda a, b: a + b) == 3
        assert await root.waterfall("wrap", 1, inner=lambda: "none") == "none"
        assert await root.waterfall("wrap", inner=later) == "later"
        assert await root.waterfall("wrap", "first", "second") == "first"


async def test_not_calling_next_short_circuits() -> None:
    """Neither later listeners nor the inner call run."""
    journal: list[str] = []

    def stop(next: Next) -> str:
        return "stopped"

    async with Context() as root:
        root.on("wrap", stop)
        root.on("wrap", lambda rest: journal.append("later"))
        assert await root.waterfall("wrap", inner=lambda: journal.append("inner")) == "stopped"
        assert journal == []


async def test_prepend_stands_outside_a_short_circuit() -> None:
    """A listener registered later with `prepend` runs all the same."""
    journal: list[str] = []

    async def outside(next: Next) -> str:
        journal.append("outside")
        return f"[{await next()}]"

    async with Context() as root:
        root.on("wrap", lambda rest: "stopped")
        root.on("wrap", outside, prepend=True)
        assert await root.waterfall("wrap") == "[stopped]"
        assert journal == ["outside"]


async def test_sync_and_async_listeners_mix() -> None:
    """A synchronous one may hand on what `next()` returns."""

    async def wrap(next: Next) -> str:
        return f"async({await next()})"

    async with Context() as root:
        root.on("wrap", lambda rest: rest())
        root.on("wrap", wrap)
        root.on("wrap", lambda rest: rest())
        assert await root.waterfall("wrap", inner=lambda: "x") == "async(x)"


@pytest.mark.parametrize("asynchronous", [True, False])
async def test_a_listener_that_returns_none_gets_an_error_naming_it(asynchronous: bool) -> None:
    """A forgotten `return` does not turn the result into None."""

    async def forgets(next: Next) -> None:
        await next()

    def forgets_too(next: Next) -> None: ...

    listener = forgets if asynchronous else forgets_too

    def plugin(ctx: Context) -> None:
        ctx.on("wrap", listener)

    async with Context() as root:
        root.plugin(plugin)
        with pytest.raises(PluginError, match="returned None") as caught:
            await root.waterfall("wrap", inner=lambda: "x")
        assert listener.__name__ in str(caught.value)
        assert 'plugin "plugin"' in str(caught.value)
        assert "next()" in str(caught.value)


async def test_calling_next_twice_gets_an_error_naming_the_listener() -> None:
    """The inner call runs once."""
    journal: list[str] = []

    async def greedy(next: Next) -> object:
        await next()
        return await next()

    async with Context() as root:
        root.on("wrap", greedy)
        with pytest.raises(PluginError, match=r"greedy.*twice"):
            await root.waterfall("wrap", inner=lambda: journal.append("inner") or "x")
        assert journal == ["inner"]


async def test_a_falsy_result_is_a_result() -> None:
    """Only None is refused."""
    async with Context() as root:
        root.on("wrap", lambda rest: 0)
        assert await root.waterfall("wrap") == 0


async def test_an_error_passes_through_the_layers_around_it() -> None:
    """An outer listener may catch it; the note names the innermost to blame, once."""
    journal: list[str] = []

    async def around(next: Next) -> object:
        try:
            return await next()
        except LookupError:
            journal.append("seen")
            raise

    def fail(next: Next) -> object:
        raise LookupError("planned")

    async with Context() as root:
        root.on("wrap", around)
        root.on("wrap", fail)
        with pytest.raises(LookupError) as caught:
            await root.waterfall("wrap")
        assert journal == ["seen"]
        (note,) = caught.value.__notes__
        assert "fail" in note
        assert "<locals>.around" not in note


async def test_everything_runs_in_the_callers_task() -> None:
    """Task identity is kept, so cancel scopes and timeouts around `next()` work."""
    tasks: list[object] = []

    async def layer(next: Next) -> object:
        tasks.append(asyncio.current_task())
        return await next()

    def inner() -> str:
        tasks.append(asyncio.current_task())
        return "x"

    async with Context() as root:
        root.on("wrap", layer)
        root.on("wrap", lambda rest: rest())
        root.on("wrap", layer)
        await root.waterfall("wrap", inner=inner)
        assert tasks == [asyncio.current_task()] * 3


async def test_context_variables_flow_in_and_out() -> None:
    """What a layer sets is seen inside, and what is set inside is seen outside."""
    word: contextvars.ContextVar[str] = contextvars.ContextVar("word", default="unset")
    seen: list[str] = []

    async def layer(next: Next) -> object:
        token = word.set("by layer")
        result = await next()
        seen.append(word.get())
        word.reset(token)
        return result

    def inner() -> str:
        seen.append(word.get())
        word.set("by inner")
        return "x"

    async with Context() as root:
        root.on("wrap", layer)
        await root.waterfall("wrap", inner=inner)
        assert seen == ["by layer", "by inner"]
        assert word.get() == "unset"


async def test_a_timeout_around_next_works() -> None:
    """A layer may give the rest a deadline."""

    async def deadline(next: Next) -> object:
        with anyio.move_on_after(0.01):
            return await next()
        return "too late"

    async with Context() as root:
        root.on("wrap", deadline)
        assert await root.waterfall("wrap", inner=anyio.sleep_forever) == "too late"


async def test_the_listeners_are_those_of_the_beginning_minus_the_disposed() -> None:
    """Registered meanwhile: not called. Disposed meanwhile: skipped."""
    journal: list[str] = []

    def layer(name: str) -> Callable[[Next], Awaitable[object]]:
        async def listener(next: Next) -> object:
            journal.append(name)
            return await next()

        return listener

    async with Context() as root:

        async def first(next: Next) -> object:
            journal.append("first")
            await second()
            root.on("wrap", layer("new"))
            return await next()

        root.on("wrap", first)
        second = root.on("wrap", layer("second"))
        root.on("wrap", layer("third"))
        assert await root.waterfall("wrap", inner=lambda: "x") == "x"
        assert journal == ["first", "third"]


async def test_a_long_waterfall_costs_no_recursion_per_skipped_listener() -> None:
    """A thousand disposed listeners are stepped over."""
    async with Context() as root:
        effects = []

        async def first(next: Next) -> object:
            for effect in effects:
                effect()
            return await next()

        root.on("wrap", first)
        effects += [root.on("wrap", lambda rest: rest()) for _ in range(5000)]
        assert await root.waterfall("wrap", inner=lambda: "x") == "x"


async def test_an_error_whose_notes_are_no_texts_is_raised_as_it_is() -> None:
    """Blaming a listener does not trip over what a plugin's error carries."""
    error = ValueError("no luck")
    error.__notes__ = [3]

    async def listener(next: Next) -> object:
        raise error

    async with Context() as root:
        root.on("work", listener)
        with pytest.raises(ValueError) as caught:  # noqa: PT011, pytest reads notes as texts
            await root.waterfall("work", inner=lambda: None)
        assert caught.value is error
        assert "in listener " in str(error.__notes__[-1])
