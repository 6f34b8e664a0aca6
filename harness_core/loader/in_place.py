"""Changing what fibers run while they are up, and back: part of a transaction of rows.

A plugin takes another config itself (`ctx.on_update`), or its next life takes over from the present
one (`overlap`), with other code too.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping

from .. import Context, Fiber
from ..kernel.mount import Running
from ..kernel.succession import Show
from ..kernel.swap import beside_each_other
from .moving import mount_of

__all__ = ["InPlace"]


class InPlace:
    """The fibers of one transaction that need not go down. `show` is told whose code runs next."""

    def __init__(self, base: Context, show: Show) -> None:
        self.base, self.show = base, show
        self.before: dict[Fiber, Running] = {}
        """What fibers ran that have changed, or should have."""

    async def change(
        self, coming: Mapping[Fiber, Running], going: Iterable[Fiber]
    ) -> AsyncIterator[tuple[Fiber, Exception]]:
        """Let those that can run what is `coming`; yield what fails. Others are `going` down."""
        for fiber in self._able(coming, going):
            self.before[fiber] = mount_of(fiber).running
            try:
                if not await self._change(fiber, coming[fiber]):
                    del self.before[fiber]
            except Exception as error:
                yield fiber, error

    async def back(self, held: Iterable[Fiber]) -> AsyncIterator[tuple[Fiber, Running]]:
        """Let all but those `held` run what they ran before; yield those that have to go down."""
        for fiber, running in reversed(self.before.items()):
            if fiber.is_ending or fiber in held or mount_of(fiber).running is running:
                continue
            try:
                is_back = await self._change(fiber, running)
            except Exception:  # it goes back by a restart, then
                is_back = False
            if not is_back:
                yield fiber, running

    def _able(self, coming: Mapping[Fiber, Running], going: Iterable[Fiber]) -> list[Fiber]:
        accepting = {fiber for fiber, running in coming.items() if _accepts(fiber, running)}
        others = [one for one in coming.items() if one[0] not in accepting]
        beside = dict(beside_each_other(self.base, others, going))
        return [fiber for fiber in coming if fiber in accepting or fiber in beside]

    async def _change(self, fiber: Fiber, running: Running) -> bool:
        """Let a fiber that is up run something else; return whether that is possible."""
        if _accepts(fiber, running):
            await fiber.update(running.raw)
            return True
        return await mount_of(fiber).succeed(fiber, running, self.show)


def _accepts(fiber: Fiber, running: Running) -> bool:
    """Whether what runs takes the config of `running` itself."""
    mount = mount_of(fiber)
    return bool(mount.handlers) and mount.running.plugin is running.plugin
