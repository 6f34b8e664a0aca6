"""History: what a log says the conversation is. A projection; nothing here is remembered.

The same log gives the same history, in this process or the next one.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import attrs

from harness_plugins.llm.api import Message, ToolRequest, message_from

from .errors import SessionError
from .events import LogEvent
from .exchanges import find_exchanges, with_results_behind

__all__ = ["GONE", "SUMMARY", "History", "HistoryEntry", "project"]

GONE = "The runtime context has been withdrawn: nothing of earlier snapshots holds any more."
SUMMARY = "Summary of the conversation up to here, which it replaces:"


@attrs.frozen
class HistoryEntry:
    """One visible message, and the event it comes from."""

    seq: int
    kind: str
    message: Message
    at: datetime
    is_pinned: bool = attrs.field(default=False, kw_only=True)
    snapshot: str | None = attrs.field(default=None, kw_only=True)
    """The text of a snapshot, which is empty if there is no runtime context any more."""
    covers: tuple[int, int] | None = attrs.field(default=None, kw_only=True)
    """The numbers that a summary stands for, from and to."""

    @property
    def first(self) -> int:
        """The first number that it stands for."""
        return self.covers[0] if self.covers is not None else self.seq

    @property
    def last(self) -> int:
        """The last number that it stands for."""
        return self.covers[1] if self.covers is not None else self.seq


@attrs.frozen
class History:
    """The visible conversation, in order."""

    entries: tuple[HistoryEntry, ...] = ()

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages, for a model: results directly behind the requests that they answer.

        What somebody wrote while tools ran stands between the two in the log, and behind them here.
        """
        return with_results_behind([entry.message for entry in self.entries])

    @property
    def snapshot(self) -> str | None:
        """The text of the last visible runtime-context snapshot: None if none is visible.

        Empty if the last one said that there is no runtime context any more.
        """
        for entry in reversed(self.entries):
            if entry.snapshot is not None:
                return entry.snapshot
        return None

    @property
    def last_message_at(self) -> datetime | None:
        """When the last message was written, snapshots and summaries apart; None if never."""
        times = [entry.at for entry in self.entries if entry.kind == "message"]
        return times[-1] if times else None

    @property
    def unanswered(self) -> tuple[ToolRequest, ...]:
        """The tool requests that have no result: whoever ran them was interrupted."""
        found = find_exchanges([entry.message for entry in self.entries])
        return tuple(one.request for one in found if one.answered is None)

    def span(self, first: int, last: int) -> slice:
        """Return the positions of what stands for the numbers from `first` to `last`.

        A summary has a late number of its own and an early place. Whatever stands in between
        belongs to the span.
        """
        inside = [
            position
            for position, entry in enumerate(self.entries)
            if entry.first <= last and entry.last >= first
        ]
        return slice(inside[0], inside[-1] + 1) if inside else slice(0, 0)

    def after(self, event: LogEvent) -> History:
        """Return the history with one more event; raise SessionError if it cannot be read."""
        changed = _after(self.entries, event)
        return self if changed is None else History(changed)


def project(events: Iterable[LogEvent]) -> History:
    """Return the history that a log describes; raise SessionError for an event that is none."""
    entries: list[HistoryEntry] = []
    for event in events:
        if event.kind == "compaction":
            entries = list(_after(tuple(entries), event) or entries)
        elif (entry := _entry(event)) is not None:
            entries.append(entry)
    return History(tuple(entries))


def _after(entries: tuple[HistoryEntry, ...], event: LogEvent) -> tuple[HistoryEntry, ...] | None:
    """Return the entries with one more event; None if it does not show."""
    if event.kind == "compaction":
        try:
            return _compacted(entries, event)
        except (KeyError, TypeError, ValueError) as error:
            raise _unreadable(event, error) from error
    entry = _entry(event)
    return None if entry is None else (*entries, entry)


def _entry(event: LogEvent) -> HistoryEntry | None:
    try:
        if event.kind == "message":
            message = message_from(event.data["message"])
            pinned = event.data.get("pinned") is True
            return HistoryEntry(event.seq, event.kind, message, event.at, is_pinned=pinned)
        if event.kind == "snapshot":
            text = event.data["text"]
            if not isinstance(text, str):
                raise TypeError(f"its text is {text!r}")
            message = Message("user", text or GONE)
            return HistoryEntry(event.seq, event.kind, message, event.at, snapshot=text)
    except (KeyError, TypeError, ValueError) as error:
        raise _unreadable(event, error) from error
    return None


def _compacted(
    entries: tuple[HistoryEntry, ...], event: LogEvent
) -> tuple[HistoryEntry, ...] | None:
    first, last = int(event.data["first"]), int(event.data["last"])
    span = History(entries).span(first, last)
    replaced = entries[span]
    message = Message("user", f"{SUMMARY}\n\n{event.data['summary']}")
    if not replaced:
        return None
    covers = (
        min(first, *(one.first for one in replaced)),
        max(last, *(one.last for one in replaced)),
    )
    summary = HistoryEntry(event.seq, event.kind, message, event.at, covers=covers)
    numbers = {int(seq) for seq in event.data.get("kept", ())}
    kept = (one for one in replaced if one.seq in numbers)
    return (*entries[: span.start], summary, *kept, *entries[span.stop :])


def _unreadable(event: LogEvent, error: Exception) -> SessionError:
    what = f"it has no {error}" if isinstance(error, KeyError) else str(error)
    return SessionError(f"event {event.seq} of kind {event.kind!r} cannot be read: {what}")
