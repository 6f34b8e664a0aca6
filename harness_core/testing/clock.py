"""An event loop whose time jumps: a test of a ten-second deadline takes no time and never races.

Time stands still while anything can run. When everything waits, it jumps to the next timer. Work
in threads and on sockets takes no virtual time, so a timer may overtake it: use the loop for code
that waits for timers and for other tasks, not for real input and output.

The only module of the kit, beside `host`, that needs asyncio: a loop cannot be written without it.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio

__all__ = ["VirtualClockLoop", "run_with_virtual_clock"]

T = TypeVar("T")


class _JumpingSelector(selectors.DefaultSelector):
    """Instead of sleeping until the next timer, adds the time to `now`."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        ready = super().select(0)
        if not ready:
            self.now += timeout
        return ready


class VirtualClockLoop(asyncio.SelectorEventLoop):
    """An asyncio event loop on virtual time, which begins at 0.

    anyio.run(main, backend_options={"loop_factory": VirtualClockLoop})
    """

    def __init__(self) -> None:
        self._clock = _JumpingSelector()
        super().__init__(self._clock)

    def time(self) -> float:
        """Return the seconds of virtual time that have passed."""
        return self._clock.now


def run_with_virtual_clock(fn: Callable[..., Awaitable[T]], *args: Any) -> T:
    """Run `await fn(*args)` in a new event loop on virtual time, and return its result."""
    return anyio.run(fn, *args, backend_options={"loop_factory": VirtualClockLoop})
