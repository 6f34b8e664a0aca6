"""The bus: listeners, the ways to call them, and who hears what.

A listener carries the scope tag of the context that registered it. A dispatch with a target looks
up only the tags on the target's chain, so its cost does not grow with unrelated scopes.

Reading order: `Event`, `Listener`, `_Listeners` (the index), then `Bus` (the modes).
Contract: section 3.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from operator import attrgetter
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, ParamSpec, Protocol, TypeVar

import attrs

from ..errors import EventModeError, PluginError, safe_repr
from .effects import Effect, place_of
from .fiber import Fiber
from .lifecycle import OPEN_STATES
from .steps import discard

if TYPE_CHECKING:
    from .context import Context

__all__ = ["Bus", "Event", "Listener", "Mode", "Target"]

KERNEL_EVENTS: Final = (
    "event/dispatch",
    "fiber/error",
    "fiber/state",
    "plugin/mount",
    "service/change",
)
"""The kernel's own events, all emitted. Nobody can declare them to be something else."""

Mode = Literal["emit", "parallel", "serial", "bail", "waterfall"]
_MODES: Final = ("emit", "parallel", "serial", "bail", "waterfall")

P = ParamSpec("P")
R = TypeVar("R", covariant=True)


@attrs.frozen
class Event(Generic[P, R]):
    """An event that declares its name, its mode and the types of its listeners.

    `vetoing` is for `emit`: the first error of a listener reaches the emitter.
    """

    name: str
    mode: Mode = attrs.field(default="emit", validator=attrs.validators.in_(_MODES))
    vetoing: bool = attrs.field(default=False, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if self.vetoing and self.mode != "emit":
            raise EventModeError(f'event "{self.name}" is vetoing, which only emit can be')


class Target(Protocol):
    """Whom a dispatch is for. `scopes.scope_target` makes one."""

    @property
    def tags(self) -> Sequence[object]:
        """The scope keys that hear, nearest first."""
        ...

    def hears(self, ctx: Context) -> bool:
        """Whether the base object's own filter lets a listener's context hear."""
        ...

    @property
    def filters(self) -> bool:
        """Whether the base object has a filter of its own."""
        ...


class Listener:
    """One registered listener."""

    __slots__ = ("active", "ctx", "effect", "fiber", "fn", "once", "rank", "tag", "unfiltered")

    def __init__(
        self, fn: Callable[..., Any], ctx: Context, tag: object, *, once: bool, unfiltered: bool
    ) -> None:
        self.fn = fn
        self.ctx = ctx
        self.fiber: Fiber = ctx.fiber
        self.tag = tag
        self.once = once
        self.unfiltered = unfiltered
        self.active = True
        self.rank = 0
        self.effect: Effect | None = None

    def claim(self) -> bool:
        """Whether it may be called now; a `once` listener may only the first time."""
        if not self.active:
            return False
        if self.once:
            self.active = False
            if self.effect is not None:
                self.effect()
        return True

    def describe(self) -> str:
        """Return name, plugin and place, for messages."""
        name = getattr(self.fn, "__qualname__", None) or type(self.fn).__name__
        where = ""
        if self.effect is not None:
            file, line = place_of(self.effect.site)
            where = f" at {file}:{line}"
        return f'{name} of plugin "{self.fiber.name}"{where}'


class Observer(Protocol):
    """Who watches a waterfall pass from listener to listener."""

    def entering(self, listener: Listener) -> None:
        """Called before a listener."""
        ...

    def leaving(self, listener: Listener, result: Any) -> None:
        """Called with what a listener returned; may raise to refuse it."""
        ...


_by_rank = attrgetter("rank")


class _Listeners:
    """The listeners of one event: all, untagged, and by the identity of their tag."""

    __slots__ = ("_everybody", "_near", "_open", "declared", "everywhere", "tagged", "untagged")

    def __init__(self) -> None:
        self.declared: Event[Any, Any] | None = None
        """What the listeners take the event for, if one of them named an `Event`."""
        self.everywhere: dict[Listener, None] = {}
        self.untagged: dict[Listener, None] = {}
        self.tagged: dict[int, dict[Listener, None]] = {}
        self._everybody: tuple[Listener, ...] | None = None
        self._open: tuple[Listener, ...] | None = None
        self._near: dict[int, tuple[Listener, ...]] = {}

    def add(self, listener: Listener) -> None:
        self.everywhere[listener] = None
        self._everybody = None
        if listener.tag is None or listener.unfiltered:
            self.untagged[listener] = None
            self._open = None
        else:
            self.tagged.setdefault(id(listener.tag), {})[listener] = None
            self._near.pop(id(listener.tag), None)

    def remove(self, listener: Listener) -> None:
        self.everywhere.pop(listener, None)
        self._everybody = None
        if listener.tag is None or listener.unfiltered:
            self.untagged.pop(listener, None)
            self._open = None
        else:
            mine = self.tagged.get(id(listener.tag), {})
            mine.pop(listener, None)
            self._near.pop(id(listener.tag), None)
            if not mine:
                self.tagged.pop(id(listener.tag), None)

    def hearing(self, target: Target | None) -> Sequence[Listener]:
        """Return who hears a dispatch, in order."""
        if target is None:
            if self._everybody is None:
                self._everybody = tuple(sorted(self.everywhere, key=_by_rank))
            return self._everybody
        heard: Sequence[Listener] | None = self._open
        if heard is None:
            heard = self._open = tuple(sorted(self.untagged, key=_by_rank))
        tagged = self.tagged
        if tagged:
            near = [self._in_order(id(tag)) for tag in target.tags if id(tag) in tagged]
            if len(near) == 1 and not heard:
                heard = near[0]
            elif near:
                merged = list(heard)
                for listeners in near:
                    merged.extend(listeners)
                merged.sort(key=_by_rank)
                heard = merged
        if target.filters:
            return [one for one in heard if one.unfiltered or target.hears(one.ctx)]
        return heard

    def _in_order(self, tag: int) -> tuple[Listener, ...]:
        ordered = self._near.get(tag)
        if ordered is None:
            ordered = self._near[tag] = tuple(sorted(self.tagged[tag], key=_by_rank))
        return ordered


class Bus:
    """Registers and calls the listeners of one tree."""

    def __init__(self, watched: dict[str, Callable[[bool], None]] | None = None) -> None:
        self._events: dict[str, _Listeners] = {}
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
        name = _checked_name(event)
        listeners = self._events.get(name)
        if not isinstance(event, str):
            _refuse_other(event, self._reserved.get(name))
            _refuse_other(event, listeners.declared if listeners is not None else None)
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
            listeners = self._events[name] = _Listeners()
            if name in self._watched:
                self._watched[name](True)
        if not isinstance(event, str):
            listeners.declared = event
        listeners.add(listener)
        return effect

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
        name = event if isinstance(event, str) else _checked_name(event)
        listeners = self._events.get(name)
        declared = listeners.declared if listeners is not None else None
        if not isinstance(event, str):
            _refuse_other(event, self._reserved.get(name))
            _refuse_other(event, declared)
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
                self.blame(listener, event, error)
                if vetoing:
                    raise
                listener.fiber.report(error, _during(event))
                continue
            if result is not None and _is_awaitable(result):
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
                ("listener task", _text(event)),
                lambda error: fiber.report(error, during),
            )
        except BaseException as error:
            discard(rest)
            fiber.report(error, during)

    async def parallel(
        self, event: str | Event[Any, Any], args: tuple[Any, ...], target: Target | None
    ) -> None:
        """Run all, wait for all, raise an ExceptionGroup of every failure."""
        import anyio

        listeners, _ = self.find(event, "parallel", target)
        failures: list[Exception] = []

        async def call(listener: Listener) -> None:
            if not listener.claim():
                return
            try:
                result = listener.fn(*args)
                if result is not None and _is_awaitable(result):
                    await result
            except Exception as error:
                self.blame(listener, event, error)
                failures.append(error)

        async with anyio.create_task_group() as tasks:
            for listener in listeners:
                tasks.start_soon(call, listener)
        if failures:
            raise ExceptionGroup(f'listeners of "{_text(event)}" failed', failures)

    async def serial(
        self, event: str | Event[Any, Any], args: tuple[Any, ...], target: Target | None
    ) -> Any:
        """Call one after the other until one gives a result that is not None or False."""
        listeners, _ = self.find(event, "serial", target)
        for listener in listeners:
            if not listener.claim():
                continue
            try:
                result = listener.fn(*args)
                if result is not None and _is_awaitable(result):
                    result = await result
            except Exception as error:
                self.blame(listener, event, error)
                raise
            if result is not None and result is not False:
                return result
        return None

    def bail(
        self, event: str | Event[Any, Any], args: tuple[Any, ...], target: Target | None
    ) -> Any:
        """The synchronous twin of `serial`; an awaitable result is an error."""
        listeners, _ = self.find(event, "bail", target)
        for listener in listeners:
            if not listener.claim():
                continue
            try:
                result = listener.fn(*args)
                if result is not None and _is_awaitable(result):
                    discard(result)
                    raise EventModeError(
                        f"listener {listener.describe()} is asynchronous, and bail is not: "
                        "dispatch with serial, or make the listener synchronous"
                    )
            except Exception as error:
                self.blame(listener, event, error)
                raise
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
        return _Waterfall(self, event, args, inner, listeners, observer).run(0)

    def blame(self, listener: Listener, event: str | Event[Any, Any], error: Exception) -> None:
        # Only the innermost listener is to blame: an error passes through those around it.
        if not any(note.startswith("in listener ") for note in getattr(error, "__notes__", ())):
            tag = listener.tag
            scope = f", scope {safe_repr(tag)}" if tag is not None else ""
            error.add_note(f'in listener {listener.describe()} of "{_text(event)}"{scope}')


