"""Events as they are declared, listeners as they are registered, and who hears what.

A listener carries the scope tag of the context that registered it. A dispatch with a target looks
up only the tags on the target's chain, so its cost does not grow with unrelated scopes.
Contract: section 3, "Scope-filtered dispatch".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from operator import attrgetter
from types import CoroutineType
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    Literal,
    ParamSpec,
    Protocol,
    TypeGuard,
    TypeVar,
    cast,
)

import attrs

from ..errors import EventModeError, safe_repr
from .effects import Effect, place_of
from .fiber import Fiber

if TYPE_CHECKING:
    from .context import Context

__all__ = [
    "KERNEL_EVENTS",
    "Event",
    "Listener",
    "ListenerIndex",
    "Mode",
    "Observer",
    "Target",
    "is_awaitable",
    "name_of",
    "refuse_other",
    "text_of",
]

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

    def blame(self, event: str | Event[Any, Any], error: Exception) -> None:
        """Note on an error whose it is (law L9).

        Only the innermost listener is to blame: an error passes through those around it.
        """
        notes: object = getattr(error, "__notes__", ())
        # Whatever a plugin's error has there: its notes may be no texts.
        if any(str(note).startswith("in listener ") for note in cast("list[object]", notes)):
            return
        scope = f", scope {safe_repr(self.tag)}" if self.tag is not None else ""
        error.add_note(f'in listener {self.describe()} of "{text_of(event)}"{scope}')

    def describe(self) -> str:
        """Return name, plugin and place, for messages."""
        name = getattr(self.fn, "__qualname__", None) or type(self.fn).__name__
        where = ""
        if self.effect is not None:
            file, line = place_of(self.effect.site)
            where = f" at {file}:{line}"
        return f'{name} of plugin "{self.fiber.plugin_name}"{where}'


class Observer(Protocol):
    """Who watches a waterfall pass from listener to listener."""

    def entering(self, listener: Listener) -> None:
        """Called before a listener."""
        ...

    def leaving(self, listener: Listener, result: Any) -> None:
        """Called with what a listener returned; may raise to refuse it."""
        ...


_by_rank = attrgetter("rank")


class ListenerIndex:
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


def name_of(event: object) -> str:
    if isinstance(event, str):
        return event
    if not isinstance(event, Event):
        raise EventModeError(f"{event!r} is no event: expected a name or an Event")
    return event.name


def refuse_other(event: Event[Any, Any], declared: Event[Any, Any] | None) -> None:
    """Raise EventModeError if listeners take an event for something else."""
    if declared is None or declared is event:
        return
    if (declared.mode, declared.vetoing) != (event.mode, event.vetoing):
        raise EventModeError(
            f'event "{event.name}" is declared twice: as {declared.mode} and as {event.mode}'
        )


def is_awaitable(value: object) -> TypeGuard[Awaitable[Any]]:
    """Whether a result has to be awaited; the fast test first."""
    return isinstance(value, CoroutineType) or hasattr(value, "__await__")


def text_of(event: str | Event[Any, Any]) -> str:
    return event if isinstance(event, str) else event.name
