"""One plugin mounted with one config: what its fiber runs, and how its config changes.

Contract: section 2, "Config"; law L5.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

import anyio

from ..errors import ConfigError, InactiveFiberError
from .effects import Effect
from .fiber import Fiber
from .lifecycle import FiberState
from .plugin import PluginSpec

if TYPE_CHECKING:
    from .context import Context

__all__ = ["Mount", "UpdateHandler"]

UpdateHandler = Callable[[Any], "Awaitable[object] | object"]
"""Takes the new config. Returning False asks for a restart after all."""


class Mount:
    """What a fiber runs. `config` is the checked config of the present life."""

    __slots__ = ("config", "ctx", "fault", "handlers", "lock", "spec")

    def __init__(self, spec: PluginSpec, ctx: Context) -> None:
        self.spec = spec
        self.ctx = ctx
        self.config: Any = None
        self.fault: ConfigError | None = None
        """Why there is no config to run with."""
        self.handlers: list[UpdateHandler] = []
        self.lock: anyio.Lock | None = None

    def run(self) -> object:
        """Run the plugin's body; raise ConfigError while its config is invalid."""
        if self.fault is not None:
            raise self.fault
        spec = self.spec
        if spec.container_class is not None:
            from .containers import build_container

            build_container(self.ctx, spec.container_class, self.config)
        return spec.run(self.ctx, self.config)

    def accept_updates(self, handler: UpdateHandler) -> Effect:
        """Let `handler` take config updates in place, for this life of the plugin."""
        self.handlers.append(handler)
        return self.ctx.fiber.register(
            "config update handler", lambda: self.handlers.remove(handler)
        )

    async def update(self, fiber: Fiber, raw: object) -> None:
        """Change the config: all or nothing."""
        config = self.spec.structure(raw)
        if self.lock is None:
            self.lock = anyio.Lock()
        async with self.lock:
            if fiber.is_ending:
                raise InactiveFiberError(fiber)
            in_place = fiber.state is FiberState.ACTIVE and bool(self.handlers)
            if in_place and await self._in_place(config):
                self.config = config
            else:
                await self._by_restart(fiber, config)

    async def _in_place(self, config: object) -> bool:
        try:
            result = self.handlers[-1](config)
            if isawaitable(result):
                result = await result
        except Exception as error:
            self.ctx.fiber.attribute(error, "config update handler")
            raise
        return result is not False

    async def _by_restart(self, fiber: Fiber, config: object) -> None:
        before = self.config, self.fault
        self.config, self.fault = config, None
        with fiber.tree.swapping(fiber):
            try:
                await fiber.reload()
            except BaseException:  # the caller was cancelled: the old config goes on
                self.config, self.fault = before
                fiber.start_reload()
                with anyio.CancelScope(shield=True), anyio.move_on_after(fiber.grace):
                    await fiber.wait_quiet()
                raise
            if fiber.state is FiberState.FAILED and fiber.error is not None:
                error = fiber.error
                self.config, self.fault = before
                await fiber.reload()
                await fiber.tree.settle_swapped()
                raise error
            await fiber.tree.settle_swapped()
