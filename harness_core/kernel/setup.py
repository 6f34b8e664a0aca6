"""What a body may hand back, and how it is taken: disposers, context managers, generators.

The body of a plugin and the body of an effect follow the same rules, so they share this module.
Contract: section 2, "Plugin forms".
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Awaitable, Generator
from typing import TYPE_CHECKING, Any, cast

from ..errors import PluginError
from .effects import Effect, Owned, Site
from .hosting import enter, enter_now
from .jobs import discard

if TYPE_CHECKING:
    from .fiber import Fiber

__all__ = ["absorb"]

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
