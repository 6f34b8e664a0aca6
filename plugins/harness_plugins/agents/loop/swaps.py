"""Swaps: while a plugin is between two versions its services are not there, and will be."""

from __future__ import annotations

from harness_core import Context

__all__ = ["wait_swapped"]


async def wait_swapped(ctx: Context) -> None:
    """Wait until no plugin is between two versions; raise SwapTimeoutError if that takes long."""
    gate = ctx.kernel.tree.gate
    if gate.swaps:
        await gate.wait_open()
