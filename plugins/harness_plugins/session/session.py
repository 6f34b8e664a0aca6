"""Session: one conversation's log, open for writing, and the history that it amounts to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import anyio
import anyio.lowlevel

from harness_plugins.llm.api import Message, as_data

from .encode import plain
from .errors import SessionError
from .events import Draft, LogEvent
from .exchanges import find_exchanges
from .history import History, project
from .journal import Journal, MemoryJournal

__all__ = ["Session"]


def _now() -> datetime:
    return datetime.now(UTC)


class Session:
    """An open session. What `append` returned is durable; nothing is ever changed.

    Appends are serialised. A cancelled append has either written all of its events, and knows
    them, or none. After one that failed, the session says what the log says.
    """

    def __init__(
        self,
        id: str,
        journal: Journal | None = None,
        events: Sequence[LogEvent] = (),
        *,
        clock: Callable[[], datetime] = _now,
    ) -> None:
        self.id = id
        self.is_open = True
        self._journal = journal if journal is not None else MemoryJournal(events)
        self._events = list(events)
        self._history = project(events)
        self._clock = clock
        self._lock = anyio.Lock()
        self._is_behind = False
        """Whether the log may hold more than is known here: an append was cut off."""

    @property
    def events(self) -> tuple[LogEvent, ...]:
        """The log so far."""
        return tuple(self._events)

    @property
    def history(self) -> History:
        """What the log amounts to."""
        return self._history

    async def append(self, kind: str, /, **data: Any) -> LogEvent:
        """Write one event; it is durable when this returns.

        `data` is what JSON can hold; it is copied. Raises SessionError if it is not, if it could
        not be read back, and if it cannot be written.
        """
        (event,) = await self.append_all([Draft(kind, data)])
        return event

    async def add(self, message: Message, /, **notes: Any) -> LogEvent:
        """Write a message, with notes of the caller's (source, usage, model). See `append`.

        With the note `pinned=True` it survives compactions.
        """
        return await self.append("message", message=as_data(message), **notes)

    async def append_all(self, drafts: Sequence[Draft]) -> tuple[LogEvent, ...]:
        """Write several events, all or none. See `append`."""
        async with self._lock:
            if not self.is_open:
                raise SessionError(f'session "{self.id}" is closed: open it again to write')
            if self._is_behind:
                await self._catch_up()
            events = self._numbered(drafts)
            history = self._history
            for event in events:  # before it is written: what cannot be read back is refused
                history = self._checked(history, event)
            if events and await self._write(events):
                self._events += events
                self._history = history
        await anyio.lowlevel.checkpoint()
        return events

    def _numbered(self, drafts: Sequence[Draft]) -> tuple[LogEvent, ...]:
        seq = self._last
        at = self._clock().astimezone(UTC)
        events: list[LogEvent] = []
        for number, draft in enumerate(drafts, seq + 1):
            try:
                kind, data = plain({"kind": draft.kind})["kind"], plain(draft.data)
            except (TypeError, ValueError) as error:
                raise SessionError(
                    f'session "{self.id}": an event of kind {draft.kind!r} is no JSON data: {error}'
                ) from error
            events.append(LogEvent(number, kind, data, at))
        return tuple(events)

    @property
    def _last(self) -> int:
        return self._events[-1].seq if self._events else 0

    def _checked(self, before: History, event: LogEvent) -> History:
        """Return the history with an event; raise SessionError for one that would do harm."""
        try:
            after = before.after(event)
        except SessionError as error:
            raise SessionError(f'session "{self.id}": not written: {error}') from error
        if event.kind == "compaction":
            problem = _harm(before, after)
            if problem:
                raise SessionError(f'session "{self.id}": not compacted: {problem}')
        return after

    async def _write(self, events: tuple[LogEvent, ...]) -> bool:
        """Write events; return whether they still have to be noted here."""
        self._is_behind = True
        try:
            # Shielded: an append that is cut off halfway leaves nobody knowing what is in the log.
            # What comes through the shield all the same leaves the session behind its log.
            with anyio.CancelScope(shield=True):
                await self._journal.append(events)
        except Exception as error:
            try:
                with anyio.CancelScope(shield=True):
                    await self._catch_up()
            except Exception:
                raise error from None  # before the next append it is tried again
            if tuple(self._events[-len(events) :]) != events:
                raise
            return False  # it was written all the same
        self._is_behind = False
        return True

    async def _catch_up(self) -> None:
        """Read what the log holds beyond what is known here."""
        last = self._last
        more = [event for event in await self._journal.load() if event.seq > last]
        history = self._history
        for event in more:
            history = history.after(event)
        self._events += more
        self._history = history
        self._is_behind = False

    def export(self) -> Iterator[str]:
        """Yield the log as lines of JSON."""
        return (event.to_json() for event in self.events)

    async def close(self) -> None:
        """Let go of the session, after an append that is under way; later calls only wait."""
        with anyio.CancelScope(shield=True):
            async with self._lock:
                if self.is_open:
                    self.is_open = False
                    await self._journal.close()

    def __repr__(self) -> str:
        state = "open" if self.is_open else "closed"
        return f"<Session {self.id}: {len(self._events)} events, {state}>"


def _harm(before: History, after: History) -> str:
    """Return what is wrong with a compaction, or nothing."""
    if after is before:
        return "nothing of its range is visible"
    visible = {entry.seq for entry in after.entries}
    for one in find_exchanges([entry.message for entry in before.entries]):
        if one.answered is not None:
            asked, answered = before.entries[one.asked], before.entries[one.answered]
            if (asked.seq in visible) != (answered.seq in visible):
                return f'the request "{one.request.id}" would be parted from its result'
    return ""
