"""Where a part of an assembly came from, and what became of each contribution.

Contract: section 5, "Provenance".
"""

from __future__ import annotations

from typing import Protocol

import attrs

__all__ = ["Explained", "Origin", "OriginSource", "Timed"]


@attrs.frozen
class Origin:
    """Where a part of an assembly came from.

    `scope` is the key of the layer (None: global), `shadows` the origins it stands in front of,
    nearest first, `seconds` how long its provider took (None: there is none; for a tool: when the
    provider first gave this schema).
    """

    kind: str
    name: str
    plugin: str
    fiber: str
    scope: object | None
    order: float | None
    file: str
    line: int
    shadows: tuple[Origin, ...] = ()
    seconds: float | None = None

    def __str__(self) -> str:
        return f'plugin "{self.plugin}" at {self.file}:{self.line}'


class OriginSource(Protocol):
    """What can tell an origin: a registry entry."""

    @property
    def entry(self) -> object:
        """The registry entry."""
        ...

    def origin(self, seconds: float | None = None) -> Origin:
        """Return the origin, with the time its provider took."""
        ...


class Timed:
    """A source whose provider was called, with the time that took."""

    __slots__ = ("seconds", "source")

    def __init__(self, source: OriginSource, seconds: float | None) -> None:
        self.source = source
        self.seconds = seconds

    @property
    def entry(self) -> object:
        """The registry entry."""
        return self.source.entry

    def origin(self, seconds: float | None = None) -> Origin:
        """Return the origin, with the time its provider took."""
        return self.source.origin(self.seconds if seconds is None else seconds)


@attrs.frozen
class Explained:
    """One contribution and what became of it.

    `status` is one of: "included", "empty" (its text is empty), "no-value" (a variable), "added"
    or "changed" (by the listener that `reason` names); and of what is absent: "shadowed",
    "suppressed", "tool-hidden" (it requires a tool that is not visible), "restricted" (a tool that
    its provider knows and does not show), "indirect" (one that is called through another, and so
    not shown), "failed", "dropped" (by a listener), "replaced" (by the complete section),
    "unpaired" (it, or what it makes a pair with, was dropped or replaced). `origin` is None for
    what a listener added.
    """

    kind: str
    name: str
    status: str
    reason: str = ""
    origin: Origin | None = None

    @property
    def is_present(self) -> bool:
        """Whether it is part of the assembly."""
        return self.status in ("included", "empty", "no-value", "added", "changed")

    def __str__(self) -> str:
        reason = f": {self.reason}" if self.reason else ""
        origin = f" ({self.origin})" if self.origin else ""
        return f'{self.kind} "{self.name}" {self.status}{reason}{origin}'
