"""Life: one of the lives of a plugin of which two may live at once (`overlap = True`).

Such a plugin's mounted fiber, which users know, runs no code of its own: its body mounts a life, a
fiber inside it, and that runs the plugin. At a hot reload the next life is mounted beside the
present one and takes over from it; see `succession`. Towards users a life and its mounted fiber are
one: same path, and what is asked of the life is done to the mounted fiber.

Contract: section 9, "Transactional" (`overlap`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .completion import Completion
from .effects import Effect
from .fiber import Fiber
from .lifecycle import FiberState
from .places import LivePlace, Places
from .steps import run_steps

__all__ = ["Life", "present_places", "succeeds", "takes_over"]


class Life(Fiber):
    """One life. `elder` is the life whose place it takes, while both are there."""

    __slots__ = ("elder", "needs")
    is_life = True

    def __init__(self, mounted: Fiber, plugin: object, needs: Any) -> None:
        super().__init__(mounted.tree, mounted.name, mounted)
        self.transparent = True
        self.plugin = plugin
        self.carried = mounted.carried
        self.elder: Life | None = None
        self.needs = needs
        """What its plugin injects, and was given: the `Requirements` of this life."""
        self.tree.lives += 1

    @property
    def home(self) -> Fiber:
        """The mounted fiber."""
        assert self.parent is not None
        return self.parent

    @property
    def mounted(self) -> Fiber:
        return self.home

    @property
    def is_present(self) -> bool:
        """Whether it is the life that the mounted fiber stands for."""
        mount: Any = self.home.updater
        return mount is not None and mount.life is self

    # One with the mounted fiber

    def dispose(self) -> Completion:
        return self.home.dispose()

    async def restart(self) -> Fiber:
        return await self.home.restart()

    async def update(self, config: object) -> Fiber:
        return await self.home.update(config)

    @property
    def config(self) -> Any:
        return self.updater.config if self.updater is not None else None

    @property
    def place(self) -> int:
        return self.home.place

    def report(self, error: BaseException, during: str) -> None:
        self.home.report(error, during)

    def fail(self, error: BaseException, during: str) -> None:
        if not self.is_present or self.elder is not None:
            super().fail(error, during)  # the other life goes on
        elif self.state is FiberState.LOADING:
            # The body of the mounted fiber waits for this one, and raises the error again.
            self.attribute(error, during)
            self._failure = error
            run_steps(self.tree, self.unload_steps())
        else:
            self.home.fail(error, during)

    def leave_places(self) -> Places:
        if self.is_present:
            self._places_left = self.home.leave_places()
        return super().leave_places()

    # Its end

    def end(self) -> Completion:
        """Dispose the life, and not the mounted fiber."""
        return super().dispose()

    def _end(self) -> None:
        home, mount = self.home, self.home.updater
        if mount is not None and mount.life is self:
            mount.life = None
            home.services = {}
        if self.needs is not None and self.needs is not home.requirements:
            self.needs.unwatch()
        self.carried = {}  # what is carried belongs to the mounted fiber
        self.elder = self.needs = None
        self.tree.lives -= 1
        self.tree.silent.pop(self, None)
        super()._end()


def succeeds(fiber: Fiber, other: Fiber) -> bool:
    """Whether a fiber belongs to a life that takes the place of the one that `other` belongs to."""
    elders = {life.elder for life in fiber.lives() if isinstance(life, Life)} - {None}
    return bool(elders) and not elders.isdisjoint(other.lives())


def takes_over(place: float, other: float) -> bool:
    """Whether what is registered at `place` is to follow what was registered at `other`."""
    return (
        isinstance(place, LivePlace)
        and isinstance(other, LivePlace)
        and succeeds(place.fiber, other.fiber)
    )


def present_places(fiber: Fiber) -> Places:
    """Return the places of everything a fiber has registered, for a life beside it."""
    places = Places()
    _note(reversed(tuple(fiber.own_effects())), places)
    return places


def _note(newest_first: Iterable[Effect], places: Places) -> None:
    for effect in newest_first:
        child = getattr(effect, "child", None)
        places.note(effect.label, effect.place, present_places(child) if child else None)
        if effect.children:
            _note(reversed(tuple(effect.children)), places)
