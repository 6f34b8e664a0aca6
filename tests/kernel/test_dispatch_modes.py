"""`parallel`, `serial` and `bail`: who runs, who is waited for, what comes back."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

from harness_core import Context
from harness_core.errors import EventModeError

pytestmark = pytest.mark.asyncio


async def test_parallel_runs_all_at_once_and_waits_for_all() -> None:
    """Each is started before any has to end; sync ones mix in."""
    journal: list[str] = []
    started = anyio.Event()

    async def waits() -> None:
        journal.append("waits")
        await started.wait()
        journal.append("was released")

    async def releases() -> None:
        journal.append("releases")
        started.set()

    async with Context() as root:
        root.on("ping", waits)
        root.on("ping", lambda: journal.append("sync"))
        root.on("ping", releases)
        with anyio.fail_after(5):
            assert await root.parallel("ping") is None  # type: ignore[func-returns-value]
        assert sorted(journal) == ["releases", "sync", "waits", "was released"]
        assert journal[-1] == "was released"


async def test_parallel_raises_a_group_of_every_failure() -> None:
    """Nobody is stopped by anybody's failure; sync and async failures alike, in the group."""
    journal: list[str] = []

    def fail() -> None:
        raise LookupError("one")

    async def fail_later() -> None:
        await anyio.lowlevel.checkpoint()
        raise ValueError("two")

    async def survive() -> None:
        await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()
        journal.append("survived")

    async with Context() as root:
        for listener in (fail, fail_later, survive):
            root.on("ping", listener)
        with pytest.raises(ExceptionGroup, match="ping") as caught:
            await root.parallel("ping")
        assert sorted(str(error) for error in caught.value.exceptions) == ["one", "two"]
        for error in caught.value.exceptions:
            assert "in listener" in error.__notes__[0]
        assert journal == ["survived"]


@pytest.mark.parametrize("result", [0, "", "yes", (), True], ids=repr)
async def test_serial_stops_at_the_first_result_that_is_not_none_or_false(result: object) -> None:
    """Zero and the empty string are results; the rest is not called."""
    journal: list[str] = []

    async def answer() -> object:
        await anyio.lowlevel.checkpoint()
        return result

    async with Context() as root:
        root.on("ask", lambda: journal.append("none"))
        root.on("ask", lambda: False)
        root.on("ask", answer)
        root.on("ask", lambda: journal.append("never"))
        assert await root.serial("ask") is result
        assert journal == ["none"]


async def test_serial_runs_one_after_the_other() -> None:
    """An async listener ends before the next begins; nothing decided is None."""
    journal: list[str] = []

    async def slow(word: str) -> None:
        journal.append(f"slow {word}")
        await anyio.lowlevel.checkpoint()
        journal.append("slow ends")

    async with Context() as root:
        root.on("ask", slow)
        root.on("ask", lambda word: journal.append("sync") or False)
        assert await root.serial("ask", "w") is None
        assert journal == ["slow w", "slow ends", "sync"]


async def test_serial_raises_what_a_listener_raised_with_its_owner() -> None:
    """The rest is not called."""
    journal: list[str] = []

    async def fail() -> None:
        raise LookupError("planned")

    async with Context() as root:
        root.on("ask", fail)
        root.on("ask", lambda: journal.append("after"))
        with pytest.raises(LookupError, match="planned") as caught:
            await root.serial("ask")
        assert "fail" in caught.value.__notes__[0]
        assert journal == []


async def test_bail_is_the_synchronous_twin() -> None:
    """First result that is not None or False, without awaiting."""
    journal: list[str] = []
    async with Context() as root:
        root.on("ask", lambda word: None)
        root.on("ask", lambda word: False)
        root.on("ask", lambda word: f"heard {word}")
        root.on("ask", lambda word: journal.append("never"))
        assert root.bail("ask", "w") == "heard w"
        assert journal == []


async def test_bail_refuses_an_asynchronous_listener() -> None:
    """It names it, and says what to do; no coroutine is left unawaited."""

    async def slow() -> str:
        return "x"

    async with Context() as root:
        root.on("ask", slow)
        with pytest.raises(EventModeError, match=r"slow.*serial"):
            root.bail("ask")


async def test_bail_raises_what_a_listener_raised() -> None:
    """With a note that names the listener."""

    def fail() -> None:
        raise LookupError("planned")

    async with Context() as root:
        root.on("ask", fail)
        with pytest.raises(LookupError) as caught:
            root.bail("ask")
        assert "fail" in caught.value.__notes__[0]


@pytest.mark.parametrize("mode", ["serial", "bail"])
async def test_a_listener_disposed_by_an_earlier_one_is_not_called(mode: str) -> None:
    """The dispatch skips it."""
    async with Context() as root:

        def first() -> None:
            second()

        root.on("ask", first)
        second = root.on("ask", lambda: "second")
        root.on("ask", lambda: "third")
        outcome = root.bail("ask") if mode == "bail" else await root.serial("ask")
        assert outcome == "third"


async def test_a_listener_disposed_while_serial_waits_is_not_called() -> None:
    """Also when it happens in between, from elsewhere."""
    go = anyio.Event()
    results: list[object] = []

    async def wait() -> None:
        await go.wait()

    async with Context() as root:
        root.on("ask", wait)
        fiber = root.plugin(lambda ctx: ctx.on("ask", lambda: "gone") and None)

        async def ask() -> None:
            results.append(await root.serial("ask"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            await fiber.dispose()
            root.on("ask", lambda: "new")
            go.set()
        assert results == [None]
