"""What a fiber may do next: states and the moves between them, without an event loop.

Reading order: `FiberState`, then `MOVES`. A move that is not in the table cannot happen; code that
tries it has a bug, and says so at once. Contract: section 2, "Fiber".
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

__all__ = ["MOVES", "OPEN_STATES", "FiberState"]


class FiberState(enum.Enum):
    """Where one mounted plugin is in its life."""

    PENDING = "pending"
    """Mounted; waits for a service, or is about to load."""
    LOADING = "loading"
    """Its body runs; registrations are taken."""
    ACTIVE = "active"
    """Its body has succeeded; registrations are taken, its services are available."""
    FAILED = "failed"
    """Its config was invalid, its body raised or a background task crashed; nothing is left."""
    UNLOADING = "unloading"
    """Its effects are being undone, newest first; the door is closed."""
    DISPOSED = "disposed"
    """Gone for good."""

    # Members are singletons, so identity may serve as hash; Enum's own hash is a Python call.
    __hash__ = object.__hash__


MOVES: Mapping[FiberState, frozenset[FiberState]] = {
    FiberState.PENDING: frozenset(
        # FAILED: the config is invalid, so the body never runs.
        {FiberState.LOADING, FiberState.FAILED, FiberState.UNLOADING}
    ),
    FiberState.LOADING: frozenset({FiberState.ACTIVE, FiberState.UNLOADING}),
    FiberState.ACTIVE: frozenset({FiberState.UNLOADING}),
    FiberState.UNLOADING: frozenset({FiberState.PENDING, FiberState.FAILED, FiberState.DISPOSED}),
    # PENDING: an injected service was replaced, a restart or an update gives it another try.
    FiberState.FAILED: frozenset({FiberState.PENDING, FiberState.UNLOADING}),
    FiberState.DISPOSED: frozenset(),
}

OPEN_STATES = frozenset({FiberState.LOADING, FiberState.ACTIVE})
"""The states in which a fiber takes registrations (law L4)."""
