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


def run_waterfall(
    event: str | Event[Any, Any],
    args: tuple[Any, ...],
    inner: Callable[..., Any],
    listeners: Sequence[Listener],
    observer: Observer | None,
) -> Coroutine[Any, Any, Any]:
    """Return the run, to be awaited: listeners outermost first, then `inner`.

    A closure and not a class: a waterfall runs for each step of an agent, and what its levels
    share is read from cells in half the time.
    """
    count = len(listeners)
    reached = -1  # how far it has come; each part runs once

    async def run(index: int) -> Any:
        nonlocal reached
        if index <= reached:
            name = listeners[index - 1].describe()
            raise PluginError(f"listener {name} called next() twice: keep its result")
        reached = index
        while index < count:
            listener = listeners[index]
            index += 1
            if not listener.active or (listener.once and not listener.claim()):
                continue
            if observer is not None:
                observer.entering(listener)
            try:
                result: Any = listener.fn(*args, partial(run, index))
                if type(result) is _COROUTINE or hasattr(result, "__await__"):
                    result = await result
                if result is None:
                    raise PluginError(
                        f'listener {listener.describe()} of "{text_of(event)}" returned None: '
                        "return what `await next()` gave, or a result of your own"
                    )
                if observer is not None:
                    observer.leaving(listener, result)
            except Exception as error:
                listener.blame(event, error)
                raise
            return result
        result = inner()
        return await result if is_awaitable(result) else result

    return run(0)
