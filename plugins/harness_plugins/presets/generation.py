"""Generation: one mounted composition, and how many have joined it.

It is mounted when the first one joins and goes when the last one leaves; whoever waits for it to
settle counts. Its scope has no parent: above a preset there is the global layer alone.

A generation outlives a restart of the service, which mounts it again under the same key: so those
who have joined keep what they have, and their links hold.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator

import attrs

from harness_core import Context, Effect, Fiber, FiberState, Scope, create_scope
from harness_core.errors import InactiveFiberError
from harness_plugins.persona.api import set_persona

from .composition import Composition
from .errors import PresetError

__all__ = ["Generation", "Joined", "PresetKey"]

_BUSY = frozenset({FiberState.LOADING, FiberState.UNLOADING})


class PresetKey:
    """The key of a generation's scope, which is a part of what agents see."""

    __slots__ = ("__weakref__", "name")

    is_part = True
    """Nobody assembles for it alone: its texts may need what only an agent has."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<{self.name}>"


class Generation:
    """One composition of a preset, while it is used. `key` is what an agent is linked to."""

    scope: Scope

    def __init__(
        self,
        preset: str,
        number: int,
        composition: Composition,
        forget: Callable[[Generation], None],
    ) -> None:
        self.preset = preset
        self.number = number
        self.composition = composition
        self.key = PresetKey(f"preset {preset}" + (f" ({number})" if number > 1 else ""))
        self.users = 0
        self._forget = forget
        """Called when the last user leaves."""

    def mount(self, ctx: Context) -> None:
        """Mount the composition below the service's own context; nothing is left if it raises."""
        self.scope = create_scope(ctx, self.key)
        try:
            if self.composition.persona is not None:
                set_persona(self.scope.ctx, self.composition.persona)
            if self.composition.plugins:
                self._mount_rows(self.scope.ctx)
        except BaseException:
            self.scope.dispose()
            raise

    def _mount_rows(self, ctx: Context) -> None:
        loader = ctx.get("loader")
        if loader is None:
            raise PresetError(
                f'preset "{self.preset}": its plugins need a loader, and there is none'
            )
        refused = set(loader.refused)
        loader.mount(self.composition.plugins)
        for one in [one for one in loader.refused if one not in refused]:  # rows in a group
            raise loader.refused.pop(one)

    @property
    def fiber(self) -> Fiber:
        """The fiber that owns the generation's plugins."""
        return self.scope.ctx.fiber

    @property
    def is_mounted(self) -> bool:
        """Whether its contributions are there."""
        return self.fiber.state is FiberState.ACTIVE and not self.fiber.is_ending

    @property
    def failure(self) -> BaseException | None:
        """The error of one of its plugins that has failed."""
        failed = (one.error for one in _below(self.fiber) if one.state is FiberState.FAILED)
        return next(failed, None)

    async def settled(self) -> None:
        """Wait until its plugins have settled; raise the error of one that failed."""
        while busy := [one for one in _below(self.fiber) if one.state in _BUSY]:
            await busy[0].wait_quiet()
        if not self.is_mounted:
            raise InactiveFiberError(self.fiber)
        if self.failure is not None:
            raise self.failure

    def leave(self) -> Awaitable[None] | None:
        """Count one user less. The last one's leaving disposes it: await what is returned then."""
        self.users -= 1
        if self.users > 0:
            return None
        self._forget(self)
        return self.scope.dispose()

    def __repr__(self) -> str:
        return f"<Generation {self.number} of preset {self.preset}: {self.users} users>"


@attrs.frozen(eq=False)
class Joined:
    """That somebody has joined a generation: an effect of his fiber."""

    generation: Generation
    effect: Effect

    @property
    def key(self) -> PresetKey:
        """The key to link to."""
        return self.generation.key

    @property
    def preset(self) -> str:
        """The name of the preset."""
        return self.generation.preset

    def leave(self) -> Awaitable[None]:
        """Leave the generation; await it to see the last one out."""
        return self.effect.dispose()


def _below(fiber: Fiber) -> Iterator[Fiber]:
    for child in fiber.children:
        yield child
        yield from _below(child)
