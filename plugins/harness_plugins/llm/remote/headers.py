"""Numbers in the headers of a response: how long to wait, how much is left."""

from __future__ import annotations

import datetime
import email.utils
import math
import re
from collections.abc import Mapping
from typing import Any

__all__ = ["count_of", "retry_after", "seconds_of", "seconds_until"]

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


def count_of(value: Any) -> int | None:
    """Return a count, given as a number or as text; None for what is none."""
    try:
        count = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return count if count >= 0 else None


def seconds_of(text: str | None) -> float | None:
    """Return a span such as `6m0s`, `20ms` or `1.5`, in seconds; None for what is none."""
    if not text:
        return None
    parts = _PART.findall(text)
    if parts and "".join(number + unit for number, unit in parts) == text:
        return sum(float(number) * _UNITS[unit] for number, unit in parts)
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def seconds_until(headers: Mapping[str, str], name: str) -> float | None:
    """Return the seconds until the moment in a header, by the clock of the server."""
    moment = _moment(headers.get(name))
    if moment is None:
        return None
    now = _moment(headers.get("date")) or datetime.datetime.now(datetime.UTC)
    return max(0.0, (moment - now).total_seconds())


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return how many seconds the provider wants to be left alone, if it says so."""
    milliseconds = seconds_of(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    seconds = seconds_of(headers.get("retry-after"))
    return seconds if seconds is not None else seconds_until(headers, "retry-after")


def _moment(text: str | None) -> datetime.datetime | None:
    """Return the moment in a text, which is an RFC 3339 one or the date of a mail."""
    if not text:
        return None
    for read in (datetime.datetime.fromisoformat, email.utils.parsedate_to_datetime):
        try:
            moment = read(text)
        except (TypeError, ValueError):
            continue
        return moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)
    return None
