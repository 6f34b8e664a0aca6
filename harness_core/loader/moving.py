"""Moving a mounted fiber to another parent, and giving it other surroundings.

The fiber keeps everything it has registered, with its places.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from .. import Context, Fiber, Service
from ..kernel.mount import Mount

__all__ = ["mount_of", "move", "surround"]


def move(fiber: Fiber, above: Context) -> None:
    """Make a fiber, as it is, a child of the fiber of `above`."""
    parent, mounting = fiber.parent, fiber._mounting
    if parent is above.fiber or parent is None or mounting is None:
        return
    place, places = mounting.place, fiber._places
    # Taken up first: the new parent may be closed, and then nothing has happened.
    above.fiber.adopt(fiber)
    mounting.forget()
    parent._children.pop(fiber, None)
    fiber.parent = above.fiber
    fiber.take_up(places)
    if fiber._mounting is not None:
        fiber._mounting.place = place
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
