"""Hosting: context managers that a fiber holds open. Contract: section 2, "Effects" (`enter`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import PluginError
from .completion import Completion
from .jobs import Job
from .signatures import class_of
from .steps import Step, Steps

if TYPE_CHECKING:
    from .fiber import Fiber

__all__ = ["enter", "enter_now"]


def enter_now(fiber: Fiber, manager: Any, label: str) -> object:
    """Enter a synchronous context manager that `fiber` will leave at teardown."""
    fiber.check_open()
    cls = class_of(manager)
    value: object = cls.__enter__(manager)

    def leave() -> None:
        cls.__exit__(manager, None, None, None)

    fiber.own(leave, f"exit {label}")
    return value


async def enter(fiber: Fiber, manager: Any, label: str) -> object:
    """Enter an asynchronous context manager in a task of its own, and return its value.

    The same task leaves it, so that cancel scopes and task groups inside may be used by plugins:
    they must be left by the task that entered them. Its crash while it is held fails the fiber.
    """
    hosted = _Hosted(fiber, manager, label)
    return await hosted.entered()


class _Hosted:
    """An asynchronous context manager, held open by a task until it is released."""

    def __init__(self, fiber: Fiber, manager: Any, label: str) -> None:
        self.fiber = fiber
        self.manager = manager
        self.label = label
        self.value: object = None
        self.error: BaseException | None = None
        self.is_entered = False
        self.settled = Completion()
        self.released = Completion()
        self.effect = fiber.register(f"entered {label}", steps=self._leave)
        self.job = Job(fiber, lambda: str(self.effect), self._hold, self._end)
        fiber.tree.spawn(self.job.run)

    async def _hold(self) -> None:
        async with self.manager as value:
            self.value = value
            self.is_entered = True
            self.settled.finish()
            await self.released.wait()

    def _leave(self) -> Steps:
        if self.is_entered:
            self.released.finish()
        else:
            self.job.cancel()
        if not self.job.over.done:
            yield Step(job=self.job)

    def _end(self, error: BaseException | None) -> None:
        self.effect.forget()
        if not self.is_entered:
            self.error = error or PluginError(f"entering {self.label} was cancelled")
            self.settled.finish()
        elif not self.released.done and not self.job.cancelled:
            ended = PluginError(f"context manager {self.label} ended while it was held")
            self.fiber.fail(error or ended, f"holding {self.label}")
        elif error is not None:
            self.fiber.report(error, f"leaving {self.label}")

    async def entered(self) -> object:
        try:
            await self.settled.wait()
        except BaseException:
            self.effect.dispose()
            raise
        if self.error is not None:
            raise self.error
        return self.value
