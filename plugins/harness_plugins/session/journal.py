"""Journal: where the log of one session is kept. Here the one that forgets; others in `store`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from .events import LogEvent

__all__ = ["Journal", "MemoryJournal"]


class Journal(Protocol):
    """The log of one session, held by this process alone until it is closed."""

    async def load(self) -> Sequence[LogEvent]:
        """Return all events, oldest first."""
        ...

    async def append(self, events: Sequence[LogEvent]) -> None:
        """Write events, all or none; they are durable when this returns.

        Raises SessionError if it cannot. Whether they were written is then not certain, as when a
        connection breaks while it commits: `load` tells.
        """
        ...

    async def close(self) -> None:
        """Let go of the session."""
        ...


class MemoryJournal:
    """A log that lives as long as its object: for agents where no store is mounted."""

    def __init__(self, events: Sequence[LogEvent] = ()) -> None:
        self._events = list(events)

    async def load(self) -> Sequence[LogEvent]:
        """Return all events."""
        return tuple(self._events)

    async def append(self, events: Sequence[LogEvent]) -> None:
        """Keep events."""
        self._events.extend(events)

    async def close(self) -> None:
        """Do nothing: there is nothing to let go of."""
