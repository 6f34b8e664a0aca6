"""The loader: keeps what runs and the manifest's file in step, in both directions.

Contract: section 8.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

import anyio

from .. import Fiber, FiberState
from ..errors import InactiveFiberError, PluginError
from ..kernel.completion import Completion
from ..reload import Versions
from .edit import Edit
from .manifest import Manifest
from .mount import Mounts
from .plan import Plan, make_plan
from .prepare import prepare
from .reconcile import Transaction
from .resolve import Resolver
from .restarts import with_restarts

__all__ = ["Loader"]


class Loader(Mounts, key="loader"):
    """The service that mounts rows, and that makes what runs what the file says."""

    def __init__(self, manifest: Manifest, resolver: Resolver) -> None:
        super().__init__(manifest, resolver)
        self._lock: anyio.Lock | None = None

    def read(self) -> Manifest:
        """Read the manifest's file again; raise ManifestError for its first fault."""
        return self.manifest.read_again()

    def plan(self, manifest: Manifest | None = None) -> Plan:
        """Return what `reconcile` would do, without touching anything.

        Raises ManifestError for a faulty file. `manifest` is looked at in place of the file.
        """
        return self._plan(manifest or self.read())

    def _plan(self, manifest: Manifest, renewed: Collection[str] = ()) -> Plan:
        after = self.rows_of(manifest)
        if self.base is None:
            return make_plan((), after)
        before = self.rows_of(self.manifest)
        return with_restarts(make_plan(before, after, self.missing(), renewed), self, renewed)

    async def reconcile(self) -> Plan:
        """Make what runs what the file says, in one transaction; return what was done.

        Rows that have not changed are not touched. Raises ManifestError for a faulty file, and
        ReconcileError, which names every row that will not do; the rows before then run on.
        Calls wait for each other. Code of a row that goes or restarts may call it, and is then
        cancelled like all code of that row; the rest is done all the same. (Section 8.)
        """

        async def work() -> Plan:
            return await self.apply(self.read())

        return await self._alone(work)

    @property
    def lock(self) -> anyio.Lock:
        """Held while rows change."""
        if self._lock is None:
            self._lock = anyio.Lock()
        return self._lock

    async def apply(self, manifest: Manifest, versions: Versions | None = None) -> Plan:
        """Make what runs what a manifest says; the lock must be held.

        With `versions`, fibers take up other code in the same transaction. Raises ReconcileError,
        and PluginError for such a fiber that belongs to no row.
        """
        plan = self._plan(manifest, [*map(self._row_of, versions.fibers)] if versions else ())
        entries = {entry.id: entry for row in self.rows_of(manifest) for entry in row.walk()}
        ready = prepare(self, plan, entries, versions)
        await Transaction(self, plan, manifest, ready, versions).run()
        return plan.without(self.refused)

    def _row_of(self, fiber: Fiber) -> str:
        """Return the id of the manifest's row to which a fiber belongs."""
        above: Fiber | None = fiber
        while above is not None:
            mounted = self.mounted.get(above)
            if mounted is not None and mounted.is_own:
                return mounted.entry.id
            above = above.parent
        raise PluginError(f"fiber {fiber.path} belongs to no row of {self.manifest.file}")

    # Edits, written back to the file

    async def set_config(self, one: str, config: Mapping[str, Any]) -> Plan:
        """Give a row another config, in the tree and in the file; return what was done.

        What has the same value as before stays as it is written, references to environment
        variables among it. All edits keep comments and order, apply what else the file says by
        now, and change the file only once the rows run. They raise what `reconcile` raises, and
        LookupError for a row that does not exist.
        """
        return await self._edit(lambda edit: edit.set_config(one, config))

    async def add(self, row: Mapping[str, Any], group: str | None = None) -> Plan:
        """Add a row at the end of the file, or of a group."""
        return await self._edit(lambda edit: edit.add(row, group))

    async def remove(self, one: str) -> Plan:
        """Take a row out of the file, a group with its rows."""
        return await self._edit(lambda edit: edit.remove(one))

    async def disable(self, one: str) -> Plan:
        """Disable a row, a group with its rows."""
        return await self._edit(lambda edit: edit.set(one, "disabled", True))

    async def enable(self, one: str) -> Plan:
        """Enable a row; it runs unless a group around it is disabled."""
        return await self._edit(lambda edit: edit.set(one, "disabled", False))

    async def _edit(self, change: Callable[[Edit], None]) -> Plan:
        async def work() -> Plan:
            rows, done = self.manifest, list[Plan]()
            try:
                while not await self._edited(change, done):
                    pass
            except Exception:
                if done:  # the rows run, and the file does not say so
                    await self.apply(rows)
                raise
            return done[-1].after(done[:-1])

        return await self._alone(work)

    async def _edited(self, change: Callable[[Edit], None], done: list[Plan]) -> bool:
        """Change what the file says now, in the tree and then there; add what was `done`.

        Returns whether that is all: the file may have been saved again meanwhile.
        """
        edit = Edit(self.manifest)
        before = edit.text
        change(edit)
        manifest = edit.manifest
        try:
            edit.prepare()
            done.append(await self.apply(manifest))
            if edit.text == before:
                return True
            is_current = edit.is_current
            if is_current:
                edit.commit()
            return is_current
        finally:
            edit.discard()

    async def _alone(self, work: Callable[[], Awaitable[Plan]]) -> Plan:
        """Do one change of rows after the other, each in a task that no row can take along."""
        if self.base is None:
            raise PluginError("the loader mounts nothing yet: call loader.start() first")
        tree = self.base.kernel.tree
        caller = tree.current_job()
        owner = caller.owner if caller is not None else None
        while isinstance(owner, Fiber):
            if owner.state is FiberState.UNLOADING:
                raise InactiveFiberError(owner)  # it would wait for what waits for it
            owner = owner.parent
        over, results, errors = Completion(), list[Plan](), list[BaseException]()

        async def run() -> None:
            try:
                async with self.lock:
                    results.append(await work())
            except BaseException as error:
                errors.append(error)
            finally:
                over.finish()

        tree.spawn(run)
        await over.wait()
        if errors:
            raise errors[0]
        return results[0]
