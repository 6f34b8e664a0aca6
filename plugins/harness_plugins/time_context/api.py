"""What others may use of `time_context`: the clock that it reads, if one is provided."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

__all__ = ["WALL_CLOCK", "WallClock"]

WallClock = Callable[[], datetime]

WALL_CLOCK = "wall_clock"
"""The key of an optional service: a callable that returns the time now, with its zone.

Without one the clock of the machine is read. `ctx.provide(WALL_CLOCK, lambda: moment)` makes
the time of a test, or of a replay, stand where it should.
"""
