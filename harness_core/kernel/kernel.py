"""What all contexts of one tree share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .events import Bus
from .fiber import Fiber
from .lifecycle import FiberState
from .services import Services
from .tree import Tree

if TYPE_CHECKING:
    from .context import Context

__all__ = ["Getter", "Kernel", "Setter"]

Getter = Callable[["Context"], Any]
Setter = Callable[["Context", Any], None]


class Kernel:
    """What all contexts of one tree share."""

    def __init__(self) -> None:
        self.tree = Tree()
        self.services = Services(self.tree)
        self.bus = Bus({"fiber/state": self._watch_states, "service/change": self._watch_services})
        self.accessors: dict[str, tuple[Getter, Setter | None]] = {}
        self.watched_files: dict[Path, list[Fiber]] = {}
        """Which fibers have read which files, and load again when they change."""
        self.at_close: dict[object, Callable[[], object]] = {}
        self._reporting = False
        self.tree.on_error = self._failed

    # States and services change often, and are seldom listened to.

    def _watch_states(self, heard: bool) -> None:
        self.tree.on_state = self._state_changed if heard else None

    def _watch_services(self, heard: bool) -> None:
        self.services.on_change = self._service_changed if heard else None

    def _state_changed(self, fiber: Fiber, old: FiberState) -> None:
        self.bus.emit("fiber/state", (fiber, old), None)

    def _failed(self, fiber: Fiber, error: BaseException) -> None:
        if self._reporting or not self.bus.heard("fiber/error"):
            return  # a listener of errors that raises has been logged, and is not told of itself
        self._reporting = True
        try:
            self.bus.emit("fiber/error", (fiber, error), None)
        finally:
            self._reporting = False

    def _service_changed(self, key: str, fiber: object) -> None:
        self.bus.emit("service/change", (key, fiber), None)
