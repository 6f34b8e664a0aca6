"""One registered contribution, checked when it is registered: the registry's only record."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from typing import Any, Literal

from ..errors import ContributionError, InvalidNameError, InvalidOrderError, safe_repr
from ..kernel.effects import Effect, place_of
from ..kernel.fiber import Fiber
from ..kernel.signatures import accepts
from .origin import Origin
from .template import Template

__all__ = ["Entry", "text_entry", "variable_entry"]

_VARIABLE_NAME = re.compile(r"[a-z][a-z0-9_]*")


_NAMED = frozenset({"section", "context", "variable", "pair"})


class Entry:
    """A section, context, variable, tool provider, suppressor, pair or final check.

    `text` is the fixed text or value; with a `provider` it is None. `takes_context` says whether
    the provider is called with the assemble context or with nothing.
    """

    __slots__ = (
        "complete",
        "effect",
        "key",
        "kind",
        "literal",
        "name",
        "optional",
        "order",
        "provider",
        "requires_tools",
        "scope",
        "takes_context",
        "template",
        "text",
        "timeout",
    )

    def __init__(self, kind: str, name: str, value: object) -> None:
        self.kind = kind
        self.name = name
        self.text: str | None = None
        self.provider: Callable[..., Any] | None = None
        self.takes_context = False
        self.order: float | None = None
        self.complete = False
        self.literal = False
        self.optional = False
        self.requires_tools: tuple[str, ...] = ()
        self.timeout: float | None = None
        self.template: Template | Literal[False] | None = None
        """The fixed text, split; False: it refers to nothing; None: not looked at yet."""
        self.effect: Effect | None = None
        self.key: tuple[str, str | int] | None = None
        """What it is stored under, while it is registered: its name or, without one, its place."""
        self.scope: object | None = None
        if type(value) is str:
            self.text = value
        elif value is not None:
            self.provide(value)

    def provide(self, value: object) -> None:
        if isinstance(value, str):
            self.text = str(value)
        elif callable(value):
            self.provider = value
            self.takes_context = accepts(value, 1, required=True) == 1
        else:
            raise ContributionError(
                f"{self.label}: expected str, or a callable that returns it, got {value!r} "
                f"({type(value).__name__})"
            )

    @property
    def is_named(self) -> bool:
        """Whether it is known by its name, of which its layer then has one."""
        return self.kind in _NAMED

    @property
    def label(self) -> str:
        """Kind and name, for messages."""
        return f'{self.kind} "{self.name}"' if self.name else self.kind

    @property
    def entry(self) -> Entry:
        """Itself: an entry that shadows nothing is the source of what is made from it."""
        return self

    @property
    def fiber(self) -> Fiber:
        """The owner."""
        assert self.effect is not None
        return self.effect.fiber

    def origin(self, seconds: float | None = None, shadows: Iterable[Entry] = ()) -> Origin:
        """Return where it was registered; which entries it shadows, a plan knows."""
        effect = self.effect
        assert effect is not None
        file, line = place_of(effect.site)
        return Origin(
            kind=self.kind,
            name=self.name,
            plugin=effect.fiber.plugin_name,
            fiber=effect.fiber.path,
            scope=self.scope,
            order=self.order,
            file=file,
            line=line,
            shadows=tuple(entry.origin() for entry in shadows),
            seconds=seconds,
        )

    def attribute(self, error: BaseException) -> None:
        """Note on an error whose it is (law L9)."""
        scope = f", scope {safe_repr(self.scope)}" if self.scope is not None else ""
        fiber = self.fiber
        note = f'in {self.label} of plugin "{fiber.plugin_name}" (fiber {fiber.path}{scope})'
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)


def text_entry(
    kind: str,
    name: str,
    value: object,
    order: float,
    complete: bool,
    literal: bool,
    requires_tools: Iterable[str],
    optional: bool,
    timeout: float | None,
) -> Entry:
    """Return a checked section or context.

    Raises InvalidNameError, InvalidOrderError or ContributionError.
    """
    if type(name) is not str or not name:
        raise InvalidNameError(name, of=kind, expected="a str that is not empty")
    if type(order) is not int and (type(order) is not float or not math.isfinite(order)):
        raise InvalidOrderError(kind, name, order)
    entry = Entry(kind, name, value)
    if value is None:
        entry.provide(value)
    entry.order = order
    if complete or literal or requires_tools or optional or timeout is not None:
        entry.complete = complete
        entry.literal = literal
        entry.optional = optional
        entry.requires_tools = _tool_names(entry, requires_tools)
        entry.timeout = _seconds(entry, timeout)
    return entry


def variable_entry(name: str, value: object) -> Entry:
    """Return a checked variable. Raises InvalidNameError or ContributionError."""
    if not isinstance(name, str) or not _VARIABLE_NAME.fullmatch(name):
        raise InvalidNameError(name)
    return Entry("variable", name, value)


def _tool_names(entry: Entry, names: Iterable[str]) -> tuple[str, ...]:
    if isinstance(names, str):
        raise ContributionError(
            f"{entry.label}: requires_tools is {names!r}; to name one tool, write ({names!r},)"
        )
    found = tuple(names)
    if not all(isinstance(name, str) and name for name in found):
        raise ContributionError(f"{entry.label}: requires_tools must hold tool names, got {found}")
    return found


def _seconds(entry: Entry, timeout: float | None) -> float | None:
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:
        raise ContributionError(f"{entry.label}: timeout must be seconds above 0, got {timeout!r}")
    return timeout
