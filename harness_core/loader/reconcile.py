"""The transaction that puts other rows in the place of those that run: all of them, or none.

Everything that can fail untouched has been prepared, and rows whose code has changed take it up
with the rest. Under the gate, the fibers concerned leave
their groups, so that no group takes them along, and those that will not go on as they are unload,
newest first, and are held. Then the rows are mounted: groups take in the fibers that belong to
them, held ones run what is new, and what is missing is mounted. A fiber is disposed only when all
is well; until then the way back is the same road: everything is held again, and the old rows take
their fibers back, which run again at their old places.

Contract: section 8; laws L5 and L8.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import anyio

from .. import Fiber, FiberState
from ..errors import InactiveFiberError, ManifestError
from ..kernel.completion import SPENT
from ..kernel.gate import Swap
from ..kernel.mount import Running
from ..kernel.succession import late
from ..kernel.swap import try_again
from ..reload import Versions
from .claim import Claim, put
from .errors import ReconcileError
from .in_place import InPlace
from .manifest import Manifest
from .mounted import MountedEntry, failure_of, fault_of
from .moving import dispose_all, mount_of, move
from .places import Place
from .plan import Action, Plan
from .prepare import Ready, kept
from .wrapped import derived

if TYPE_CHECKING:
    from .mount import Mounts

__all__ = ["Transaction"]


def _nothing(_: object) -> None:
    """Show nothing: all code is as it was."""


_TOUCHED: tuple[Action, ...] = ("update", "replace", "move", "remove", "disable")


class Transaction:
    """One change of rows under way."""

    def __init__(
        self,
        mounts: Mounts,
        plan: Plan,
        manifest: Manifest,
        ready: Ready,
        versions: Versions | None,
    ) -> None:
        assert mounts.base is not None
        self.mounts, self.base = mounts, mounts.base
        self.plan, self.ready, self.versions = plan, ready, versions
        self.texts = dict(self.base.kernel.texts)
        self.manifest, self.rows = manifest, mounts.rows_of(manifest)
        self.entries = {entry.id: entry for row in self.rows for entry in row.walk()}
        self.old_manifest, self.old_rows = mounts.manifest, mounts.rows_of(mounts.manifest)
        self.missing = mounts.missing()
        self.before: dict[str, MountedEntry] = {
            one: mounts.mounted[fiber] for one, fiber in mounts.running.items()
        }
        self.old_running: dict[Fiber, Running] = {}
        """What fibers ran that run, or will run, something else."""
        self.old_refused = dict(mounts.refused)
        self.failed = {fiber for fiber in mounts.mounted if fiber.state is FiberState.FAILED}
        self.broken = [
            (owner, mounted.entry)
            for fiber, mounted in mounts.mounted.items()
            if fiber in self.failed and (owner := mounts.giver_of(fiber)) is not None
        ]
        """Rows that plugins were given, with the ids of their own, and that do not work."""
        self.in_place = InPlace(self.base, versions.show if versions is not None else _nothing)
        self.held: list[Fiber] = []
        """Fibers that are unloaded, newest first."""
        self.lifted: dict[str, Fiber] = {}
        """By id: fibers that are, or have been, outside their group."""
        self.gone: list[Fiber] = []
        """Fibers that are disposed in the end."""

    async def run(self) -> None:
        """Do it; raise ReconcileError, with all as before, if rows fail."""
        if self.base.fiber.state is not FiberState.ACTIVE:
            raise InactiveFiberError(self.base.fiber)
        swap = self.base.kernel.tree.gate.begin(*self._affected())
        opened, faults = SPENT, dict[str, ManifestError]()
        with anyio.CancelScope(shield=True):
            self.mounts.prepared = {**kept(self.before), **self.ready.found}
            try:
                faults = await self._forward(swap) or self._unfit(await swap.verdict())
                if faults:
                    await self._backward(swap)
                else:
                    await self._commit()
            except BaseException:
                await self._backward(swap)
                raise
            finally:
                self.mounts.prepared = {}
                self.mounts.replaced = {}
                self.ready.forget(self.mounts)
                opened = swap.end()
            await opened.wait()
        if faults:
            raise ReconcileError(faults)

    def _affected(self) -> list[Fiber]:
        return [one.fiber for one in map(self.before.get, self.plan.ids(*_TOUCHED)) if one]

    # Forward

    async def _forward(self, swap: Swap) -> dict[str, ManifestError]:
        faults = await self._update_in_place()
        if faults:
            return faults
        self._lift(self.plan.ids(*_TOUCHED))
        going_on = {self.before[one].fiber for one in self._moved_as_they_are()}
        await self._hold(fiber for fiber in self.lifted.values() if fiber not in going_on)
        mounts = self.mounts
        if self.versions is not None:
            self.versions.show_new()
        mounts.manifest = self.manifest
        mounts.take_rows(self.rows)
        for one, fiber in self.lifted.items():
            entry = mounts.entries.get(one)
            if fiber in going_on:
                mounts.claims[one] = Claim(fiber)
            elif entry is None or entry.disabled or one not in self.ready.running:
                self.gone.append(fiber)
                mounts.running.pop(one, None)
                mounts.replaced[one] = fiber
            else:
                mounts.claims[one] = Claim(fiber, self.ready.running[one])
        mounts.mount_rows(self.base, self.rows)
        await self._settle(swap)
        return self._faults(swap)

    async def _update_in_place(self) -> dict[str, ManifestError]:
        ids = {
            self.before[one].fiber: one
            for one in self.plan.ids("update")
            if one in self.before and self.before[one].fiber.state is FiberState.ACTIVE
        }
        coming = {fiber: self.ready.running[one] for fiber, one in ids.items()}
        going = [fiber for fiber in self._affected() if fiber not in ids]
        return {
            ids[fiber]: fault_of(self.entries[ids[fiber]], error)
            async for fiber, error in self.in_place.change(coming, going)
        }

    def _moved_as_they_are(self) -> set[str]:
        updated = {self.before[one].fiber for one in self.plan.ids("update") if one in self.before}
        stopped = updated.difference(self.in_place.before)
        moved = (one for one in self.plan.ids("move") if one in self.lifted)
        return {one for one in moved if self.lifted[one] not in stopped}

    def _lift(self, ids: Iterable[str]) -> None:
        """Take fibers out of their groups, as they are."""
        moved = self.plan.ids("move")
        for one in ids:
            mounted = self.before.get(one)
            if mounted is None or mounted.fiber.is_ending:
                continue
            if mounted.fiber in self.in_place.before and one not in moved:
                continue
            self.lifted[one] = mounted.fiber
            move(mounted.fiber, self.base)

    async def _hold(self, fibers: Iterable[Fiber]) -> None:
        """Unload fibers, newest first, and keep them from loading."""
        chosen = sorted(
            (fiber for fiber in fibers if not fiber.is_ending),
            key=lambda fiber: fiber.place,
            reverse=True,
        )
        for fiber in chosen:
            fiber.hold = True
            self.old_running.setdefault(fiber, mount_of(fiber).running)
        for fiber in chosen:
            await fiber.start_reload().wait()
        self.held += [fiber for fiber in chosen if fiber not in self.held]

    async def _settle(self, swap: Swap) -> None:
        for fiber in self.mounts.running.values():
            mounted = self.mounts.mounted.get(fiber)
            if fiber in self.lifted.values() or (mounted and self._is_new(mounted)):
                swap.touch(fiber)
        await swap.settle()

    def _is_new(self, mounted: MountedEntry) -> bool:
        before = self.before.get(mounted.entry.id)
        return before is None or before.fiber is not mounted.fiber

    def _faults(self, swap: Swap) -> dict[str, ManifestError]:
        """Return why rows failed: those that changed, and those that did not fail before."""
        changed = self.plan.ids("add", "enable", "replace")
        known = self.ready.excused | (self.old_refused.keys() - set(changed))
        faults = {
            one: fault
            for one, fault in self.mounts.refused.items()
            if one in self.mounts.entries and one not in known
        }
        concerned = set(self.lifted.values())
        for owner in tuple(swap.touched):
            if not isinstance(owner, Fiber) or self._was_broken(owner):
                continue
            error = owner.error if owner.state is FiberState.FAILED else None
            if swap.touched[owner] is FiberState.ACTIVE:
                error = error or late(owner)
            if error is not None and (owner in concerned or owner not in self.failed):
                faults = {**failure_of(owner, error, self.mounts.mounted), **faults}
        return {one: faults[one] for one in self.mounts.entries if one in faults}

    def _unfit(self, verdict: Exception | None) -> dict[str, ManifestError]:
        """Return why rows cannot stay, although they run."""
        if verdict is None:
            return {}
        here = Place(self.manifest.file)
        places = {one: entry.place_of("name") for one, entry in self.entries.items()}
        changed = [one.id for one in self.plan if one.action != "keep"]
        faults = {one: places.get(one, here).fault(str(verdict)) for one in changed}
        for fault in faults.values():
            fault.__cause__ = verdict
        return faults

    def _was_broken(self, fiber: Fiber) -> bool:
        """Whether a row that a plugin was given did not work before, and is the same."""
        mounted, giver = self.mounts.mounted.get(fiber), self.mounts.giver_of(fiber)
        return mounted is not None and (giver, mounted.entry) in self.broken

    # The end, and the way back

    async def _commit(self) -> None:
        mounts = self.mounts
        left = [claim.fiber for claim in mounts.claims.values()]
        mounts.claims = {}
        await dispose_all([*self.gone, *left])
        for one in mounts.refused.keys() - mounts.entries.keys():
            del mounts.refused[one]

    async def _backward(self, swap: Swap) -> None:
        """Let the old rows take their fibers back."""
        swap.texts = self.texts
        mounts = self.mounts
        mounts.replaced = {}
        new = [one.fiber for one in mounts.mounted.values() if one.is_own and self._is_new(one)]
        for fiber in self.lifted.values():
            if not fiber.is_ending:
                move(fiber, self.base)
        await self._hold(self.held)
        await dispose_all(new)
        async for fiber, old in self.in_place.back(self.held):
            await self._hold([fiber])
            assert fiber.parent is not None
            put(fiber, old, derived(fiber.parent.ctx, mounts.mounted[fiber].entry))
            self.held.remove(fiber)
        mounts.manifest = self.old_manifest
        mounts.take_rows(self.old_rows)
        mounts.refused = dict(self.old_refused)
        mounts.running = {
            one: mounted.fiber
            for one, mounted in self.before.items()
            if not mounted.fiber.is_ending
        }
        mounts.claims = {
            one: Claim(fiber, self.old_running[fiber] if fiber in self.held else None)
            for one, fiber in self.lifted.items()
            if not fiber.is_ending
        }
        mounts.dormant = self.missing
        try:
            mounts.mount_rows(self.base, self.old_rows)
        finally:
            mounts.dormant = frozenset()
        await swap.settle()
        await try_again(
            swap,
            (
                fiber
                for fiber in mounts.mounted
                if fiber not in self.failed and not self._was_broken(fiber)
            ),
        )
        left, mounts.claims = [claim.fiber for claim in mounts.claims.values()], {}
        await dispose_all(left)
