"""Injection: what one fiber needs, and what it was given.

Contract: section 2, "Inject".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .fiber import Fiber
from .lifecycle import FiberState
from .services import Binding, Override, Slot

if TYPE_CHECKING:
    from .context import Context

__all__ = ["Injection"]

_RUNNING = frozenset({FiberState.LOADING, FiberState.ACTIVE, FiberState.UNLOADING})
"""States in which a fiber runs on what it was given."""


class Injection:
    """What one fiber needs, and what it was given: the `Requirements` of the fiber."""

    __slots__ = ("_failed_with", "ctx", "fiber", "slots", "taken")

    def __init__(self, fiber: Fiber, ctx: Context, slots: dict[str, Slot]) -> None:
        self.fiber = fiber
        self.ctx = ctx
        self.slots = slots
        self.taken: dict[str, Binding | Override] = {}
        self._failed_with: dict[str, int] = {}

    def watch(self) -> None:
        """Be told of changes, until `unwatch`."""
        for slot in self.slots.values():
            slot.consumers[self] = None

    def unwatch(self) -> None:
        """Stop being told."""
        for slot in self.slots.values():
            slot.consumers.pop(self, None)
            slot.services.reclaim(slot)

    def _find(self) -> dict[str, Binding | Override] | None:
        found: dict[str, Binding | Override] = {}
        for key, slot in self.slots.items():
            binding = slot.find(self.ctx)
            if binding is None or not binding.available:
                return None
            found[key] = binding
        return found

    def take(self) -> bool:
        """Resolve all; True if all are there."""
        found = self._find()
        if found is None:
            return False
        self.taken = found
        return True

    def hold(self) -> bool:
        """Whether what was taken is still what would be taken now.

        Between a binding and an override there is no difference that matters: a read goes
        through to whichever is in force.
        """
        found = self._find()
        if found is None:
            return False
        for key, binding in found.items():
            taken = self.taken.get(key)
            overridden = isinstance(binding, Override) or isinstance(taken, Override)
            if binding is not taken and not (overridden and taken is not None):
                return False
        self.taken = found
        return True

    def drop(self) -> None:
        """Forget what was taken."""
        self.taken = {}

    def remember_failure(self) -> None:
        """Forget what was taken, but for knowing it again: a failed fiber keeps nothing alive."""
        self._failed_with = {key: found.serial for key, found in self.taken.items()}
        self.taken = {}

    def offer_others(self) -> bool:
        """Whether all are there, and not the very ones of the failure."""
        found = self._find()
        return found is not None and self._failed_with != {
            key: one.serial for key, one in found.items()
        }

    def uses(self, binding: Binding) -> bool:
        """Whether the fiber was given `binding` and still runs on it."""
        return self.taken.get(binding.slot.key) is binding and self.fiber.state in _RUNNING

    def missing(self) -> list[str]:
        """Return the keys that are not available."""
        absent: list[str] = []
        for key, slot in self.slots.items():
            binding = slot.find(self.ctx)
            if binding is None or not binding.available:
                absent.append(key)
        return absent
