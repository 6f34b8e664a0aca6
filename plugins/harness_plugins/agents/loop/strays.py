"""Stray cancellations: raised by code that nobody has cancelled.

Code that awaits a task which somebody else has cancelled raises a cancellation, and so would all
that awaits it, up to the agent. Where code of plugins is run it becomes an error of that code.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import anyio

from harness_core.errors import HarnessError

__all__ = ["StrayCancellationError", "no_strays"]


class StrayCancellationError(HarnessError, RuntimeError):
    """Code raised a cancellation, and nobody has cancelled it."""


@contextmanager
def no_strays() -> Generator[None]:
    """Raise StrayCancellationError in place of a cancellation that nobody asked for."""
    try:
        yield
    except anyio.get_cancelled_exc_class() as error:
        if anyio.get_current_task().has_pending_cancellation():
            raise
        raise StrayCancellationError(
            "a cancellation was raised, and nobody has cancelled this: did it await a task that "
            "somebody else cancelled?"
        ) from error
