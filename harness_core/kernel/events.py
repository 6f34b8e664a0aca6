"""The bus: registers listeners, and calls them in one of five modes. Contract: section 3."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

import anyio

from ..errors import EventModeError, PluginError
from .effects import Effect
from .fiber import Fiber
from .jobs import discard
from .lifecycle import OPEN_STATES
from .listeners import (
    KERNEL_EVENTS,
    Event,
    Listener,
    ListenerIndex,
    Mode,
    Observer,
    Target,
    is_awaitable,
    name_of,
    refuse_other,
    text_of,
)
from .waterfall import run_waterfall

if TYPE_CHECKING:
    from .context import Context

__all__ = ["Bus"]


class Bus:
    """Registers and calls the listeners of one tree."""

    def __init__(self, watched: dict[str, Callable[[bool], None]] | None = None) -> None:
        self._events: dict[str, ListenerIndex] = {}
        self._reserved = {name: Event[Any, Any](name) for name in KERNEL_EVENTS}
        self._watched = watched or {}
        """For some events, who wants to know whether anybody listens."""

    # Registering

    def on(
        self,
        ctx: Context,
        tag: object,
        event: str | Event[Any, Any],
        fn: Callable[..., Any],
        *,
        prepend: bool = False,
        unfiltered: bool = False,
        once: bool = False,
    ) -> Effect:
        """Register a listener; its effect removes it."""
        if not callable(fn):
            raise PluginError(f"a listener must be callable, got {fn!r} ({type(fn).__name__})")
        name = name_of(event)
        listeners = self._events.get(name)
        if not isinstance(event, str):
            refuse_other(event, self._reserved.get(name))
            refuse_other(event, listeners.declared if listeners is not None else None)
        listener = Listener(fn, ctx, tag, once=once, unfiltered=unfiltered)

        def remove() -> None:
            listener.active = False
            listeners = self._events.get(name)
            if listeners is not None:
                listeners.remove(listener)
                if not listeners.everywhere:
                    del self._events[name]
                    if name in self._watched:
                        self._watched[name](False)

        effect = ctx.fiber.register(("listener", name), remove)
        listener.effect = effect
        listener.rank = -effect.place if prepend else effect.place
        listeners = self._events.get(name)
        if listeners is None:
            listeners = self._events[name] = ListenerIndex()
            if name in self._watched:
                self._watched[name](True)
        if not isinstance(event, str):
            listeners.declared = event
        listeners.add(listener)
        silent = ctx.fiber.tree.silent
        for life in ctx.fiber.lives() if silent else ():
            if life in silent:
                listener.active = False
                silent[life].append(listener)
        return effect

    # One of two lives of a plugin hears

    def silence(self, life: Fiber) -> None:
        """Let a life, and what is below it, hear nothing."""
        heard = [
            one
            for listeners in self._events.values()
            for one in listeners.everywhere
            if one.active and life in one.fiber.lives()
        ]
        for listener in heard:
            listener.active = False
        life.tree.silent[life] = heard

    def unsilence(self, life: Fiber) -> None:
        """Let a life hear again."""
        for listener in life.tree.silent.pop(life, ()):
            if listener.effect is not None and not listener.effect.disposed:
                listener.active = True

    def heard(self, event: str) -> bool:
        """Whether anybody listens at all."""
        return event in self._events

    def listeners(self) -> dict[str, list[Listener]]:
        """Return every listener by event, in order, for diagnostics."""
        return {name: list(one.hearing(None)) for name, one in sorted(self._events.items())}

    def find(
        self, event: str | Event[Any, Any], mode: Mode, target: Target | None
    ) -> tuple[Sequence[Listener], bool]:
        """Return who hears a dispatch in `mode`, and whether they may veto."""
        name = event if isinstance(event, str) else name_of(event)
        listeners = self._events.get(name)
        declared = listeners.declared if listeners is not None else None
        if not isinstance(event, str):
            refuse_other(event, self._reserved.get(name))
            refuse_other(event, declared)
            declared = event
        if declared is not None and declared.mode != mode:
            raise EventModeError(
                f'event "{name}" is declared as {declared.mode} and dispatched as {mode}'
            )
        if "event/dispatch" in self._events and name != "event/dispatch":
            self.emit("event/dispatch", (name, mode, target), None)
        vetoing = declared is not None and declared.vetoing
        return (listeners.hearing(target) if listeners is not None else ()), vetoing

    def vetoing_emitter(self, event: Event[[], None]) -> Callable[[], None]:
        """Return a function that emits an event without arguments, to everybody.

        For registries, which fire at each registration: it costs next to nothing unheard.
        """
        name = event.name
        events = self._events

        def emit() -> None:
            if "event/dispatch" in events:
                self.emit(event, (), None)
                return
            listeners = events.get(name)
            if listeners is not None:
                self._call_all(listeners.hearing(None), event, (), vetoing=True)

        return emit

    # Calling

    def emit(
        self, event: str | Event[Any, Any], args: tuple[Any, ...], target: Target | None
    ) -> None:
        """Call all in order; coroutine listeners become tasks of their fibers."""
        listeners, vetoing = self.find(event, "emit", target)
        if listeners:
            self._call_all(listeners, event, args, vetoing=vetoing)

    def _call_all(
        self,
        listeners: Sequence[Listener],
        event: str | Event[Any, Any],
        args: tuple[Any, ...],
        *,
        vetoing: bool,
    ) -> None:
        for listener in listeners:
            if not listener.active or (listener.once and not listener.claim()):
                continue
            try:
                result = listener.fn(*args)
            except Exception as error:
                listener.blame(event, error)
                if vetoing:
                    raise
                listener.fiber.report(error, _during(event))
                continue
            if result is not None and is_awaitable(result):
                self._run_in_fiber(listener, event, result)

    def _run_in_fiber(
        self, listener: Listener, event: str | Event[Any, Any], rest: Awaitable[Any]
    ) -> None:
        fiber, during = listener.fiber, _during(event)
        if fiber.state not in OPEN_STATES:
            discard(rest)  # its door is closed, and it will hear no more
            return
        try:
            fiber.run_soon(
                lambda: rest,
                ("listener task", text_of(event)),
                lambda error: fiber.report(error, during),
            )
        except BaseException as error:
            discard(rest)
            fiber.report(error, during)

    async def parallel(
        self, event: str | Event[Any, Any], args: tuple[Any, ...], target: Target | None
    ) -> None:
        """Run all, wait for all, raise an ExceptionGroup of every failure."""
        listeners, _ = self.find(event, "parallel", target)
        failures: list[Exception] = []

        async def call(listener: Listener) -> None:
            try:
                if listener.claim():
                    await _call(listener, event, args)
            except Exception as error:
                failures.append(error)

        async with anyio.create_task_group() as tasks:
            for listener in listeners:
                tasks.start_soon(call, listener)
        if failures:
            raise ExceptionGroup(f'listeners of "{text_of(event)}" failed', failures)

    async def serial(
        self, event: str | Event[Any, Any], args: tuple[Any, ...], target: Target | None
    ) -> Any:
        """Call one after the other until one gives a result that is not None or False."""
        listeners, _ = self.find(event, "serial", target)
        for listener in listeners:
            result = await _call(listener, event, args) if listener.claim() else None
            if result is not None and result is not False:
                return result
        return None

    def bail(
        self, event: str | Event[Any, Any], args: tuple[Any, ...], target: Target | None
    ) -> Any:
        """The synchronous twin of `serial`; an awaitable result is an error."""
        listeners, _ = self.find(event, "bail", target)
        for listener in listeners:
            result = _call_now(listener, event, args) if listener.claim() else None
            if result is not None and result is not False:
                return result
        return None

    def waterfall(
        self,
        event: str | Event[Any, Any],
        args: tuple[Any, ...],
        inner: Callable[..., Any],
        target: Target | None,
        observer: Observer | None = None,
    ) -> Coroutine[Any, Any, Any]:
        """Run listeners around `inner`, outermost first; each calls `next` at most once."""
        listeners, _ = self.find(event, "waterfall", target)
        return run_waterfall(event, args, inner, listeners, observer)


def _during(event: str | Event[Any, Any]) -> str:
    return f'listener of "{text_of(event)}"'


async def _call(listener: Listener, event: str | Event[Any, Any], args: tuple[Any, ...]) -> Any:
    """Call a listener and await what it returns; blame it for what it raises."""
    try:
        result = listener.fn(*args)
        return await result if is_awaitable(result) else result
    except Exception as error:
        listener.blame(event, error)
        raise


def _call_now(listener: Listener, event: str | Event[Any, Any], args: tuple[Any, ...]) -> Any:
    """Call a listener that must not be asynchronous; blame it for what it raises."""
    try:
        result = listener.fn(*args)
        if is_awaitable(result):
            discard(result)
            raise EventModeError(
                f"listener {listener.describe()} is asynchronous, and bail is not: dispatch with "
                "serial, or make the listener synchronous"
            )
    except Exception as error:
        listener.blame(event, error)
        raise
    return result
