"""Succession: the next life of a plugin begins beside the present one, and takes over from it.

Reading order: `Succession.begin`, `announce`, and then either `end` or `abort`. Until `announce`
nobody outside has noticed anything; until `end` the present life has not been touched, so the way
back needs no plugin code.

While both live, names do not collide: an entry of the same name, a service of the same key, stand
behind those of the present life until it is gone. What the present life provides serves everybody
but the next life itself, and the present life alone hears events; from the hand-over on it is the
other way round.

Contract: section 9, "Transactional" (`overlap`); laws L5 and L8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import PluginError
from .completion import Completion
from .fiber import Fiber
from .gate import SETTLE_TIMEOUT, Swap
from .life import Life, present_places
from .lifecycle import FiberState
from .services import Binding

if TYPE_CHECKING:
    from .mount import Mount, Running

__all__ = ["Show", "Succession", "failure_in", "late"]

Show = Callable[[object], None]
"""Told which plugin's code runs next: that of a life that begins, or of one that ends."""


class Succession:
    """Several plugins whose next lives take over together, providers before their users.

    `lost` holds those that are not alive any more, since a service they use went meanwhile or is
    not there for the next life: they have to be replaced in the ordinary way.
    """

    def __init__(self, order: Sequence[tuple[Fiber, Running]], swap: Swap, show: Show) -> None:
        self.order = order
        self.swap = swap
        self.show = show
        self.lost: list[tuple[Fiber, Running]] = []
        self._turns: list[_Turn] = []

    async def begin(self) -> BaseException | None:
        """Start the next lives; return the first error, with everything still to be aborted."""
        for fiber, _ in self.order:
            mount: Mount = fiber.updater
            while mount.succession is not None:
                await mount.succession.wait()
            mount.succession = Completion()
            fiber.hold = True
        for fiber, running in self.order:
            turn = _Turn(fiber, running)
            if fiber.is_ending or not turn.can_begin():
                self.lost.append((fiber, running))
                continue
            self._turns.append(turn)
            self.show(running.plugin)
            turn.begin()
            await self.swap.settle()
            if turn.is_lost:
                self._turns.remove(turn)
                self.lost.append((fiber, running))
                continue
            error = failure_in(self.swap) or late(turn.next)
            if error is not None:
                return error
            turn.hand_over()
        return None

    def announce(self) -> None:
        """Let those who use what the lives provide turn to the next ones."""
        for turn in self._turns:
            turn.announce(self.swap)
        self._release()

    async def end(self) -> None:
        """Tear the former lives down, users before providers."""
        for turn in reversed(self._turns):
            self.show(turn.before.plugin)
            await turn.elder.end().wait()
            turn.next.elder = None
        self._finish()

    async def abort(self) -> None:
        """Let the former lives go on as if nothing had happened, and tear the next ones down."""
        for turn in reversed(self._turns):
            turn.hand_back()
        for turn in reversed(self._turns):
            await turn.next.end().wait()
            self.show(turn.before.plugin)
            await turn.revive()
        self._release()
        self._finish()

    def _release(self) -> None:
        lost = {fiber for fiber, _ in self.lost}
        for fiber, _ in self.order:
            if fiber not in lost:
                fiber.hold = False
                fiber.tree.enqueue(fiber.refresh)

    def _finish(self) -> None:
        for fiber, _ in self.order:
            mount: Mount | None = fiber.updater
            if mount is not None and mount.succession is not None:
                mount.succession.finish()
                mount.succession = None


