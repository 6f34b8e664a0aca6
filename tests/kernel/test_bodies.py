"""What a body may hand back: every form is undone at teardown, anything else is refused."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import TracebackType
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from harness_core import Context, FiberState
from harness_core.errors import PluginError

pytestmark = pytest.mark.asyncio


async def undone(body: Callable[..., Any], journal: list[str]) -> list[str]:
    """Mount, note that it is active, dispose; return what was written."""
    async with Context() as root:
        fiber = await root.plugin(body)
        assert fiber.state is FiberState.ACTIVE
        journal.append("active")
        await fiber.dispose()
        journal.append("disposed")
        assert root.fiber.effects() == []
    return journal


async def test_nothing() -> None:
    """A body may return nothing."""
    journal: list[str] = []
    assert await undone(lambda ctx: journal.append("body"), journal) == [
        "body",
        "active",
        "disposed",
    ]


async def test_a_disposer() -> None:
    """A callable is called once at teardown."""
    journal: list[str] = []

    def body(ctx: Context) -> Callable[[], None]:
        return lambda: journal.append("undo")

    assert await undone(body, journal) == ["active", "undo", "disposed"]


async def test_a_disposer_that_returns_an_awaitable() -> None:
    """What a disposer returns is awaited if it is awaitable."""
    journal: list[str] = []

    async def close() -> None:
        journal.append("closing")
        await anyio.lowlevel.checkpoint()
        journal.append("closed")

    def body(ctx: Context) -> Callable[[], Awaitable[None]]:
        return close

    assert await undone(body, journal) == ["active", "closing", "closed", "disposed"]


async def test_a_disposer_that_returns_something_else() -> None:
    """What is not awaitable is ignored."""
    journal: list[str] = []

    def body(ctx: Context) -> Callable[[], int]:
        return lambda: journal.append("undo") or 7

    assert await undone(body, journal) == ["active", "undo", "disposed"]


async def test_an_async_body_may_return_a_disposer() -> None:
    """The awaited result of an async body follows the same rules."""
    journal: list[str] = []

    async def body(ctx: Context) -> Callable[[], None]:
        await anyio.lowlevel.checkpoint()
        return lambda: journal.append("undo")

    assert await undone(body, journal) == ["active", "undo", "disposed"]


class Manager:
    """A context manager that writes down what happens to it."""

    def __init__(self, journal: list[str]) -> None:
        self.journal = journal

    def __enter__(self) -> Manager:
        self.journal.append("enter")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.journal.append(f"exit {kind}")


class AsyncManager:
    """An asynchronous one."""

    def __init__(self, journal: list[str]) -> None:
        self.journal = journal

    async def __aenter__(self) -> AsyncManager:
        await anyio.lowlevel.checkpoint()
        self.journal.append("enter")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await anyio.lowlevel.checkpoint()
        self.journal.append(f"exit {kind}")


async def test_a_context_manager_is_entered_now_and_left_at_teardown() -> None:
    """Entered while the plugin loads, left without an exception."""
    journal: list[str] = []
    assert await undone(lambda ctx: Manager(journal), journal) == [
        "enter",
        "active",
        "exit None",
        "disposed",
    ]


async def test_a_generator_context_manager_is_no_disposer() -> None:
    """What `contextlib.contextmanager` makes is callable too, and is entered all the same."""
    journal: list[str] = []

    @contextmanager
    def held() -> Iterator[None]:
        journal.append("enter")
        yield
        journal.append("exit")

    assert await undone(lambda ctx: held(), journal) == ["enter", "active", "exit", "disposed"]


async def test_an_async_context_manager_is_entered_before_the_fiber_is_active() -> None:
    """The load waits for `__aenter__`, the disposal for `__aexit__`."""
    journal: list[str] = []
    assert await undone(lambda ctx: AsyncManager(journal), journal) == [
        "enter",
        "active",
        "exit None",
        "disposed",
    ]


async def test_an_async_generator_context_manager() -> None:
    """What `contextlib.asynccontextmanager` makes works, also from an async body."""
    journal: list[str] = []

    @asynccontextmanager
    async def held() -> AsyncIterator[None]:
        journal.append("enter")
        yield
        journal.append("exit")

    async def body(ctx: Context) -> Any:
        return held()

    assert await undone(body, journal) == ["enter", "active", "exit", "disposed"]


async def test_a_task_group_may_be_held_by_a_body() -> None:
    """The task that enters an async context manager is the task that leaves it."""
    journal: list[str] = []

    @asynccontextmanager
    async def workers() -> AsyncIterator[None]:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.sleep_forever)
            yield
            tasks.cancel_scope.cancel()
        journal.append("workers gone")

    assert await undone(lambda ctx: workers(), journal) == ["active", "workers gone", "disposed"]


async def test_a_generator_yields_disposers_that_run_in_reverse() -> None:
    """Each disposer is registered as it is yielded; the body runs to its end while loading."""
    journal: list[str] = []

    def body(ctx: Context) -> Iterator[Callable[[], None] | None]:
        journal.append("one")
        yield lambda: journal.append("undo one")
        yield None
        journal.append("two")
        yield lambda: journal.append("undo two")
        journal.append("end of body")

    assert await undone(body, journal) == [
        "one",
        "two",
        "end of body",
        "active",
        "undo two",
        "undo one",
        "disposed",
    ]


async def test_an_async_generator_yields_disposers() -> None:
    """The same, with awaits between."""
    journal: list[str] = []

    async def body(ctx: Context) -> AsyncIterator[Callable[[], object]]:
        await anyio.lowlevel.checkpoint()
        yield lambda: journal.append("undo one")

        async def slow() -> None:
            await anyio.lowlevel.checkpoint()
            journal.append("undo two")

        await anyio.lowlevel.checkpoint()
        yield slow

    assert await undone(body, journal) == ["active", "undo two", "undo one", "disposed"]


async def test_a_generator_that_raises_undoes_what_it_has_yielded() -> None:
    """All or nothing: disposers yielded before the error run (L5)."""
    journal: list[str] = []

    def body(ctx: Context) -> Iterator[Callable[[], None]]:
        yield lambda: journal.append("undo one")
        raise LookupError("planned")

    async with Context() as root:
        fiber = root.plugin(body)
        with pytest.raises(LookupError, match="planned"):
            await fiber
        assert journal == ["undo one"]
        assert fiber.state is FiberState.FAILED


async def test_an_effect_of_its_own_is_a_fine_result() -> None:
    """A body that ends with `return ctx.effect(...)` undoes that effect once."""
    journal: list[str] = []

    def body(ctx: Context) -> object:
        return ctx.effect(lambda: lambda: journal.append("undo"))

    assert await undone(body, journal) == ["active", "undo", "disposed"]


@pytest.mark.parametrize("wrong", [5, "text", [], {}, b"", 0, ""], ids=repr)
async def test_any_other_result_is_a_plugin_error(wrong: object) -> None:
    """It says what came and what was expected; what the body had registered is taken back."""
    journal: list[str] = []

    def body(ctx: Context) -> object:
        ctx.effect(lambda: lambda: journal.append("undo"))
        return wrong

    async with Context() as root:
        fiber = root.plugin(body)
        with pytest.raises(PluginError) as caught:
            await fiber
        text = str(caught.value)
        assert repr(wrong) in text
        assert type(wrong).__name__ in text
        assert "expected nothing, a disposer" in text
        assert "context manager" in text
        assert "generator" in text
        assert fiber.state is FiberState.FAILED
        assert journal == ["undo"]


async def test_a_wrong_result_of_an_async_body_is_a_plugin_error() -> None:
    """Awaited results are checked like others."""

    async def body(ctx: Context) -> int:
        return 5

    async with Context() as root:
        with pytest.raises(PluginError, match="5"):
            await root.plugin(body)


async def test_a_wrong_yield_is_a_plugin_error() -> None:
    """A generator that yields something else: the error says what, earlier ones are undone."""
    journal: list[str] = []

    def body(ctx: Context) -> Iterator[object]:
        yield lambda: journal.append("undo")
        yield 5

    async with Context() as root:
        with pytest.raises(PluginError, match=r"yielded 5 \(int\): expected a disposer"):
            await root.plugin(body)
        assert journal == ["undo"]


async def test_a_wrong_yield_of_an_async_generator_is_a_plugin_error() -> None:
    """The same for asynchronous generators."""
    journal: list[str] = []

    async def body(ctx: Context) -> AsyncIterator[object]:
        yield lambda: journal.append("undo")
        yield "text"

    async with Context() as root:
        with pytest.raises(PluginError, match="yielded 'text'"):
            await root.plugin(body)
        assert journal == ["undo"]
