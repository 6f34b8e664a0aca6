"""What all contexts of one tree share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from .events import Bus
from .fiber import Fiber
from .life import succeeds
from .lifecycle import FiberState
from .services import Services
from .tree import Tree

if TYPE_CHECKING:
    from .context import Context

__all__ = ["Getter", "Kernel", "Setter"]

Getter = Callable[["Context"], Any]
Setter = Callable[["Context", Any], None]
Accessor = tuple[Getter, Setter | None]


class Kernel:
    """What all contexts of one tree share."""

    def __init__(self) -> None:
        self.tree = Tree()
        self.services = Services(self.tree)
        self.bus = Bus({"fiber/state": self._watch_states, "service/change": self._watch_services})
        self.accessors: dict[str, Accessor] = {}
        self._accessors_of: dict[str, list[tuple[Fiber, Accessor]]] = {}
        """More than one only while a plugin lives twice; the oldest is in force."""
        self.watched_files: dict[Path, list[Fiber]] = {}
        """Which fibers have read which files, and load again when they change."""
        self._read_in_vain: WeakKeyDictionary[Fiber, dict[Path, None]] = WeakKeyDictionary()
        """What fibers had read that then failed."""
        self.texts: dict[Path, str] = {}
        """What those files held when they were read last."""
        self.at_close: dict[object, Callable[[], object]] = {}
        self._reporting = False
        self.tree.on_error = self._failed

    # Files

    def note_read(self, fiber: Fiber, file: Path) -> None:
        """Note, if a fiber may be failing, that it has read a file, which may be the fault."""
        above: Fiber | None = fiber
        while above is not None and above.may_be_failing:  # it takes those inside it along
            self._read_in_vain.setdefault(above, {})[file] = None
            above = above.parent

    def readers(self) -> dict[Path, list[Fiber]]:
        """Return which fibers have read which files: those that run, and those that failed."""
        found = {file: list(fibers) for file, fibers in self.watched_files.items()}
        for fiber, files in self._read_in_vain.items():
            for file in files if fiber.state is FiberState.FAILED else ():
                found.setdefault(file, []).append(fiber)
        return found

    # Attributes of contexts

    def is_free(self, name: str, fiber: Fiber) -> bool:
        """Whether `fiber` may declare an attribute of this name."""
        held = self._accessors_of.get(name, ())
        return not held or (len(held) == 1 and succeeds(fiber, held[0][0]))

    def add_accessor(self, name: str, accessor: Accessor, fiber: Fiber) -> None:
        """Declare an attribute."""
        self._accessors_of.setdefault(name, []).append((fiber, accessor))
        self.accessors.setdefault(name, accessor)

    def remove_accessor(self, name: str, accessor: Accessor) -> None:
        """Take an attribute back."""
        left = [one for one in self._accessors_of.get(name, ()) if one[1] is not accessor]
        if left:
            self._accessors_of[name], self.accessors[name] = left, left[0][1]
        elif self._accessors_of.pop(name, None):
            del self.accessors[name]

    # States and services change often, and are seldom listened to.

    def _watch_states(self, heard: bool) -> None:
        self.tree.on_state = self._state_changed if heard else None

    def _watch_services(self, heard: bool) -> None:
        self.services.on_change = self._service_changed if heard else None

    def _state_changed(self, fiber: Fiber, old: FiberState) -> None:
        if fiber.is_life:
            return  # an inner matter of the mounted fiber
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
