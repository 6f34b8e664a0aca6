"""Moving a mounted fiber to another parent, and giving it other surroundings.

The fiber keeps everything it has registered, with its places.
"""

from __future__ import annotations

from collections.abc import Iterable

from .. import Context, Fiber, Service
from ..kernel.mount import Mount

__all__ = ["dispose_all", "mount_of", "move", "surround"]


def move(fiber: Fiber, above: Context) -> None:
    """Make a fiber, as it is, a child of the fiber of `above`."""
    if fiber.parent is not above.fiber:
        fiber.move(above.fiber)
        fiber.ctx.__dict__["parent"] = above


def surround(fiber: Fiber, above: Context) -> None:
    """Give a fiber that does not run the realms and intercepts of `above`."""
    own = fiber.ctx.__dict__
    for key in [key for key, value in own.items() if isinstance(value, Service)]:
        del own[key]  # services as they were seen in the old realms
    for key in ("parent", "tag", "realms", "_intercepts", "acts_for"):
        own[key] = above if key == "parent" else above.__dict__[key]


def mount_of(fiber: Fiber) -> Mount:
    """Return what a row's fiber runs."""
    mount = fiber.updater
    assert isinstance(mount, Mount)
    return mount


async def dispose_all(fibers: Iterable[Fiber]) -> None:
    """Dispose fibers, newest first, each over before the next begins."""
    for fiber in sorted(fibers, key=lambda fiber: fiber.place, reverse=True):
        await fiber.dispose()