class _Turn:
    """One plugin whose next life takes over."""

    def __init__(self, fiber: Fiber, running: Running) -> None:
        self.fiber, self.running = fiber, running
        self.mount: Mount = fiber.updater
        self.before = self.mount.running
        self.needs: Any = None
        self.handed: list[Binding] = []
        self.users: list[Fiber] = []
        """Those who use what was handed over, and have not been told yet."""
        self.is_over = False
        """Whether the next life is the present one now."""
        self.elder: Life
        self.next: Life

    def can_begin(self) -> bool:
        """Whether there is a life to take over from, and all that the next one needs."""
        present = self.mount.life
        if present is None or self.fiber.state is not FiberState.ACTIVE:
            return False
        self.elder = present
        self.needs = self.mount.ctx.needs(self.fiber, self.running.spec.inject)
        if self.needs is not None and not self.needs.take():
            self.needs.unwatch()
            return False
        return True

    def begin(self) -> None:
        """Start the next life, at the places of the present one."""
        life = self.next = self.mount.new_life(self.running, self.needs)
        life.elder = self.elder
        self.fiber.tree.silent[life] = []
        self.fiber.adopt(life)
        life.take_up(present_places(self.elder))
        life.start()

    @property
    def is_lost(self) -> bool:
        """Whether the fiber was unloaded meanwhile, its lives with it."""
        return self.next.state is FiberState.DISPOSED or self.fiber.state is not FiberState.ACTIVE

    def hand_over(self) -> None:
        """Let the next life be the present one: for services, for events and in name."""
        self.is_over = True
        self.handed = [one for one in _provided(self.next) if one.slot.private is one]
        self._hold_users()
        self._exchange(self.elder, self.next, self.running)

    def announce(self, swap: Swap) -> None:
        """Let those who use the services that were handed over turn to the next life's."""
        for user in self.users:
            swap.touch(user)
        self._release_users()
        for binding in self.handed:
            binding.announce()

    def _hold_users(self) -> None:
        """Keep those who use the services from turning to them one by one."""
        for binding in self.handed:
            former = binding.slot.binding
            for needs in tuple(binding.slot.consumers):
                user = needs.fiber
                if former is not None and needs.uses(former) and not user.hold:
                    user.hold = True
                    self.users.append(user)

    def _release_users(self) -> None:
        for user in self.users:
            user.hold = False
            user.tree.enqueue(user.refresh)
        self.users = []

    def hand_back(self) -> None:
        """Let the former life be the present one again."""
        if self.is_over and not self.is_lost:
            self._exchange(self.next, self.elder, self.before)
        self._release_users()

    def _exchange(self, old: Life, new: Life, running: Running) -> None:
        fiber = self.fiber
        for binding in self.handed:
            if binding.slot.private is not None:
                binding.slot.exchange()
        bus = fiber.ctx.kernel.bus
        bus.silence(old)
        bus.unsilence(new)
        fiber.requirements, fiber.services, fiber.plugin = new.needs, new.services, running.plugin
        self.mount.life, self.mount.running = new, running

    async def revive(self) -> None:
        """See that the former version runs, even if its life has ended meanwhile."""
        fiber = self.fiber
        fiber.hold = False
        if fiber.is_ending or (
            fiber.state is FiberState.ACTIVE and self.elder.state is FiberState.ACTIVE
        ):
            return
        self.mount.put(fiber, self.before)
        await fiber.reload()


def _provided(fiber: Fiber) -> Iterator[Binding]:
    yield from fiber.services.values()
    for child in fiber.children:
        yield from _provided(child)


def failure_in(swap: Swap) -> BaseException | None:
    """Return why a fiber that was touched does not run: it has failed, or is not done loading."""
    fibers = [owner for owner in swap.touched if isinstance(owner, Fiber)]
    for fiber in fibers:
        if fiber.state is FiberState.FAILED:
            return fiber.error
    for fiber in fibers:
        error = late(fiber) if swap.touched[fiber] is FiberState.ACTIVE else None
        if error is not None:
            return error
    return None


def late(fiber: Fiber) -> PluginError | None:
    """Return what is wrong with a fiber that has settled, and is still loading."""
    if fiber.state is not FiberState.LOADING:
        return None
    return PluginError(
        f'plugin "{fiber.plugin_name}" (fiber {fiber.path}) is not done loading after '
        f"{SETTLE_TIMEOUT:g} s: a body returns; ctx.start_soon runs what goes on"
    )
