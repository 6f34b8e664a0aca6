"""`time_context`: what time it is, and how long ago the last message was, as runtime context.

    - name: time_context
      config:
        enabled: true            # false: nothing is registered
        zone: Europe/Berlin      # a name of the IANA database; default: the machine's zone
        granularity: hour        # day, hour, quarter (of an hour) or minute
        elapsed: true            # the time since the last message
        order: 90

A snapshot of the runtime context is written to the history when its text has changed. So time is
told no finer than it has to be: with `hour` there is at most one new snapshot an hour for the
time's sake, and it stands last, so that all before it stays as it was. The text is a function of
the cell of the grid (this hour) and of the last message; it says nothing finer.

The last message is the field `last_message_at` of the assembly: a datetime with its zone, or
None. Where the field is missing, nothing is said about it. If a service `wall_clock` is provided
(see `api`), it is asked for the time instead of the machine.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import attrs

from harness_core import Context
from harness_core.prompt import AssembleContext, SystemPrompt

from .api import WALL_CLOCK
from .wording import Granularity, say
from .zone import find_zone, local_zone

__all__ = ["Config", "apply", "inject", "name"]

name = "time_context"
inject = ["system_prompt"]


def _check_zone(_: object, __: object, zone: str | None) -> None:
    if zone is not None:
        find_zone(zone)


@attrs.frozen
class Config:
    """Which clocks to read, and how finely. No `zone` means that of the machine."""

    enabled: bool = True
    zone: str | None = attrs.field(default=None, validator=_check_zone)
    granularity: Granularity = "hour"
    elapsed: bool = True
    order: float = 90


def apply(ctx: Context, config: Config) -> None:
    """Register the context `time`."""
    if not config.enabled:
        return
    zone = find_zone(config.zone) if config.zone is not None else local_zone()

    def time(context: AssembleContext) -> str:
        clock = ctx.get(WALL_CLOCK)
        now = _with_zone("the wall clock", clock()) if clock is not None else datetime.now(UTC)
        last = getattr(context, "last_message_at", None) if config.elapsed else None
        if last is not None:
            last = _with_zone("last_message_at", last)
        return say(now, zone, config.granularity, last)

    ctx[SystemPrompt].context("time", time, order=config.order, literal=True, optional=True)


def _with_zone(what: str, moment: Any) -> datetime:
    if not isinstance(moment, datetime) or moment.utcoffset() is None:
        raise ValueError(f"{what} is {moment!r}: expected a datetime with its zone")
    return moment
