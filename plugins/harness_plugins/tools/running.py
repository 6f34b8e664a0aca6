"""One run of a tool's code: in the caller's task, owned by the tool's plugin.

The caller's cancellation, a deadline, and the disposal of the plugin all cancel the code; the
plugin's teardown waits until it has left. A task of its own would cost more than most tools do.
Code that swallows one cancellation after the other is closed by force.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Generator
from inspect import isawaitable
from typing import Any

import anyio

from harness_core import Fiber

__all__ = ["Gone", "Interrupted", "TimedOut", "run_owned"]

STUBBORN = 100
"""How many cancellations code may swallow. One comes at each turn of the loop."""


class Gone(Exception):
    """The plugin was disposed while its code ran."""


class TimedOut(Exception):
    """The code took too long."""


class Interrupted(Exception):
    """The code was cancelled by something inside itself, and by nobody who may."""


class _Run:
    """The scope that the code runs in, and the effect that lets its plugin cancel it."""

    def __init__(self, fiber: Fiber, name: str, site: Any, timeout: float | None) -> None:
        self.is_gone = False
        self.closes = False
        self._over: anyio.Event | None = None
        self._is_over = False
        # The clock of anyio, without its search for the loop that runs.
        now = asyncio.get_running_loop().time()
        deadline = math.inf if timeout is None else now + timeout
        self.scope = anyio.CancelScope(deadline=deadline)
        self._effect = fiber.register(("tool call", name), self._cancel, site=site)

    def _cancel(self) -> Awaitable[None] | None:
        if self._is_over:
            return None
        self.is_gone = True
        self.scope.cancel()
        return self._left()

    async def _left(self) -> None:
        if self._over is None:
            self._over = anyio.Event()
        try:
            if not self._is_over:
                await self._over.wait()
        except BaseException:
            self.closes = True  # the plugin's patience is at its end
            raise

    def end(self) -> None:
        self._is_over = True
        self._effect.forget()
        if self._over is not None:
            self._over.set()


class _Driven:
    """Drives a coroutine, and closes it when it swallows too many cancellations."""

    __slots__ = ("_awaitable", "_run")

    def __init__(self, awaitable: Awaitable[Any], run: _Run) -> None:
        self._awaitable = awaitable
        self._run = run

    def __await__(self) -> Generator[Any, Any, Any]:
        inner: Any = self._awaitable.__await__()
        swallowed = 0
        error: BaseException | None = None
        sent: Any = None
        while True:
            try:
                if error is not None:
                    yielded = inner.throw(error)
                else:
                    yielded = next(inner) if sent is None else inner.send(sent)
            except StopIteration as stop:
                return stop.value
            error = None
            try:
                sent = yield yielded
            except GeneratorExit:
                inner.close()
                raise
            except BaseException as thrown:
                error = thrown
                if self._run.scope.cancel_called:
                    swallowed += 1
                    if swallowed > STUBBORN or self._run.closes:
                        _close(inner)
                        raise


def _close(inner: Any) -> None:
    try:
        inner.close()
    except RuntimeError:
        pass  # it ignores even that; nobody resumes it again


async def run_owned(
    fiber: Fiber, start: Callable[[], Any], *, name: str, site: Any, timeout: float | None
) -> Any:
    """Run `start()`, and await what it returns; the code belongs to `fiber`.

    Raises what the code raises; Gone, TimedOut or Interrupted; InactiveFiberError if the fiber is
    closing already. A cancellation of the caller goes through as what it is.
    """
    run = _Run(fiber, name, site, timeout)
    task = asyncio.current_task()
    asked = task.cancelling() if task is not None else 0
    try:
        with run.scope:
            value = start()
            if isawaitable(value):
                value = await _Driven(value, run)
            if not run.scope.cancel_called:
                return value
    except asyncio.CancelledError as error:
        is_outer = task is not None and task.cancelling() > asked
        if is_outer or anyio.get_current_task().has_pending_cancellation():
            raise
        raise Interrupted("it was cancelled from inside") from error
    finally:
        run.end()
    raise Gone if run.is_gone else TimedOut
