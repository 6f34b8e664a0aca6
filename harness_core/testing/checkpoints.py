"""Checkpoints: the places at which a coroutine gives way to the event loop, numbered from 1.

`Checkpoints` drives an awaitable step by step. It counts where it waits, and can let a test step
in at any of them: to throw an error there, or to do something else, such as cancelling, in just
that moment. Nothing is patched and no time passes, so the same number is the same place each time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, Generic, TypeVar

__all__ = ["Checkpoints", "Intrusion", "count_checkpoints"]

T = TypeVar("T")

Intrusion = Callable[[int], BaseException | None]
"""Called at each checkpoint with its number; an error that it returns is thrown there."""


class Checkpoints(Generic[T]):
    """Await `awaitable` and count its checkpoints.

    `passed` is how many there were so far. `intrude(number)` is called at each of them, after the
    code has decided to wait and before the loop hears of it; what it returns is thrown at once.
    """

    def __init__(self, awaitable: Awaitable[T], intrude: Intrusion | None = None) -> None:
        self._awaitable = awaitable
        self._intrude = intrude
        self.passed = 0

    def __await__(self) -> Generator[Any, Any, T]:
        inner: Any = self._awaitable.__await__()
        sent: Any = None
        error: BaseException | None = None
        while True:
            try:
                if error is not None:
                    yielded = inner.throw(error)
                elif sent is not None:
                    yielded = inner.send(sent)
                else:
                    yielded = next(inner)
            except StopIteration as stop:
                result: T = stop.value
                return result
            sent, error = None, self._step_in()
            if error is not None:
                continue
            try:
                sent = yield yielded
            except GeneratorExit:
                inner.close()
                raise
            except BaseException as thrown:
                error = thrown

    def _step_in(self) -> BaseException | None:
        self.passed += 1
        return self._intrude(self.passed) if self._intrude is not None else None


async def count_checkpoints(awaitable: Awaitable[object]) -> int:
    """Run an awaitable and return how often it waited."""
    counted = Checkpoints(awaitable)
    await counted
    return counted.passed
