"""Rows of the tables, and the records that they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy.engine import Row

from .encode import as_mapping, from_text, to_text
from .events import LogEvent, as_time, time_text
from .info import SessionInfo

__all__ = ["as_row", "count_messages", "event_from", "info_from", "inside"]


def count_messages(log: Sequence[LogEvent]) -> int:
    """Return how many events are messages."""
    return sum(event.kind == "message" for event in log)


def as_row(id: str, event: LogEvent) -> dict[str, Any]:
    """Return the values of an event's row."""
    return {
        "session": id,
        "seq": event.seq,
        "kind": inside(event.kind),
        "at": time_text(event.at),
        "data": to_text(dict(event.data)),
    }


def event_from(row: Row[Any]) -> LogEvent:
    """Return the event of a row; raise ValueError or TypeError for one that is none."""
    data = as_mapping(from_text(row.data))
    return LogEvent(row.seq, _outside(row.kind) or "", data, as_time(row.at))


def info_from(row: Row[Any]) -> SessionInfo:
    """Return what a row of the sessions says."""
    return SessionInfo(
        row.id,
        _outside(row.agent),
        _outside(row.title),
        as_time(row.created_at),
        as_time(row.last_at) if row.last_at is not None else None,
        row.events,
        row.messages,
    )


def inside(text: str | None) -> str | None:
    """Return what stands between the quotes of a JSON string: a text that any database takes."""
    return None if text is None else to_text(text)[1:-1]


def _outside(text: str | None) -> str | None:
    return None if text is None else str(from_text(f'"{text}"'))
