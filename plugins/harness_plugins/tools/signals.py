"""Signals that cancel one call: an anyio Event, or a cancel scope of whoever runs the turn."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeAlias

import anyio

from .execute import Execution
from .model import ToolResult

__all__ = ["Signal", "run_until"]

Signal: TypeAlias = anyio.CancelScope | anyio.Event

SIGNAL_PERIOD = 0.02
"""Seconds between two looks at a signal that is a cancel scope: anyio cannot be asked to tell."""


async def run_until(signal: Signal, execution: Execution) -> ToolResult:
    """Run a call that `signal` cancels."""
    if _is_signalled(signal):
        return execution.give_up()
    result: ToolResult | None = None

    async def watch() -> None:
        await _signalled(signal)
        inside.cancel()

    async with anyio.create_task_group() as tasks:
        with anyio.CancelScope() as inside:
            tasks.start_soon(watch)
            result = await execution.run()
        tasks.cancel_scope.cancel()
    return result or execution.cancelled()


def _is_signalled(signal: Signal) -> bool:
    return signal.is_set() if isinstance(signal, anyio.Event) else signal.cancel_called


def _signalled(signal: Signal) -> Awaitable[None]:
    return signal.wait() if isinstance(signal, anyio.Event) else _cancelled(signal)


async def _cancelled(signal: anyio.CancelScope) -> None:
    while not signal.cancel_called:  # noqa: ASYNC110, a scope has no event to wait for
        await anyio.sleep(SIGNAL_PERIOD)
