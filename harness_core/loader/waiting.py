"""Rows that wait for services: for what, who could provide it, and who waits in a circle.

Contract: section 8, "Row order never matters".
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from .. import Fiber, FiberState
from ..errors import ManifestError
from .loader import Loader
from .manifest import Entry
from .mounted import MountedEntry, provided_by
from .resolve import entry_points

__all__ = ["Waiting", "find_waiting"]


@attrs.frozen
class Waiting:
    """A row that waits, the services it waits for, and a sentence on each."""

    entry: Entry
    fiber: Fiber = attrs.field(eq=False)
    services: tuple[str, ...]
    reasons: tuple[str, ...]
    cycle: tuple[str, ...] = ()
    """Ids of rows, in a circle, each waiting for a service of the next."""

    def __str__(self) -> str:
        text = f'row "{self.entry.id}" waits for ' + "; and for ".join(self.reasons)
        if self.cycle:
            text += f". They wait in a circle: {' → '.join((*self.cycle, self.cycle[0]))}"
        return text


def find_waiting(loader: Loader) -> list[Waiting]:
    """Return the rows that wait for services, once everything has settled."""
    pending = [
        mounted
        for mounted in loader.mounted.values()
        if mounted.fiber.state is FiberState.PENDING and mounted.fiber.waiting_for
    ]
    if not pending:
        return []
    providers = _Providers(loader)
    links = {
        mounted.entry.id: [
            other.entry.id
            for key in mounted.fiber.waiting_for
            for other in providers.running(key)
            if other in pending
        ]
        for mounted in pending
    }
    return [
        Waiting(
            mounted.entry,
            mounted.fiber,
            tuple(mounted.fiber.waiting_for),
            tuple(providers.explain(key) for key in mounted.fiber.waiting_for),
            _cycle_through(mounted.entry.id, links),
        )
        for mounted in pending
    ]


def _cycle_through(start: str, links: dict[str, list[str]]) -> tuple[str, ...]:
    """Return the shortest circle of waiting rows through `start`, or nothing."""
    paths: list[tuple[str, ...]] = [(start,)]
    seen: set[str] = set()
    for path in paths:
        for other in links.get(path[-1], ()):
            if other == start:
                return path
            if other not in seen:
                seen.add(other)
                paths.append((*path, other))
    return ()


class _Providers:
    """Who declares to provide what: rows that run, rows that are disabled, installed plugins."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader
        self.disabled: dict[str, list[str]] = {}
        for entry, key in self._disabled():
            self.disabled.setdefault(key, []).append(entry.id)

    def running(self, key: str) -> list[MountedEntry]:
        return [one for one in self.loader.mounted.values() if key in one.provides]

    def _disabled(self) -> Iterator[tuple[Entry, str]]:
        for entry in self.loader.manifest.walk():
            if not entry.disabled or entry.group:
                continue
            try:
                found, spec = self.loader.find(entry)
            except ManifestError:
                continue
            for key in provided_by(found.plugin, spec):
                yield entry, key
            if found.forget is not None:
                found.forget()

    def explain(self, key: str) -> str:
        said = [self._state(one) for one in self.running(key)]
        said += [
            f'row "{name}" would provide it and is disabled' for name in self.disabled.get(key, ())
        ]
        if not said and key in entry_points():
            said.append(f"no row provides it; add a row with `name: {key}`")
        return f'service "{key}" ({", ".join(said) or "no row provides it"})'

    def _state(self, mounted: MountedEntry) -> str:
        row, fiber = f'row "{mounted.entry.id}"', mounted.fiber
        if fiber.state is FiberState.ACTIVE:
            return f"{row} provides it in another realm"
        if fiber.state is FiberState.PENDING:
            return f"{row} provides it and waits for {', '.join(fiber.waiting_for)} itself"
        return f"{row} provides it and is {fiber.state.value}"
