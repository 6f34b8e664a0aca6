"""One plugin mounted with one config: what its fiber runs, and how its config changes.

Contract: section 2, "Config"; law L5.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

import anyio
import attrs

from ..errors import ConfigError, InactiveFiberError
from .effects import Effect
from .fiber import Fiber
from .lifecycle import FiberState
from .plugin import PluginSpec

if TYPE_CHECKING:
    from .context import Context

__all__ = ["Mount", "Running", "UpdateHandler"]

UpdateHandler = Callable[[Any], "Awaitable[object] | object"]
"""Takes the new config. Returning False asks for a restart after all."""


@attrs.define
class Running:
    """What a fiber runs: a plugin as it was given and as it was read, a config likewise.

    `fault` says why there is no config to run with.
    """

    plugin: object
    spec: PluginSpec
    raw: object
    config: Any
    fault: ConfigError | None


class Mount:
    """What a fiber runs, and the handlers that take config updates in place."""

    __slots__ = ("ctx", "handlers", "lock", "running")

    def __init__(self, running: Running, ctx: Context) -> None:
        self.running = running
        self.ctx = ctx
        self.handlers: list[UpdateHandler] = []
        self.lock: anyio.Lock | None = None

    @property
    def config(self) -> Any:
        """The checked config of the present life."""
        return self.running.config

    def run(self) -> object:
        """Run the plugin's body; raise ConfigError while its config is invalid."""
        running = self.running
        if running.fault is not None:
            raise running.fault
        spec = running.spec
        if spec.container_class is not None:
            from .containers import build_container

            build_container(self.ctx, spec.container_class, running.config)
        return spec.run(self.ctx, running.config)

    def accept_updates(self, handler: UpdateHandler) -> Effect:
        """Let `handler` take config updates in place, for this life of the plugin."""
        self.handlers.append(handler)
        return self.ctx.fiber.register(
            "config update handler", lambda: self.handlers.remove(handler)
        )

    async def update(self, fiber: Fiber, raw: object) -> None:
        """Change the config: all or nothing."""
        config = self.running.spec.structure(raw)
        if self.lock is None:
            self.lock = anyio.Lock()
        async with self.lock:
            if fiber.is_ending:
                raise InactiveFiberError(fiber)
            changed = attrs.evolve(self.running, raw=raw, config=config, fault=None)
            in_place = fiber.state is FiberState.ACTIVE and bool(self.handlers)
            if in_place and await self._in_place(config):
                self.running = changed
            else:
                await self._by_restart(fiber, changed)

    async def _in_place(self, config: object) -> bool:
        try:
            result = self.handlers[-1](config)
            if isawaitable(result):
                result = await result
        except Exception as error:
            self.ctx.fiber.attribute(error, "config update handler")
            raise
        return result is not False

    async def _by_restart(self, fiber: Fiber, changed: Running) -> None:
        before, self.running = self.running, changed
        swap = fiber.tree.gate.begin(fiber)
        try:
            await fiber.reload()
            error = fiber.error if fiber.state is FiberState.FAILED else None
            if error is not None:
                self.running = before
                await fiber.reload()
        except BaseException:  # the caller was cancelled: the old config goes on
            self.running = before
            fiber.start_reload()
            raise
        finally:
            opened = swap.end()
        await opened.wait()
        if error is not None:
            raise error
