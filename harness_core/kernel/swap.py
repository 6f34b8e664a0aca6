"""Swap: put other plugins into mounted fibers, all of them or none, without a visible gap.

Everything that can fail without touching the old is done first. The rest happens under the gate
that makes new assemblies wait. Fibers keep their place, parent and config. Contract: laws L5, L8;
section 9, "Transactional".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import anyio
import attrs

from ..errors import PluginError
from .completion import Completion
from .context import Context
from .dependence import down_with, providers_first, users_of
from .fiber import Fiber
from .gate import SETTLE_TIMEOUT, Swap
from .lifecycle import FiberState
from .mount import Mount, Running
from .plugin import read_plugin
from .succession import Show, Succession, failure_in, late

__all__ = ["UNCHANGED", "Replacement", "beside_each_other", "swap", "try_again"]

PAUSES = (0.0, 0.05, 0.2, 0.75)
"""Seconds before each further try to bring back what ran before."""

UNCHANGED: Any = object()
"""The config stays what it is; it is checked against the new plugin's `Config`."""


@attrs.frozen
class Replacement:
    """Another plugin, or another config, for a mounted fiber."""

    fiber: Fiber
    plugin: object
    config: Any = UNCHANGED


async def swap(
    root: Context,
    replacements: Iterable[Replacement],
    show: Show = lambda _: None,
    refused: Callable[[Fiber], object] = lambda _: None,
) -> None:
    """Replace the plugins of fibers in one transaction.

    Raises PluginError or ConfigError, with nothing touched, if a plugin or config will not do
    (`refused` is told for which fiber); and what a new body, or a consumer that loads again,
    raised, after the old plugins have been put back: their bodies have run again, and the tree is
    as before. A plugin that may live twice (`overlap`) is not torn down before all has gone well;
    `show` is told whose code runs next.
    """
    chosen = _outermost(replacements)
    prepared = [(item.fiber, _prepare(item, refused)) for item in chosen]
    if not prepared:
        return
    swapping = _Swap(root, prepared, show)
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


def _prepare(item: Replacement, refused: Callable[[Fiber], object]) -> Running:
    mount = item.fiber.updater
    if not isinstance(mount, Mount):
        raise PluginError(f"fiber {item.fiber.path} runs no plugin that could be replaced")
    raw = mount.running.raw if item.config is UNCHANGED else item.config
    try:
        spec = read_plugin(item.plugin)
        return Running(item.plugin, spec, raw, spec.structure(raw), None)
    except Exception:
        refused(item.fiber)
        raise


async def try_again(swap: Swap, fibers: Iterable[Fiber]) -> None:
    """Load what has failed on the way back again, and again: a port may be free by then.

    The gate is held meanwhile, and assemblies wait.
    """
    chosen = list(fibers)
    for pause in PAUSES:
        if all(fiber.state is not FiberState.FAILED for fiber in chosen):
            return
        await anyio.sleep(pause)
        for fiber in chosen:  # also those that failed since: they use one that is back
            if fiber.state is FiberState.FAILED:
                await fiber.reload()
        await swap.settle()


class _Swap:
    """One transaction. `order` holds the fibers oldest first, with what they will run."""

    def __init__(self, root: Context, order: Sequence[tuple[Fiber, Running]], show: Show) -> None:
        self.tree = root.kernel.tree
        self.swap = self.tree.gate.begin(*(fiber for fiber, _ in order))
        self.texts = dict(root.kernel.texts)
        beside = beside_each_other(root, order)
        self.succession = Succession(beside, self.swap, show)
        overlapping = {fiber for fiber, _ in beside}
        self.order = [one for one in order if one[0] not in overlapping]
        self.down: list[tuple[Fiber, Running]] = []
        """Those that are down, or will be: replaced one after the other."""
        self.before = {fiber: _mount_of(fiber).running for fiber, _ in order}
        self.failed = {fiber for fiber, _ in order if fiber.state is FiberState.FAILED}
        self.is_going_back = False
        self.over = Completion()
        self.error: BaseException | None = None

    async def run(self) -> None:
        """Swap, or put back; never raises."""
        try:
            self.error = await self._forward()
        except BaseException as error:  # what is no Exception comes through where it is raised
            self.error = error
        if self.error is not None:
            try:
                await self._backward()
            except BaseException as error:
                self.error.add_note(f"and the way back was interrupted: {error!r}")
        await self.swap.end().wait()
        self.over.finish()

    async def _forward(self) -> BaseException | None:
        succession = self.succession
        for fiber, _ in self.order:
            fiber.hold = True  # they load once: when it is their turn
        error = await succession.begin()
        self.down += succession.lost
        if error is not None:
            return error
        self.down = sorted([*self.order, *self.down], key=lambda one: one[0].place)
        await self._unload(self.down)
        succession.announce()
        error = await self._load(self.down)
        if error is None:
            await succession.end()
            error = await self.swap.verdict()
        return error

    async def _backward(self) -> None:
        """Put the old plugins back, newest first into what is down, then into the others."""
        self.is_going_back = True
        await self._unload(self.down)
        await self.succession.abort()
        self.swap.texts = self.texts
        await self._load([(fiber, self.before[fiber]) for fiber, _ in self.down])
        await self._try_again()
        for fiber, _ in self.order:
            fiber.hold = False
            self.tree.enqueue(fiber.refresh)

    async def _try_again(self) -> None:
        fibers = [owner for owner in self.swap.touched if isinstance(owner, Fiber)]
        await try_again(self.swap, (one for one in fibers if one not in self.failed))

    async def _unload(self, order: Sequence[tuple[Fiber, Running]]) -> None:
        """Unload newest first, and hold what was unloaded."""
        for fiber, _ in reversed(order):
            fiber.hold = True
            await fiber.start_reload().wait()

    async def _load(self, order: Sequence[tuple[Fiber, Running]]) -> BaseException | None:
        """Load oldest first; return the first error of what was touched."""
        for fiber, running in order:
            if fiber.is_ending:
                continue
            _mount_of(fiber).put(fiber, running)
            fiber.hold = False
            self.tree.enqueue(fiber.refresh)
            with anyio.move_on_after(SETTLE_TIMEOUT):
                await fiber.wait_quiet()
            error = late(fiber)
            if error is not None and not self.is_going_back:
                return error
        await self.swap.settle()
        return failure_in(self.swap)


def beside_each_other(
    root: Context, order: Iterable[tuple[Fiber, Running]], going: Iterable[Fiber] = ()
) -> list[tuple[Fiber, Running]]:
    """Return those whose next life may begin beside the present one, providers before users.

    What runs on a plugin that goes down has to go down with it. Those are the other plugins in
    `order`, those that are `going`, and plugins that restart because they use what is handed over.
    """
    order, going = tuple(order), tuple(going)
    services = root.kernel.services
    able = {
        fiber: running
        for fiber, running in order
        if running.spec.overlap and _mount_of(fiber).overlaps and fiber.state is FiberState.ACTIVE
    }
    size = 0
    while size != len(able):
        size = len(able)
        others = {*going, *(fiber for fiber, _ in order if fiber not in able)}
        down = down_with(services, others | users_of(services, able))
        able = {fiber: running for fiber, running in able.items() if fiber not in down}
    return [(fiber, able[fiber]) for fiber in providers_first(able)]


def _mount_of(fiber: Fiber) -> Mount:
    mount = fiber.updater
    assert isinstance(mount, Mount)
    return mount