class _Waterfall:
    """One run through the listeners of a waterfall."""

    __slots__ = ("args", "bus", "event", "inner", "listeners", "observer", "reached")

    def __init__(
        self,
        bus: Bus,
        event: str | Event[Any, Any],
        args: tuple[Any, ...],
        inner: Callable[..., Any],
        listeners: Sequence[Listener],
        observer: Observer | None,
    ) -> None:
        self.observer = observer
        self.reached = -1
        """Up to which listener it has come; each part runs once."""
        self.bus = bus
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
                if _is_awaitable(result):
                    result = await result
                if result is None:
                    raise PluginError(
                        f'listener {listener.describe()} of "{_text(self.event)}" returned None: '
                        "return what `await next()` gave, or a result of your own"
                    )
                if observer is not None:
                    observer.leaving(listener, result)
            except Exception as error:
                self.bus.blame(listener, self.event, error)
                raise
            return result
        result = self.inner()
        return await result if _is_awaitable(result) else result


def _checked_name(event: object) -> str:
    if isinstance(event, str):
        return event
    if not isinstance(event, Event):
        raise EventModeError(f"{event!r} is no event: expected a name or an Event")
    return event.name


def _refuse_other(event: Event[Any, Any], declared: Event[Any, Any] | None) -> None:
    """Raise EventModeError if listeners take an event for something else."""
    if declared is None or declared is event:
        return
    if (declared.mode, declared.vetoing) != (event.mode, event.vetoing):
        raise EventModeError(
            f'event "{event.name}" is declared twice: as {declared.mode} and as {event.mode}'
        )


def _is_awaitable(value: object) -> bool:
    return isinstance(value, CoroutineType) or hasattr(value, "__await__")


def _text(event: str | Event[Any, Any]) -> str:
    return event if isinstance(event, str) else event.name


def _during(event: str | Event[Any, Any]) -> str:
    return f'listener of "{_text(event)}"'
