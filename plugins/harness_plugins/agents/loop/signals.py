"""Signals that end a turn from outside: an anyio Event that is set, or a cancel scope.

A cancel scope of whoever asks for the turn cancels it anyway; as a signal, any other one does.
"""

from __future__ import annotations

from typing import TypeAlias

import anyio

__all__ = ["Signal", "check_signal", "is_signalled", "wait_signalled"]

Signal: TypeAlias = anyio.CancelScope | anyio.Event

PERIOD = 0.02
"""Seconds between two looks at a cancel scope: anyio cannot be asked to tell."""


def check_signal(signal: object) -> Signal | None:
    """Return a signal; raise TypeError for anything else."""
    if signal is None or isinstance(signal, Signal):
        return signal
    raise TypeError(f"a signal is an anyio Event or CancelScope, got {signal!r}")


def is_signalled(signal: Signal) -> bool:
    """Whether the signal is given."""
    return signal.is_set() if isinstance(signal, anyio.Event) else signal.cancel_called


async def wait_signalled(signal: Signal) -> None:
    """Wait until the signal is given."""
    if isinstance(signal, anyio.Event):
        await signal.wait()
        return
    while not signal.cancel_called:  # noqa: ASYNC110, a scope has no event to wait for
        await anyio.sleep(PERIOD)
