"""Zones: one of the IANA database by its name, or that of the machine."""

from __future__ import annotations

import os
from datetime import date, datetime, time, tzinfo
from difflib import get_close_matches
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

import attrs

__all__ = ["Zone", "find_zone", "local_zone"]


@attrs.frozen
class Zone:
    """A zone and its name. Without `rules` it is the machine's, whose rules the system has."""

    name: str | None
    rules: tzinfo | None

    def at(self, moment: datetime) -> datetime:
        """Return a moment as the clocks of the zone show it."""
        return moment.astimezone(self.rules)

    def start_of(self, day: date) -> datetime:
        """Return the first moment of a day, also where clocks are changed at midnight."""
        midnight = datetime.combine(day, time())
        if self.rules is None:
            return midnight.astimezone()
        return midnight.replace(tzinfo=self.rules)


def find_zone(name: str) -> Zone:
    """Return the zone of that name; raise ValueError if there is none, with what was meant."""
    try:
        return Zone(name, ZoneInfo(name))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        pass  # unknown, no name at all ("../x"), or a directory of the database ("Europe")
    known = available_timezones()
    if not known:
        raise ValueError(
            f"zone {name!r} cannot be looked up: there is no database of time zones here. "
            "Install the package tzdata"
        )
    close = get_close_matches(name, sorted(known), n=1) or [
        each for each in sorted(known) if each.lower().endswith(f"/{name.lower()}")
    ]
    meant = f"did you mean {close[0]!r}?" if close else "expected one such as 'Europe/Berlin'"
    raise ValueError(f"zone {name!r} is unknown, {meant}")


def local_zone() -> Zone:
    """Return the zone of the machine, with its name in the database if that can be found out."""
    for name in (os.environ.get("TZ", "").removeprefix(":"), _linked_name()):
        if name:
            try:
                return Zone(name, ZoneInfo(name))
            except (ZoneInfoNotFoundError, ValueError, OSError):
                break  # a rule written out, such as CET-1CEST, or a file: the system knows it
    return Zone(None, None)


def _linked_name() -> str:
    """Return what /etc/localtime links to, as a name: Europe/Berlin."""
    _, found, name = os.path.realpath("/etc/localtime").partition("/zoneinfo/")
    return name if found else ""
