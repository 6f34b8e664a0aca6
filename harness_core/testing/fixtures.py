"""The fixtures of the pytest plugin. They import the kernel when a test first asks for them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest_asyncio

if TYPE_CHECKING:
    from ..kernel.context import Context

__all__ = ["app"]


@pytest_asyncio.fixture
async def app() -> AsyncIterator[Context]:
    """Give a live root context.

    After the test the tree is disposed; what then is left of it (fibers, listeners, tasks that
    nobody owns) fails the test.
    """
    from .host import TreeHost
    from .residue import ResidueError
    from .snapshot import observe

    host = TreeHost()
    before = observe(host.root)
    root = await host.start()
    try:
        yield root
    finally:
        await host.stop()
    left = observe(root).added_since(before)
    if left:
        raise ResidueError(left, "the test")
