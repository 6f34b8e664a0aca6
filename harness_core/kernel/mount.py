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
from .completion import Completion
from .effects import Effect
from .fiber import Fiber, Requirements
from .life import Life
from .lifecycle import FiberState
from .plugin import PluginSpec
from .succession import Show, Succession, failure_in

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

    __slots__ = ("_handlers", "_lock", "ctx", "life", "running", "succession")

    def __init__(self, running: Running, ctx: Context) -> None:
        self.running = running
        self.ctx = ctx
        self._handlers: list[UpdateHandler] = []
        self._lock: anyio.Lock | None = None
        self.life: Life | None = None
        """The present life of a plugin that may live twice at once."""
        self.succession: Completion | None = None
        """The end of the succession that is under way."""

    @property
    def config(self) -> Any:
        """The checked config of the present life."""
        return self.running.config

    @property
    def handlers(self) -> list[UpdateHandler]:
        """Those who take config updates in place."""
        inner: Mount | None = self.life.updater if self.life is not None else None
        return inner.handlers if inner is not None else self._handlers

    def run(self) -> object:
        """Run the plugin, in this fiber or in a life of its own.

        Raises ConfigError while its config is invalid.
        """
        if self.running.fault is not None:
            raise self.running.fault
        return self._live() if self.running.spec.overlap else self.run_body()

    def _live(self) -> object:
        fiber = self.ctx.fiber
        life = self.life = self.new_life(self.running, fiber.requirements)
        fiber.services = life.services
        fiber.adopt(life)
        life.start()
        if life.state is FiberState.LOADING:
            return _settled(life)
        _check(life)
        return None

    def new_life(self, running: Running, needs: Requirements | None) -> Life:
        """Return a life in which the plugin can run; it has not been started."""
        life = Life(self.ctx.fiber, running.plugin, needs)
        life.ctx = self.ctx.derive_for(life, running.spec.inject)
        mount = life.updater = Mount(running, life.ctx)
        life.setup = mount.run_body
        return life

    def put(self, fiber: Fiber, running: Running) -> None:
        """Let a fiber that is unloaded, or about to be, run something from its next load on."""
        self.running = running
        self.ctx.require(fiber, running.spec.inject)
        fiber.plugin = running.plugin

    def run_body(self) -> object:
        """Run the plugin's body."""
        running, spec = self.running, self.running.spec
        if spec.container_class is not None:
            from .containers import build_container

            build_container(self.ctx, spec.container_class, running.config)
        return spec.run(self.ctx, running.config)

    def accept_updates(self, handler: UpdateHandler) -> Effect:
        """Let `handler` take config updates in place, for this life of the plugin."""
        self._handlers.append(handler)
        return self.ctx.fiber.register(
            "config update handler", lambda: self._handlers.remove(handler)
        )

    async def update(self, fiber: Fiber, raw: object) -> None:
        """Change the config: all or nothing."""
        config = self.running.spec.structure(raw)
        async with self._alone():
            if fiber.is_ending:
                raise InactiveFiberError(fiber)
            changed = attrs.evolve(self.running, raw=raw, config=config, fault=None)
            in_place = fiber.state is FiberState.ACTIVE and bool(self.handlers)
            if in_place and await self._in_place(config):
                self.running = changed
            else:
                await self._by_restart(fiber, changed)

    def _alone(self) -> anyio.Lock:
        """Return what is held while what runs changes."""
        if self._lock is None:
            self._lock = anyio.Lock()
        return self._lock

    async def _in_place(self, config: object) -> bool:
        try:
            result = self.handlers[-1](config)
            if isawaitable(result):
                result = await result
        except Exception as error:
            self.ctx.fiber.attribute(error, "config update handler")
            raise
        return result is not False

    @property
    def overlaps(self) -> bool:
        """Whether there is a life that the next one could take over from."""
        return self.running.spec.overlap and self.life is not None

    async def succeed(self, fiber: Fiber, running: Running, show: Show) -> bool:
        """Let another life, with another plugin or config, take over from the present one.

        Returns whether that is possible; nothing has been touched if not. Raises what the body
        raised. `show` is told whose code runs next.
        """
        async with self._alone():
            able = self.overlaps and running.spec.overlap and not fiber.is_ending
            return able and await self._by_succession(fiber, running, show)

    async def _by_succession(
        self, fiber: Fiber, changed: Running, show: Show = lambda _: None
    ) -> bool:
        """Let the next life take over; return whether it could. Raises what its body raised."""
        swap = fiber.tree.gate.begin(fiber)
        succession = Succession([(fiber, changed)], swap, show)
        errors: list[BaseException] = []

        async def run() -> None:
            try:
                error = await succession.begin()
                if error is None:
                    succession.announce()
                    await swap.settle()
                    error = failure_in(swap)
                if error is not None:
                    errors.append(error)
                await (succession.end() if error is None else succession.abort())
            except BaseException as error:  # a fault of this package; it belongs to the caller
                errors.append(error)
            finally:
                swap.end()

        # In a task of the tree: the caller may be cancelled, halfway.
        fiber.tree.spawn(run)
        await swap.opened.wait()
        if errors:
            raise errors[0]
        for lost, _ in succession.lost:
            lost.hold = False
        return not succession.lost

    async def _by_restart(self, fiber: Fiber, changed: Running) -> None:
        if self.overlaps and await self._by_succession(fiber, changed):
            return
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


async def _settled(life: Life) -> None:
    await life.wait_quiet()
    _check(life)


def _check(life: Life) -> None:
    """Raise what kept a life from loading."""
    if life.state is FiberState.FAILED and life.error is not None:
        raise life.error
