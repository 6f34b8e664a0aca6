"""Rows that run: a row, its fiber, and why the fiber failed, as a fault at a place in the file."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from .. import Effect, Fiber, FiberState, Service
from ..errors import ConfigError, HarnessError, ManifestError
from ..kernel.plugin import PluginSpec
from .blame import raised_at
from .manifest import Entry
from .places import Place, place_at
from .resolve import Found

__all__ = ["MountedEntry", "failure_of", "fault_of", "provided_by"]


@attrs.frozen(eq=False)
class MountedEntry:
    """A row that runs: its fiber, what its plugin says it provides, and what its name imported.

    `is_own` says whether it is a row of the manifest, and not one that a plugin was given.
    """

    entry: Entry
    fiber: Fiber
    provides: tuple[str, ...] = ()
    module: Effect | None = None
    found: Found | None = None
    is_own: bool = False

    def of(self, entry: Entry) -> MountedEntry:
        """Return the same with the row as it now stands in the file."""
        return attrs.evolve(self, entry=entry)

    @property
    def fault(self) -> ManifestError | None:
        """Why the row's fiber failed, at a place in the manifest; None if it did not."""
        error = self.fiber.error
        if self.fiber.state is not FiberState.FAILED or error is None:
            return None
        return fault_of(self.entry, error)


def fault_of(entry: Entry, error: BaseException) -> ManifestError:
    """Return what a row's plugin or config raised as a fault at the place that is to blame."""
    if isinstance(error, ManifestError):
        return error
    fault = _place_of(entry, error).fault(_said(entry, error))
    fault.__cause__ = error
    return fault


def _place_of(entry: Entry, error: BaseException) -> Place:
    if not isinstance(error, ConfigError):
        return entry.place_of("name")
    first = error.problems[0] if error.problems else ""
    return place_at(entry.config, first, entry.place_of("config"))


def _said(entry: Entry, error: BaseException) -> str:
    if isinstance(error, ConfigError):
        return str(error)
    kind = "" if isinstance(error, HarnessError) else f"{type(error).__name__}: "
    place = raised_at(error)
    where = f" ({place})" if place else ""
    return f'plugin "{entry.name or entry.id}" failed: {kind}{error}{where}'


def provided_by(plugin: object, spec: PluginSpec) -> tuple[str, ...]:
    """Return the services that a plugin declares to provide; a service class provides its key."""
    if spec.provides:
        return spec.provides
    if isinstance(plugin, type) and issubclass(plugin, Service):
        return (plugin.key,)
    return ()


def failure_of(
    fiber: Fiber, error: BaseException, mounted: Mapping[Fiber, MountedEntry]
) -> dict[str, ManifestError]:
    """Return why a fiber does not run, by the id of the manifest's row it belongs to, if any."""
    above: Fiber | None = fiber
    while above is not None and not (above in mounted and mounted[above].is_own):
        above = above.parent
    if above is None:
        return {}
    return {mounted[above].entry.id: fault_of(mounted.get(fiber, mounted[above]).entry, error)}
