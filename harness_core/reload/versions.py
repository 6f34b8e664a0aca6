"""Versions: which plugin a fiber runs after an exchange, and which modules show meanwhile.

While fibers are on their way, `sys.modules` shows the versions that belong to the code that runs:
the old ones when an old plugin is torn down or runs again, the new ones when a new one is checked,
runs or is torn down. So an import inside a function gives what belongs together.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from ..kernel.context import Context
from ..kernel.fiber import Fiber
from ..kernel.lifecycle import FiberState
from .plugins import PluginFinder
from .staged import Staged

__all__ = ["Versions"]

_MOVING = (FiberState.LOADING, FiberState.UNLOADING)


class Versions:
    """Of `fibers`, none below another, the old plugins and the new ones.

    The new modules have been staged and show; without `staged` no module has changed.
    """

    def __init__(
        self, fibers: Sequence[Fiber], finder: PluginFinder, staged: Staged | None
    ) -> None:
        self.fibers = tuple(fibers)
        self.unwell: list[Fiber] = []
        """Fibers that could not run what they were to run."""
        self._finder = finder
        self._staged = staged
        self._changing = {fiber: fiber.plugin for fiber in fibers}
        """Those that have another plugin, or none, in the new version, with the old one."""
        self._old = {id(plugin) for plugin in self._changing.values()}

    def find(self, fiber: Fiber) -> object:
        """Return the plugin that one of the fibers is to run; raise StagingError for none."""
        found = self._finder.find(fiber, self._staged)
        if found is self._changing.get(fiber):
            del self._changing[fiber]
            self._old.discard(id(found))
        return found

    def show(self, plugin: object) -> None:
        """Let the modules show to which a plugin belongs whose code runs next."""
        if self._staged is None:
            return
        if id(plugin) in self._old:
            self._staged.withdraw()
        else:
            self._staged.commit()

    def show_new(self) -> None:
        """Let the new modules show, for plugins that are mounted for the first time."""
        if self._staged is not None:
            self._staged.commit()

    @contextmanager
    def following(self, ctx: Context) -> Generator[None, None, None]:
        """Let the modules follow the fibers, for the block."""

        def follow(fiber: Fiber, _: FiberState) -> None:
            if fiber in self._changing and fiber.state in _MOVING:
                self.show(fiber.plugin)

        if self._staged is None:
            yield
            return
        effect = ctx.on("fiber/state", follow, unfiltered=True)
        try:
            yield
        finally:
            effect()
