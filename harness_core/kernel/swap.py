"""Swap: put other plugins into mounted fibers, all of them or none, without a visible gap.

Everything that can fail without touching the old is done first. The rest happens under the gate
that makes new assemblies wait. Fibers keep their place, parent and config. Contract: laws L5, L8;
section 9, "Transactional".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import attrs

from ..errors import PluginError
from .completion import Completion
from .context import Context
from .fiber import Fiber
from .lifecycle import FiberState
from .mount import Mount, Running
from .plugin import read_plugin

__all__ = ["UNCHANGED", "Replacement", "swap"]

UNCHANGED: Any = object()
"""The config stays what it is; it is checked against the new plugin's `Config`."""


@attrs.frozen
class Replacement:
    """Another plugin, or another config, for a mounted fiber."""

    fiber: Fiber
    plugin: object
    config: Any = UNCHANGED


async def swap(root: Context, replacements: Iterable[Replacement]) -> None:
    """Replace the plugins of fibers in one transaction.

    Raises PluginError or ConfigError, with nothing touched, if a plugin or config will not do;
    and what a new body, or a consumer that loads again, raised, after the old plugins have been
    put back: their bodies have run again, and the tree is as before.
    """
    chosen = _outermost(replacements)
    prepared = [(item.fiber, _prepare(item)) for item in chosen]
    if not prepared:
        return
    swapping = _Swap(root, prepared)
    # In a task of the tree: the caller may be cancelled, or be code of a plugin that is swapped.
    root.kernel.tree.spawn(swapping.run)
    await swapping.over.wait()
    if swapping.error is not None:
        raise swapping.error


def _outermost(replacements: Iterable[Replacement]) -> list[Replacement]:
    """Leave out fibers below others: they are mounted anew by the new bodies above them."""
    chosen = {item.fiber: item for item in replacements if not item.fiber.is_ending}
    kept: list[Replacement] = []
    for fiber, item in chosen.items():
        above = fiber.parent
        while above is not None and above not in chosen:
            above = above.parent
        if above is None:
            kept.append(item)
    return sorted(kept, key=lambda item: item.fiber.place)


def _prepare(item: Replacement) -> Running:
    mount = item.fiber.updater
    if not isinstance(mount, Mount):
        raise PluginError(f"fiber {item.fiber.path} runs no plugin that could be replaced")
    spec = read_plugin(item.plugin)
    raw = mount.running.raw if item.config is UNCHANGED else item.config
    return Running(item.plugin, spec, raw, spec.structure(raw), None)


class _Swap:
    """One transaction. `order` holds the fibers oldest first, with what they will run."""

    def __init__(self, root: Context, order: Sequence[tuple[Fiber, Running]]) -> None:
        self.tree = root.kernel.tree
        self.swap = self.tree.gate.begin(*(fiber for fiber, _ in order))
        self.order = order
        self.before = [(fiber, _mount_of(fiber).running) for fiber, _ in order]
        self.over = Completion()
        self.error: BaseException | None = None

    async def run(self) -> None:
        """Swap, or put back; never raises."""
        try:
            self.error = await self._put(self.order)
            if self.error is not None:
                await self._put(self.before)
        except BaseException as error:
            self.error = error
        await self.swap.end().wait()
        self.over.finish()

    async def _put(self, order: Sequence[tuple[Fiber, Running]]) -> BaseException | None:
        """Unload newest first, load oldest first; return the first error of what was touched."""
        for fiber, _ in reversed(order):
            fiber.hold = True
            await fiber.start_reload().wait()
        for fiber, running in order:
            mount = _mount_of(fiber)
            mount.running = running
            mount.ctx.require(fiber, running.spec.inject)
            fiber.plugin = running.plugin
            fiber.hold = False
            self.tree.enqueue(fiber.refresh)
            await fiber.wait_quiet()
        await self.swap.settle()
        for owner in self.swap.touched:
            if isinstance(owner, Fiber) and owner.state is FiberState.FAILED:
                return owner.error
        return None


def _mount_of(fiber: Fiber) -> Mount:
    mount = fiber.updater
    assert isinstance(mount, Mount)
    return mount
