"""How the context `time` says what time it is: as coarse as asked, and the same in between.

Time is cut to a grid: days, hours, quarters or minutes of the zone's clocks. Everything that is
said follows from the cell that a moment is in, so it changes when the next cell begins, and at
no other time. What has passed since a message is measured up to the beginning of the cell: the
difference is too small by less than a cell, which is why it says "at least".
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Literal

from .zone import Zone

__all__ = ["Granularity", "say"]

Granularity = Literal["day", "hour", "quarter", "minute"]

_MINUTES: dict[Granularity, int] = {"hour": 60, "quarter": 15, "minute": 1}
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_UNITS = (
    ("day", timedelta(days=1)),
    ("hour", timedelta(hours=1)),
    ("minute", timedelta(minutes=1)),
)


def say(now: datetime, zone: Zone, granularity: Granularity, last: datetime | None) -> str:
    """Return the text for the moment `now`, and for the last message at `last`; both have zones."""
    local = zone.at(now)
    day = f"{_WEEKDAYS[local.weekday()]}, {local:%Y-%m-%d}"
    if granularity == "day":
        line = f"Current date: {day}{_place(zone.name)}"
        begin = zone.start_of(local.date())
    else:
        length = _MINUTES[granularity]
        into = timedelta(
            minutes=local.minute % length, seconds=local.second, microseconds=local.microsecond
        )
        line = f"Current time: {day}, {_cell(local - into, length)}{_place(zone.name, local)}"
        begin = now - into
    if last is None:
        return line
    passed = begin.astimezone(UTC) - last.astimezone(UTC)
    return line + _elapsed(passed, granularity)


def _cell(begin: datetime, minutes: int) -> str:
    if minutes == 1:
        return f"{begin:%H:%M}"
    end = begin.hour * 60 + begin.minute + minutes  # 24:00 is the end of this day
    return f"between {begin:%H:%M} and {end // 60:02}:{end % 60:02}"


def _place(name: str | None, local: datetime | None = None) -> str:
    """Return the zone in brackets; with its distance to UTC, unless that may change in the cell."""
    offset = local.utcoffset() if local is not None else None
    shown = _offset(offset) if offset is not None else ""
    parts = [part for part in (name, shown) if part]
    return f" ({', '.join(dict.fromkeys(parts))})" if parts else ""


def _offset(offset: timedelta) -> str:
    if not offset:
        return "UTC"
    minutes, seconds = divmod(abs(offset) // timedelta(seconds=1), 60)
    sign = "-" if offset < timedelta() else "+"
    shown = f"UTC{sign}{minutes // 60:02}:{minutes % 60:02}"
    return f"{shown}:{seconds:02}" if seconds else shown


def _elapsed(passed: timedelta, granularity: Granularity) -> str:
    """Return how long it is since the last message, in units no finer than the grid."""
    finest = {"day": 1, "hour": 2}.get(granularity, 3)
    for number, (unit, length) in enumerate(_UNITS[:finest]):
        count = passed // length
        # One day is better said in hours; one of the finest unit cannot be said in another.
        if count >= 2 or (count == 1 and number == finest - 1):
            return f"\nLast message: at least {count} {unit}{'s' if count > 1 else ''} ago"
    return ""
