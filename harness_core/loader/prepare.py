"""Preparing: everything that can fail before anything is touched. Names every row that will not do.

New plugins are found and imported, configs are checked.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

from ..errors import ManifestError
from ..kernel.mount import Running
from ..kernel.plugin import read_plugin
from ..reload import Versions
from .errors import ReconcileError
from .manifest import Entry
from .mounted import MountedEntry, fault_of
from .moving import mount_of
from .places import plain
from .plan import Change, Plan
from .resolve import Found
from .wrapped import unwrapped, wrapped

if TYPE_CHECKING:
    from .mount import Mounts

__all__ = ["Ready", "is_other", "kept", "prepare"]

_TO_MOUNT = frozenset({"add", "enable"})


@attrs.define(eq=False)
class Ready:
    """What rows will run: `found` for those to be mounted, `running` for fibers that stay.

    `excused` are ids of rows that could not be mounted before either, and have not changed.
    """

    found: dict[tuple[str, str | None], Found] = attrs.field(
        factory=dict[tuple[str, "str | None"], Found]
    )
    running: dict[str, Running] = attrs.field(factory=dict[str, Running])
    excused: set[str] = attrs.field(factory=set[str])

    def forget(self, mounts: Mounts) -> None:
        """Take back what was imported and is not in use."""
        used = {
            one.found.module
            for one in mounts.mounted.values()
            if one.found is not None and one.found.module is not None
        }
        for found in self.found.values():
            if found.forget is not None and found.module not in used:
                found.forget()


def prepare(
    mounts: Mounts, plan: Plan, entries: dict[str, Entry], versions: Versions | None = None
) -> Ready:
    """Return what the rows of a plan will run; raise ReconcileError if some will not do.

    `versions` says what has other code.
    """
    ready = Ready()
    faults: dict[str, ManifestError] = {}
    for change in plan:
        if change.action in ("keep", "move", "remove", "disable"):
            continue
        entry = entries[change.id]
        before = mounts.entries.get(change.id)
        try:
            _prepare(mounts, change, entry, ready, versions)
        except Exception as error:
            if change.action == "add" and entry == before and entry.id in mounts.refused:
                ready.excused.add(entry.id)
            else:
                faults[entry.id] = fault_of(entry, error)
    if faults:
        ready.forget(mounts)
        raise ReconcileError(faults)
    return ready


def _prepare(
    mounts: Mounts, change: Change, entry: Entry, ready: Ready, versions: Versions | None
) -> None:
    fiber, before = mounts.running.get(entry.id), mounts.entries.get(entry.id)
    raw = plain(entry.config)
    if fiber is None or change.action in _TO_MOUNT or is_other(before, entry):
        found, _ = mounts.find(entry)
        ready.found[entry.id, entry.name] = found
        read_plugin(wrapped(found.plugin, entry)).structure(raw)
        return
    running = mount_of(fiber).running
    plugin = running.plugin
    spec = running.spec
    if versions is not None and fiber in versions.fibers:
        plugin = versions.find(fiber)
    if change.action == "replace" or plugin is not running.plugin:
        plugin = wrapped(unwrapped(plugin), entry)
        spec = read_plugin(plugin)
    ready.running[entry.id] = Running(plugin, spec, raw, spec.structure(raw), None)


def is_other(before: Entry | None, entry: Entry) -> bool:
    """Whether a row means another plugin than before."""
    return (
        before is None
        or before.group != entry.group
        or (before.name != entry.name and not entry.group)
    )


def kept(before: Mapping[str, MountedEntry]) -> dict[tuple[str, str | None], Found]:
    """Return the plugins of rows that run: a group that restarts mounts them as they are."""
    plugins: dict[tuple[str, str | None], Found] = {}
    for one, mounted in before.items():
        found = mounted.found
        if found is not None:
            module = found.module and sys.modules.get(found.module.__name__, found.module)
            plugin = unwrapped(mounted.fiber.plugin)
            plugins[one, mounted.entry.name] = attrs.evolve(found, plugin=plugin, module=module)
    return plugins
