"""Waiting until a tree has come to rest."""

from __future__ import annotations

from collections.abc import Iterator

import anyio

from .. import Fiber, FiberState

__all__ = ["settle", "walk_fibers"]

_BUSY = frozenset({FiberState.LOADING, FiberState.UNLOADING})


def walk_fibers(fiber: Fiber) -> Iterator[Fiber]:
    """Yield a fiber and everything mounted below it, parents first, oldest first."""
    yield fiber
    for child in fiber.children:
        yield from walk_fibers(child)


async def settle(fiber: Fiber, seconds: float) -> list[Fiber]:
    """Wait until nothing below `fiber` loads or unloads; return what still does after `seconds`."""
    with anyio.move_on_after(seconds):
        while busy := _busy(fiber):
            await busy[0].wait_quiet()
    return _busy(fiber)


def _busy(fiber: Fiber) -> list[Fiber]:
    return [one for one in walk_fibers(fiber) if one.state in _BUSY and one.parent is not None]
