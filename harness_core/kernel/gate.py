"""The gate: new assemblies wait while plugins are between two versions (law L8).

A `Swap` holds the gate from before the first fiber is unloaded until all that it touched has
settled: the fibers it was begun for, the consumers of their services, what the new bodies mount,
and the asynchronous effects these set up. It is the swap that holds the gate, and not its caller,
who may be cancelled.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from ..errors import SwapTimeoutError
from .completion import Completion
from .jobs import Job
from .lifecycle import FiberState

if TYPE_CHECKING:
    from .tree import Owner, Tree

__all__ = ["Gate", "Swap"]

SWAP_TIMEOUT = 30.0
"""Seconds that an assembly waits at the gate."""

SETTLE_TIMEOUT = 20.0
"""Seconds that a swap holds the gate for what it touched; shorter, so that the gate opens first."""

SET_UP_TIMEOUT = 5.0
"""Seconds of that for one asynchronous effect: some set up for ever."""


class Swap:
    """One change of plugins under way."""

    __slots__ = ("_gate", "opened", "texts", "touched")

    def __init__(self, gate: Gate, owners: Iterable[Owner]) -> None:
        self._gate = gate
        self.touched: dict[Owner, FiberState] = {}
        """Whoever unloads or is mounted because of the change, with the state at that moment."""
        for owner in owners:
            self.touch(owner)
        self.opened = Completion()
        """Finishes when the swap no longer holds the gate."""
        self.texts: Mapping[Path, str] = {}
        """What watched files held before, for what is put back: the files may be the fault."""

    def touch(self, owner: Owner) -> None:
        """Note that `owner` is about to unload, or has been mounted, because of the change."""
        self.touched.setdefault(owner, owner.state)

    async def settle(self) -> None:
        """Wait, for `SETTLE_TIMEOUT` at most, until all that was touched has settled."""
        with anyio.move_on_after(SETTLE_TIMEOUT):
            while not await self._settled():
                pass

    async def _settled(self) -> bool:
        """Wait for what is under way now; return whether nothing was."""
        settled = True
        for owner in tuple(self.touched):
            settled = await owner.wait_quiet() and settled
        for job in tuple(self._gate.set_ups):
            if job.owner in self.touched:
                settled = False
                with anyio.move_on_after(SET_UP_TIMEOUT) as scope:
                    await job.over.wait()
                if scope.cancelled_caught:
                    self._gate.set_ups.pop(job, None)
        return settled

    async def verdict(self) -> Exception | None:
        """Return why what has changed cannot stay, although it runs; None if it can.

        Whoever is asked may assemble, and must answer in a few seconds: the gate is held.
        """
        gate = self._gate
        if gate.judge is None:
            return None
        task = anyio.get_current_task().id
        gate.judging.add(task)
        try:
            return await gate.judge()
        finally:
            gate.judging.discard(task)

    def end(self) -> Completion:
        """Open the gate once everything has settled; return that to be awaited."""
        self._gate.tree.spawn(self._settle_and_open)
        return self.opened

    async def _settle_and_open(self) -> None:
        await self.settle()
        self._gate.swaps.remove(self)
        self.opened.finish()


class Gate:
    """Knows the swaps under way."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.swaps: list[Swap] = []
        self.set_ups: dict[Job, None] = {}
        """Asynchronous effects that are being set up."""
        self.judge: Callable[[], Awaitable[Exception | None]] | None = None
        """Asked, once everything has changed and runs, whether it can stay."""
        self.judging: set[int] = set()
        """Tasks in which that is being asked; they do not wait at the gate."""

    def begin(self, *owners: Owner) -> Swap:
        """Close the gate for a change of these fibers, until the swap's `end`."""
        swap = Swap(self, owners)
        self.swaps.append(swap)
        return swap

    def remembered(self, owner: Owner, file: Path) -> str | None:
        """Return what a watched file held before the swap that puts this fiber back."""
        for swap in self.swaps:
            if file in swap.texts and _is_part(owner, swap):
                return swap.texts[file]
        return None

    def touch(self, owner: Owner, because_of: Owner) -> None:
        """Note that `owner` unloads, or is mounted, because of a fiber that is being swapped.

        That fiber may be one below those that were touched so far, and go with them.
        """
        for swap in self.swaps:
            if _is_part(because_of, swap):
                swap.touch(owner)

    async def wait_open(self, seconds: float = SWAP_TIMEOUT) -> None:
        """Wait until no plugin is between two versions; raise SwapTimeoutError after `seconds`.

        Code of a plugin that is part of a swap does not wait for that swap, which waits for it.
        """
        with anyio.move_on_after(seconds):
            while True:
                swap = self._swap_of_others()
                if swap is None:
                    return
                await swap.opened.wait()
        raise SwapTimeoutError(
            seconds, [owner.path for swap in self.swaps for owner in swap.touched]
        )

    def _swap_of_others(self) -> Swap | None:
        if self.judging and anyio.get_current_task().id in self.judging:
            return None
        job = self.tree.current_job()
        for swap in self.swaps:
            if job is None or not _is_part(job.owner, swap):
                return swap
        return None


def _is_part(owner: Owner, swap: Swap) -> bool:
    """Whether a fiber, or one above it, is touched by a swap."""
    above: Owner | None = owner
    while above is not None and above not in swap.touched:
        above = above.parent
    return above is not None
