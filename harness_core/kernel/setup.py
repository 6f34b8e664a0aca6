"""What a body may hand back, and how it is taken: disposers, context managers, generators.

The body of a plugin and the body of an effect follow the same rules, so they share this module.
Contract: section 2, "Plugin forms".
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any, cast

from ..errors import PluginError
from .effects import Effect, Owned, Site
from .steps import Completion, Job, Step, Steps, discard

if TYPE_CHECKING:
    from .fiber import Fiber

__all__ = ["absorb", "accepts", "class_name", "class_of", "enter", "enter_now"]

_EXPECTED = (
    "expected nothing, a disposer (a callable), a context manager, an async context manager, "
    "or a generator that yields disposers"
)


def absorb(fiber: Fiber, outcome: object, label: str) -> Awaitable[None] | None:
    """Take what a body returned; return what is left to be awaited, or None.

    Raises PluginError for anything that is not one of the forms, and whatever the body raises.
    """
    if outcome is None or _is_owned(fiber, outcome):
        return None
    if isinstance(outcome, Effect):  # of somebody else; awaitable, but meant as a disposer
        fiber.own(outcome.dispose, f"disposer from {label}", outcome.site)
        return None
    cls = type(outcome)
    if inspect.isgenerator(outcome):
        _absorb_generator(fiber, cast("Generator[object, None, object]", outcome), label)
        return None
    if inspect.isawaitable(outcome):
        return _Awaited(fiber, outcome, label)
    if inspect.isasyncgen(outcome):
        return _absorb_async_generator(fiber, cast("AsyncGenerator[object, None]", outcome), label)
    # Before callables: what contextlib.contextmanager makes is callable too, as a decorator.
    if hasattr(cls, "__aenter__") and hasattr(cls, "__aexit__"):
        return _Awaited(fiber, enter(fiber, outcome, label), label, result_counts=False)
    if hasattr(cls, "__enter__") and hasattr(cls, "__exit__"):
        enter_now(fiber, outcome, label)
        return None
    if callable(outcome):
        fiber.own(outcome, f"disposer from {label}", _site_of(outcome))
        return None
    raise PluginError(f"{label} returned {outcome!r} ({cls.__name__}): {_EXPECTED}")


def _is_owned(fiber: Fiber, outcome: object) -> bool:
    """Whether a body hands over what is its own already.

    An effect that was made elsewhere is a disposer like any other.
    """
    if isinstance(outcome, Effect):
        return outcome.holder is fiber.collector
    return isinstance(outcome, Owned)


def _absorb_generator(fiber: Fiber, body: Generator[object, None, object], label: str) -> None:
    try:
        for item in body:
            _absorb_yielded(fiber, item, label)
    finally:
        body.close()


async def _absorb_async_generator(
    fiber: Fiber, body: AsyncGenerator[object, None], label: str
) -> None:
    try:
        async for item in body:
            _absorb_yielded(fiber, item, label)
    finally:
        await body.aclose()


def _absorb_yielded(fiber: Fiber, item: object, label: str) -> None:
    if item is None or _is_owned(fiber, item):
        return
    if not callable(item):
        raise PluginError(
            f"{label} yielded {item!r} ({type(item).__name__}): expected a disposer (a callable)"
        )
    fiber.own(item, f"disposer from {label}", _site_of(item))


def _site_of(disposer: object) -> Site | None:
    """Return where a disposer is written: who returned it has left the stack already."""
    code = getattr(disposer, "__code__", None)
    return (code, 0) if code is not None else None


class _Awaited:
    """A body that is still to be awaited, and whose result is then taken in turn."""

    __slots__ = ("body", "fiber", "label", "result_counts")

    def __init__(
        self, fiber: Fiber, body: Awaitable[object], label: str, *, result_counts: bool = True
    ) -> None:
        self.fiber = fiber
        self.body = body
        self.label = label
        self.result_counts = result_counts

    def __await__(self) -> Generator[Any, Any, None]:
        return self._run().__await__()

    async def _run(self) -> None:
        outcome = await self.body
        rest = absorb(self.fiber, outcome, self.label) if self.result_counts else None
        if rest is not None:
            await rest

    def close(self) -> None:
        """Give up a body that was never started."""
        discard(self.body)


def class_of(value: object) -> Any:
    """Return the class of something untyped, as untyped as that."""
    return type(value)


def class_name(value: object) -> str:
    """Return the name of the class of something untyped, for messages."""
    return type(value).__name__


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


def accepts(function: Callable[..., object], count: int, *, required: bool = False) -> int:
    """Return how many of `count` positional arguments a callable takes.

    With `required`, a parameter whose default is not None does not count: in `lambda name=name:
    ...` it holds a value, and asks for nothing. Raises PluginError if the callable needs more, or
    keyword arguments that nobody would pass.
    """
    code = getattr(function, "__code__", None)
    if code is not None and inspect.isfunction(function) and not code.co_flags & 0x0C:
        defaults = function.__defaults__ or ()
        needed = code.co_argcount - len(defaults)
        if needed <= count and not code.co_kwonlyargcount:
            asks = needed + sum(1 for default in defaults if default is None or not required)
            return int(min(count, asks))
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return count
    taken = 0
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            return count
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            if required and parameter.default not in (parameter.empty, None):
                continue
            if taken == count and parameter.default is parameter.empty:
                raise PluginError(f"{function!r} needs more than {count} arguments")
            taken = min(count, taken + 1)
        elif parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty:
            raise PluginError(
                f"{function!r} needs the keyword argument {parameter.name!r}, which is not passed"
            )
    return taken
