"""Waterfall: one run through listeners as middleware around an innermost call.

Contract: section 3, `waterfall`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ..errors import PluginError
from .listeners import Event, Listener, Observer, is_awaitable, text_of

__all__ = ["Waterfall"]


class Waterfall:
    """One run through the listeners of a waterfall."""

    __slots__ = ("args", "event", "inner", "listeners", "observer", "reached")

    def __init__(
        self,
        event: str | Event[Any, Any],
        args: tuple[Any, ...],
        inner: Callable[..., Any],
        listeners: Sequence[Listener],
        observer: Observer | None,
    ) -> None:
        self.observer = observer
        self.reached = -1
        """Up to which listener it has come; each part runs once."""
        self.event = event
        self.args = args
        self.inner = inner
        self.listeners = listeners

    async def run(self, index: int) -> Any:
        listeners = self.listeners
        if index <= self.reached:
            raise PluginError(
                f"listener {listeners[index - 1].describe()} called next() twice: keep its result"
            )
        self.reached = index
        while index < len(listeners):
            listener = listeners[index]
            index += 1
            if not listener.active or (listener.once and not listener.claim()):
                continue
            observer = self.observer
            if observer is not None:
                observer.entering(listener)
            try:
                result = listener.fn(*self.args, partial(self.run, index))
                if is_awaitable(result):
                    result = await result
                if result is None:
                    raise PluginError(
                        f'listener {listener.describe()} of "{text_of(self.event)}" returned None: '
                        "return what `await next()` gave, or a result of your own"
                    )
                if observer is not None:
                    observer.leaving(listener, result)
            except Exception as error:
                listener.blame(self.event, error)
                raise
            return result
        result = self.inner()
        return await result if is_awaitable(result) else result
