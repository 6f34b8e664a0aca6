"""Jobs: plugin code in tasks of the tree, which can always be made to end.

`Driven` drives a coroutine step by step, through nothing but the coroutine protocol: so it sees
each step, can tell code that ignores its cancellation, and can end it by force. `Job` is a task
around one. Contract: law L6, "Disposal always ends".
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any

import anyio

from ..errors import PluginError
from .completion import Completion

if TYPE_CHECKING:
    from .tree import Owner

__all__ = ["Driven", "Job", "discard", "logger"]

logger = logging.getLogger("harness_core")

STUBBORN = 100
"""How many cancellations a coroutine may swallow before it is closed by force.

Cancellation is delivered again at each turn of the loop; honest clean-up code meets a handful.
"""

FORCE = 10
"""How often a cancellation is thrown at once into code that is ended by force."""


class Driven:
    """Drive a plugin's coroutine step by step, so that it can be observed and always be ended.

    `around(True)` is called before each step and `around(False)` after it: this is how effects
    made inside an effect's body find their owner without ambient state. Once `is_told()` to end,
    a coroutine that swallows `STUBBORN` cancellations is closed; `end_by_force` closes one that
    shields itself.
    """

    __slots__ = (
        "_around",
        "_awaitable",
        "_forced",
        "_is_told",
        "_swallowed",
        "_waiting_on",
        "was_forced",
    )

    def __init__(
        self,
        awaitable: Awaitable[Any],
        around: Callable[[bool], None] | None = None,
        *,
        is_told: Callable[[], bool],
    ) -> None:
        self._awaitable = awaitable
        self._around = around
        self._is_told = is_told
        self._swallowed = 0
        self._forced = False
        self._waiting_on: object = None
        self.was_forced = False

    def end_by_force(self) -> None:
        """Close the coroutine even if it shields itself from cancellation."""
        self._forced = True
        cancel = getattr(self._waiting_on, "cancel", None)
        if cancel is not None:
            cancel()

    def _must_close(self, error: BaseException) -> bool:
        if not self._is_told() or not isinstance(error, anyio.get_cancelled_exc_class()):
            return False  # code may time out as often as it likes, by scopes of its own
        self._swallowed += 1
        return self._forced or self._swallowed >= STUBBORN

    def __await__(self) -> Generator[Any, Any, Any]:
        inner: Any = self._awaitable.__await__()
        around = self._around
        sent: Any = None
        error: BaseException | None = None
        while True:
            if error is not None and self._must_close(error):
                self.was_forced = True
                return _end(inner, error)
            if around is not None:
                around(True)
            try:
                if error is not None:
                    yielded = inner.throw(error)
                else:
                    yielded = next(inner) if sent is None else inner.send(sent)
            except StopIteration as stop:
                return stop.value
            finally:
                if around is not None:
                    around(False)
            error = None
            self._waiting_on = yielded
            try:
                sent = yield yielded
            except GeneratorExit:
                _close(inner)
                raise
            except BaseException as thrown:
                error = thrown
            if self._forced and error is None:
                error = anyio.get_cancelled_exc_class()("ended by force")


def discard(awaitable: object) -> None:
    """Close a coroutine that nobody will await; other awaitables need nothing."""
    close = getattr(awaitable, "close", None)
    if close is not None:
        close()


def _end(inner: Any, error: BaseException) -> Any:
    """Throw `error` into a coroutine until it leaves; close it if it never does.

    Closing alone is not enough: it does not reach into an asynchronous generator that the
    coroutine is waiting for, and would leave the cancel scopes in there entered.
    """
    for _ in range(FORCE):
        try:
            inner.throw(error)
        except StopIteration as stop:
            return stop.value
    _close(inner)
    raise error


def _close(inner: Any) -> None:
    try:
        inner.close()
    except RuntimeError:
        pass  # it ignored even GeneratorExit; nobody resumes it again


class Job:
    """A piece of plugin code in a task of the tree: a body, a background task, a disposer.

    `is_awaited` says whether the fiber cannot load or unload before this code ends; `made` is what
    `start` returns, where that was made already, to be closed if the job never starts. Exactly one
    `end(error)` call follows, in that task, once the code is over; `over` finishes after it.
    `error` is None when the code returned or was cancelled through `cancel`.
    """

    __slots__ = (
        "_around",
        "_driven",
        "_end",
        "_made",
        "_scope",
        "_start",
        "_what",
        "is_awaited",
        "over",
        "owner",
    )

    def __init__(
        self,
        owner: Owner,
        what: Callable[[], str],
        start: Callable[[], Awaitable[Any]],
        end: Callable[[BaseException | None], None],
        around: Callable[[bool], None] | None = None,
        *,
        is_awaited: bool = True,
        made: object = None,
    ) -> None:
        self.is_awaited = is_awaited
        self.owner = owner
        self._what = what
        self._made = made
        self._start = start
        self._end = end
        self._around = around
        self._scope = anyio.CancelScope()
        self._driven: Driven | None = None
        self.over = Completion()

    @property
    def what(self) -> str:
        """What it is, and where it was registered, for messages."""
        return self._what()

    @property
    def cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._scope.cancel_called

    def cancel(self) -> None:
        """Ask the code to leave; it has not left until `over`."""
        self._scope.cancel()

    def end_by_force(self) -> None:
        """Close code that ignores cancellation."""
        if self._driven is not None:
            self._driven.end_by_force()

    async def run(self) -> None:
        """Run the code; never raises."""
        error: BaseException | None = None
        try:
            if self.cancelled:
                discard(self._made)
            else:
                with self.owner.tree.running(self), self._scope:
                    code = self._start()
                    if not hasattr(code, "__await__"):
                        raise PluginError(f"{self.what} gave {code!r}: expected an async function")
                    self._driven = Driven(code, self._around, is_told=lambda: self.cancelled)
                    await self._driven
        except BaseException as raised:
            error = raised
            if isinstance(raised, anyio.get_cancelled_exc_class()) and not self.cancelled:
                # Whoever awaits the fiber would take this for a cancellation of his own.
                error = PluginError(f"{self.what} was cancelled from outside its tree")
                error.__cause__ = raised
        if self._driven is not None and self._driven.was_forced:
            what = self.what
            self.owner.report(
                TimeoutError(f"{what} ignored its cancellation: ended by force"), what
            )
        try:
            self._end(error)
        finally:
            self.over.finish()
