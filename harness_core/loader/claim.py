"""Claims: fibers on the way to a new place, waiting for the group that will hold them."""

from __future__ import annotations

import attrs

from .. import Context, Fiber
from ..kernel.mount import Running
from .manifest import Entry
from .mounted import MountedEntry
from .moving import mount_of, move, surround
from .wrapped import derived

__all__ = ["Claim"]


@attrs.frozen(eq=False)
class Claim:
    """A fiber that a row takes over. With `running`, it has been unloaded and will run that."""

    fiber: Fiber
    running: Running | None = None

    def take(self, ctx: Context, entry: Entry, before: MountedEntry) -> MountedEntry:
        """Let the fiber stand below `ctx`, and run; return what its row then is."""
        fiber, running = self.fiber, self.running
        above = derived(ctx, entry)
        move(fiber, above)
        if running is not None:
            put(fiber, running, above)
        return before.of(entry)


def put(fiber: Fiber, running: Running, above: Context) -> None:
    """Let a fiber that is held run something, with the surroundings of `above`."""
    surround(fiber, above)
    mount_of(fiber).put(fiber, running)
    fiber.hold = False
    fiber.tree.enqueue(fiber.refresh)
