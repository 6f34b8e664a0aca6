"""Generations: those in use, and which of them another one may join.

They outlive a restart of the service, as the agents do that have joined them.
"""

from __future__ import annotations

from collections.abc import Callable

from harness_core import Context

from .composition import Composition
from .generation import Generation

__all__ = ["Generations"]


class Generations:
    """The generations in use, oldest first."""

    def __init__(self) -> None:
        self.in_use: list[Generation] = []
        self.when_empty: Callable[[], object] | None = None
        """Set while no service uses them: called when the last one goes."""
        self._numbers: dict[str, int] = {}

    def find(self, preset: str, composition: Composition) -> Generation | None:
        """Return the generation in use that is made of this, and sound."""
        found = (
            one
            for one in reversed(self.in_use)
            if one.preset == preset and one.composition == composition and one.failure is None
        )
        return next(found, None)

    def start(self, ctx: Context, preset: str, composition: Composition) -> Generation:
        """Mount a new generation, which somebody is about to join."""
        number = self._numbers[preset] = self._numbers.get(preset, 0) + 1
        generation = Generation(preset, number, composition, self.remove)
        generation.mount(ctx)
        self.in_use.append(generation)
        return generation

    def remove(self, generation: Generation) -> None:
        """Forget a generation that nobody uses."""
        if generation in self.in_use:
            self.in_use.remove(generation)
        if not self.in_use and self.when_empty is not None:
            self.when_empty()
