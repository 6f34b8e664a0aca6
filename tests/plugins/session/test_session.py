"""Session: what is appended, what is refused, and what a failure or a cancellation leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import anyio
import pytest
from harness_plugins.session.api import (
    Draft,
    LogEvent,
    MemoryJournal,
    Session,
    SessionError,
    project,
)

from .words import assistant, filled, user

pytestmark = pytest.mark.asyncio


class Slow(MemoryJournal):
    """A journal that can be stopped before it writes and after it has written."""

    def __init__(self) -> None:
        super().__init__()
        self.started = anyio.Event()
        self.may_write = anyio.Event()
        self.may_return = anyio.Event()
        self.closed = False

    async def append(self, events: Sequence[LogEvent]) -> None:
        assert not self.closed
        self.started.set()
        await self.may_write.wait()
        await super().append(events)
        await self.may_return.wait()

    async def close(self) -> None:
        self.closed = True


class Failing(MemoryJournal):
    """A journal that fails, having written or not, as often as it is told."""

    def __init__(self, *, writes: bool, failures: int = 1, unreadable: int = 0) -> None:
        super().__init__()
        self.writes = writes
        self.failures = failures
        self.unreadable = unreadable

    async def append(self, events: Sequence[LogEvent]) -> None:
        if not self.failures:
            return await super().append(events)
        self.failures -= 1
        if self.writes:
            await super().append(events)
        raise SessionError("the connection broke")

    async def load(self) -> Sequence[LogEvent]:
        if self.unreadable:
            self.unreadable -= 1
            raise SessionError("no connection")
        return await super().load()


async def test_events_are_numbered_and_timed_in_utc() -> None:
    """From 1, all of one append at the same time."""
    at = datetime(2026, 1, 31, 12, tzinfo=timezone(timedelta(hours=2)))
    session = Session("s", clock=lambda: at)
    await session.append("mine", x=1)
    events = await session.append_all([Draft("mine", {"x": 2}), Draft("mine")])
    assert [one.seq for one in session.events] == [1, 2, 3]
    assert events == session.events[1:]
    assert [one.at.isoformat() for one in events] == ["2026-01-31T10:00:00+00:00"] * 2
    assert events[0].at.tzinfo is UTC


async def test_a_session_goes_on_where_its_log_ends() -> None:
    """Also one that is given events."""
    first = await filled(user("1"), assistant("2"))
    second = Session("s", events=first.events)
    event = await second.add(user("3"))
    assert event.seq == 3
    assert len(first.events) == 2
    assert project(second.events) == second.history


async def test_what_is_kept_is_what_will_be_read() -> None:
    """A copy as JSON has it: later changes of the caller's objects change nothing."""
    notes: dict[str, Any] = {"pair": (1, 2), "text": "\ud83d\ude00 \ud800", "deep": {"list": [1]}}
    session = Session("s")
    event = await session.append("mine", **notes)
    notes["deep"]["list"].append(2)
    assert event.data == {"pair": [1, 2], "text": "😀 \ud800", "deep": {"list": [1]}}
    assert LogEvent.from_json(event.to_json()) == event
    assert [LogEvent.from_json(line) for line in session.export()] == [event]


@pytest.mark.parametrize("value", [{1, 2}, float("nan"), float("inf"), b"x", object()])
async def test_what_json_cannot_hold_is_refused(value: object) -> None:
    """And so is what contains itself, or a number that cannot be read back."""
    session = Session("s")
    with pytest.raises(SessionError, match="session \"s\": an event of kind 'mine' is no JSON"):
        await session.append("mine", x=value)
    loop: list[Any] = []
    loop.append(loop)
    for one in (loop, 10**5000):
        with pytest.raises(SessionError, match="no JSON"):
            await session.append("mine", x=one)
    assert session.events == ()


async def test_what_could_not_be_read_back_is_not_written() -> None:
    """All of one append, or nothing."""
    session = Session("s")
    with pytest.raises(SessionError, match="not written: event 2 of kind 'message'"):
        await session.append_all([Draft("mine"), Draft("message", {"message": {}})])
    assert session.events == ()
    assert await session.append_all([]) == ()


