"""Waterfall: one run through listeners as middleware around an innermost call.

Contract: section 3, `waterfall`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from types import CoroutineType
from typing import Any

from ..errors import PluginError
from .listeners import Event, Listener, Observer, is_awaitable, text_of

__all__ = ["run_waterfall"]

_COROUTINE: Any = CoroutineType


class _Run:
    """What the levels of one run share.

    Not a closure: one that calls itself is a reference cycle, and would keep each run's arguments
    until the next garbage collection.
    """

    __slots__ = ("args", "event", "inner", "listeners", "observer", "reached")

    def __init__(
        self,
        event: str | Event[Any, Any],
        args: tuple[Any, ...],
        inner: Callable[..., Any],
        listeners: Sequence[Listener],
        observer: Observer | None,
    ) -> None:
        self.event = event
        self.args = args
        self.inner = inner
        self.listeners = listeners
        self.observer = observer
        self.reached = -1
        """How far it has come; each part runs once."""


def run_waterfall(
    event: str | Event[Any, Any],
    args: tuple[Any, ...],
    inner: Callable[..., Any],
    listeners: Sequence[Listener],
    observer: Observer | None,
) -> Coroutine[Any, Any, Any]:
    """Return the run, to be awaited: listeners outermost first, then `inner`."""
    return _run_from(_Run(event, args, inner, listeners, observer), 0)


async def _run_from(run: _Run, index: int) -> Any:
    listeners = run.listeners
    if index <= run.reached:
        name = listeners[index - 1].describe()
        raise PluginError(f"listener {name} called next() twice: keep its result")
    run.reached = index
    count = len(listeners)
    observer = run.observer
    while index < count:
        listener = listeners[index]
        index += 1
        if not listener.active or (listener.once and not listener.claim()):
            continue
        if observer is not None:
            observer.entering(listener)
        try:
            result = listener.fn(*run.args, partial(_run_from, run, index))
            if type(result) is _COROUTINE or hasattr(result, "__await__"):
                result = await result
            if result is None:
                raise PluginError(
                    f'listener {listener.describe()} of "{text_of(run.event)}" returned None: '
                    "return what `await next()` gave, or a result of your own"
                )
            if observer is not None:
                observer.leaving(listener, result)
        except Exception as error:
            listener.blame(run.event, error)
            raise
        return result
    result = run.inner()
    return await result if is_awaitable(result) else result
