"""Upkeep: keeps the plugins and the rows of a running harness up with their files.

Code and rows that have both changed are taken up in one transaction: they may only work together, a
setting that has another name, for instance. What does not work as a whole is tried in parts, so
that a fault keeps nothing back but what it concerns.

Contract: sections 8 and 9.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import attrs

from .. import Context
from ..errors import ConfigError, ManifestError
from ..loader import Loader, Manifest, Plan, ReconcileError
from ..reload import Batch, Reloaded, Reloader, Versions
from .roots import RowFinder, roots_of

__all__ = ["TakenUp", "Upkeep"]


@attrs.frozen
class TakenUp:
    """What became of a batch: of code, and of rows; None for rows if there is nothing to say.

    With `as_a_whole`, rows and code were taken up, or refused, together.
    """

    reloaded: tuple[Reloaded, ...]
    rows: Plan | ManifestError | None = None
    as_a_whole: bool = False


class Upkeep:
    """Takes up what has changed, batch by batch. Made before plugins are imported."""

    def __init__(self, root: Context, loader: Loader) -> None:
        self.loader = loader
        self.reloader = Reloader(root, roots_of(loader), RowFinder(loader))
        self.manifest = Path(os.path.realpath(loader.manifest.path))
        self.names: dict[str, str] = {}
        """What the plugins of rows are called, by id; also of those that have just gone."""
        self._is_behind = False
        """Whether the manifest says something else than what runs."""
        self._said: str | None = None

    async def take_up(self, batch: Batch) -> TakenUp:
        """Bring everything up to date with a batch of changed files; one call at a time."""
        async with self.loader.lock:
            self.names = self._names()
        is_about_rows = self.manifest in batch.files
        if is_about_rows:
            self._follow_new_places()
        try:
            done = await self._as_a_whole(batch, is_about_rows) or await self._in_parts(
                batch, is_about_rows
            )
        finally:
            self.names |= self._names()
        return done

    def _follow_new_places(self) -> None:
        """Follow the directories of plugins that rows name now, before they are imported."""
        with contextlib.suppress(ManifestError):  # which will be told
            places = roots_of(self.loader, self.loader.read())
            roots = self.reloader.graph.roots
            new = [place for place in places if not roots.covers(str(place))]
            if new:
                roots.add(new)

    def _names(self) -> dict[str, str]:
        return {one: fiber.name for one, fiber in self.loader.running.items()}

    async def _as_a_whole(self, batch: Batch, is_about_rows: bool) -> TakenUp | None:
        """Take up code and rows together; return None unless both have changed."""
        if not is_about_rows and not self._is_behind:
            return None
        async with self.loader.lock:
            manifest = self._changed_rows()
            if manifest is None:
                return None
            whole = _Whole(self.loader, manifest)
            reloaded = await self.reloader.reload(batch, whole.move)
        if reloaded:
            self._is_behind, self._said = False, None
            return TakenUp(reloaded, whole.plan, as_a_whole=True)
        if not whole.faults:
            return None
        parts = await self._in_parts(batch, is_about_rows)
        # What old code said of new rows, and new code of old rows, explains nothing.
        told = tuple(one for one in parts.reloaded if not self._is_explained(one, whole.faults))
        if told == parts.reloaded and not isinstance(parts.rows, ManifestError):
            return parts
        return TakenUp(told, ReconcileError(whole.faults), as_a_whole=True)

    def _is_explained(self, report: Reloaded, faults: Mapping[str, ManifestError]) -> bool:
        """Whether code failed for the reason for which its row does, or because of its row."""
        faulty = {fiber.path for one, fiber in self.loader.running.items() if one in faults}
        return report.error is not None and (
            isinstance(report.error, ConfigError) or not faulty.isdisjoint(report.plugins)
        )

    def _changed_rows(self) -> Manifest | None:
        try:
            manifest = self.loader.read()
            return manifest if self.loader.plan(manifest) else None
        except ManifestError:
            return None

    async def _in_parts(self, batch: Batch, is_about_rows: bool) -> TakenUp:
        reloaded = await self._reload(batch)
        if not is_about_rows and not self._is_behind and not self.loader.refused:
            return TakenUp(reloaded)
        rows = await self._reconcile(is_about_rows)
        if isinstance(rows, Plan) and rows and _failed(reloaded):
            # The old rows may not have suited the new code.
            reloaded = (*_succeeded(reloaded), *await self._reload(batch))
        if isinstance(rows, Plan) and not rows and _succeeded(reloaded):
            rows = None  # a comment, beside the code
        return TakenUp(reloaded, rows)

    async def _reload(self, batch: Batch) -> tuple[Reloaded, ...]:
        async with self.loader.lock:
            return await self.reloader.reload(batch)

    async def _reconcile(self, is_about_rows: bool) -> Plan | ManifestError | None:
        """Reconcile; return None if there is nothing new to say."""
        before = {one: str(fault) for one, fault in self.loader.refused.items()}
        try:
            plan = await self.loader.reconcile()
        except ManifestError as error:
            self._is_behind = True
            is_news = is_about_rows or str(error) != self._said
            self._said = str(error)
            return error if is_news else None
        was_behind, self._is_behind, self._said = self._is_behind, False, None
        news = {
            one: fault
            for one, fault in self.loader.refused.items()
            if str(fault) != before.get(one)
        }
        if news and not plan:  # they work as little as before, for another reason
            return ReconcileError(news)
        is_news = is_about_rows or was_behind or before.keys() != self.loader.refused.keys()
        return plan if is_news else None


@attrs.define(eq=False)
class _Whole:
    """The part that a manifest has in an exchange of code."""

    loader: Loader
    manifest: Manifest
    plan: Plan | None = None
    faults: dict[str, ManifestError] = attrs.field(factory=dict[str, ManifestError])
    """What was first said of each row that would not do."""

    async def move(self, versions: Versions) -> None:
        """Let the rows run what the manifest and the new code say, all or nothing."""
        try:
            self.plan = await self.loader.apply(self.manifest, versions)
        except ReconcileError as error:
            self.faults = {**error.faults, **self.faults}
            rows = map(self.loader.running.get, error.faults)
            versions.unwell += [fiber for fiber in rows if fiber is not None]
            raise


def _failed(reports: Iterable[Reloaded]) -> tuple[Reloaded, ...]:
    return tuple(one for one in reports if one.error is not None)


def _succeeded(reports: Iterable[Reloaded]) -> tuple[Reloaded, ...]:
    return tuple(one for one in reports if one.error is None)
