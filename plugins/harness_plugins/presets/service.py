"""The service `presets`: compositions by name, each mounted while somebody uses it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import anyio
import attrs

from harness_core import Context, Service
from harness_core.errors import PluginError

from .composition import PresetConfig, read_composition
from .errors import UnknownPresetError
from .generation import Joined
from .generations import Generations

__all__ = ["Presets", "PresetsConfig", "find_presets"]


@attrs.frozen
class PresetsConfig:
    """The presets by name; None stands for one that is empty."""

    presets: dict[str, PresetConfig | None] = attrs.field(factory=dict)


class Presets(Service, key="presets"):
    """The presets by name. Iterating gives names."""

    inject = ("system_prompt",)
    Config = PresetsConfig
    provides = "presets"

    def __init__(self, ctx: Context, config: PresetsConfig) -> None:
        self._take(config)
        self.generations = ctx.shared_state("presets", "generations", Generations)
        self.generations.when_empty = None
        ctx.effect(lambda: lambda: self._leave(ctx), label="generations of presets")
        ctx.on_update(self._take)
        for generation in self.generations.in_use:
            generation.mount(ctx)

    def _take(self, config: PresetsConfig) -> None:
        """Take a config: who joins from now on gets it, who has joined keeps what it has."""
        self.presets: Mapping[str, PresetConfig] = {
            name: one or PresetConfig() for name, one in config.presets.items()
        }

    def _leave(self, ctx: Context) -> None:
        def forget() -> None:
            ctx.forget_state("presets", "generations")

        self.generations.when_empty = forget
        if not self.generations.in_use:
            forget()

    async def join(self, name: str) -> Joined:
        """Join a preset for the caller: what it is made of now, mounted and settled.

        The caller's fiber leaves it in the end, or whoever calls `leave`. A new generation starts
        where none is made of what the preset is made of now, and where one of its plugins has
        failed since. Raises UnknownPresetError, PresetError for a file that is no preset, and what
        mounting the plugins raises: then nothing is left, and the next one to join tries again.
        """
        config = self.presets.get(name)
        if config is None:
            raise UnknownPresetError(name, self.presets)
        ctx = self.ctx
        composition = await read_composition(self.home, name, config)
        ctx.fiber.check_open()
        generation = self.generations.find(name, composition)
        if generation is None:
            generation = self.generations.start(self.home, name, composition)
        generation.users += 1
        joined = Joined(generation, ctx.effect(lambda: generation.leave, label=f'preset "{name}"'))
        try:
            await generation.settled()
        except BaseException:
            gone = joined.leave()
            with anyio.CancelScope(shield=True):
                await gone
            raise
        return joined

    def __iter__(self) -> Iterator[str]:
        return iter(self.presets)

    def __len__(self) -> int:
        return len(self.presets)

    def __contains__(self, name: object) -> bool:
        return name in self.presets

    def __repr__(self) -> str:
        return f"<Presets {', '.join(self.presets) or '(none)'}>"


def find_presets(ctx: Context) -> Presets:
    """Return the service as seen from `ctx`; raise PluginError if there is none."""
    presets: Presets | None = ctx.get("presets")
    if presets is None:
        raise PluginError("there are no presets here: mount the plugin presets")
    return presets