async def test_appends_are_serialised() -> None:
    """Whoever came first is first."""
    session = Session("s")
    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(session.append_all, [Draft("mine", {"x": number}), Draft("mine")])
    assert [one.seq for one in session.events] == list(range(1, 41))
    assert [one.data["x"] for one in session.events[::2]] == list(range(20))


async def test_an_append_that_is_cancelled_while_it_writes_is_written_and_known() -> None:
    """The caller hears of the cancellation afterwards."""
    journal = Slow()
    session = Session("s", journal)
    scope = anyio.CancelScope()

    async def append() -> None:
        with scope:
            await session.add(user())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(append)
        await journal.started.wait()
        scope.cancel()
        await anyio.lowlevel.checkpoint()
        before = session.events
        journal.may_write.set()
        journal.may_return.set()
    assert scope.cancelled_caught
    assert before == ()
    assert session.events == await journal.load()
    assert len(session.events) == 1


async def test_an_append_that_is_cancelled_while_it_waits_is_not_written() -> None:
    """Nothing of it."""
    journal = Slow()
    session = Session("s", journal)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(session.add, user("first"))
        await journal.started.wait()
        with anyio.move_on_after(0.01) as scope:
            await session.add(user("second"))
        assert scope.cancelled_caught
        journal.may_write.set()
        journal.may_return.set()
    assert [one.text for one in session.history.messages] == ["first"]


@pytest.mark.parametrize("has_written", [False, True])
async def test_a_cancellation_that_comes_through_the_shield_loses_nothing(
    has_written: bool,
) -> None:
    """As that of an asyncio task does. The next append finds out what is in the log."""
    journal = Slow()
    session = Session("s", journal)
    task = asyncio.create_task(session.add(user("first")))
    await journal.started.wait()
    if has_written:
        journal.may_write.set()
        await anyio.wait_all_tasks_blocked()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    journal.may_write.set()
    journal.may_return.set()
    event = await session.add(user("second"))
    assert event.seq == 1 + has_written
    assert session.events == await journal.load()
    assert session.history == project(session.events)


async def test_a_failed_append_leaves_the_session_as_the_log_is() -> None:
    """Nothing was written: the next one takes its number."""
    journal = Failing(writes=False)
    session = Session("s", journal)
    with pytest.raises(SessionError, match="the connection broke"):
        await session.add(user("lost"))
    assert session.events == ()
    event = await session.add(user("kept"))
    assert event.seq == 1
    assert session.events == await journal.load()


async def test_an_append_that_was_written_after_all_has_succeeded() -> None:
    """A connection that breaks while it commits says nothing of what it did."""
    journal = Failing(writes=True)
    session = Session("s", journal)
    event = await session.add(user("kept"))
    assert session.events == (event,) == await journal.load()
    assert [one.text for one in session.history.messages] == ["kept"]


@pytest.mark.parametrize("writes", [False, True])
async def test_where_nobody_knows_the_next_append_asks_first(writes: bool) -> None:
    """And fails as long as there is no answer: it would take a number that is taken."""
    journal = Failing(writes=writes, unreadable=2)
    session = Session("s", journal)
    with pytest.raises(SessionError, match="the connection broke"):
        await session.add(user("first"))
    with pytest.raises(SessionError, match="no connection"):
        await session.add(user("second"))
    event = await session.add(user("third"))
    assert event.seq == 1 + writes
    assert session.events == await journal.load()


async def test_closing_waits_for_an_append_and_refuses_later_ones() -> None:
    """However often it is called."""
    journal = Slow()
    session = Session("s", journal)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(session.add, user())
        await journal.started.wait()
        tasks.start_soon(session.close)
        tasks.start_soon(session.close)
        await anyio.wait_all_tasks_blocked()
        was_closed = journal.closed
        journal.may_write.set()
        journal.may_return.set()
    assert (was_closed, journal.closed) == (False, True)
    assert len(session.events) == 1
    assert repr(session) == "<Session s: 1 events, closed>"
    with pytest.raises(SessionError, match='session "s" is closed: open it again'):
        await session.add(user())
