"""The events of the loop, where plugins step in, and the records that they get and return.

All are waterfalls, scope-filtered: a listener in an agent's scope hears that agent and those below
it. What fails in a step is a value, not an exception: listeners around it see `reason` and `error`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import attrs

from harness_core import Event, scope_target
from harness_core.errors import PluginError
from harness_plugins.llm.api import Message, ModelRequest, Reply
from harness_plugins.tools.api import ToolResult

from .records import TurnReason, TurnResult
from .speaker import Speaker
from .strays import no_strays

__all__ = [
    "COMPACT",
    "REQUEST",
    "STEP",
    "STOPPING",
    "Compaction",
    "Step",
    "StepEnd",
    "Stopping",
    "run_waterfall",
]

R = TypeVar("R")


@attrs.frozen(eq=False)
class Step:
    """One step of a turn, counted from 1: an assembly, a request, a reply, the tools it wants."""

    agent: Speaker
    number: int
    session: str


@attrs.frozen
class StepEnd:
    """How a step ended.

    Without a `reason` the turn goes on with another step, if there is anything that the model has
    not answered. `results` stand in the order of the reply's requests.
    """

    reason: TurnReason | None = None
    reply: Reply | None = None
    results: tuple[ToolResult, ...] = ()
    error: BaseException | None = attrs.field(default=None, eq=False)


@attrs.frozen
class Stopping:
    """A turn is about to end, as `result` says. With a `message` it goes on instead."""

    agent: Speaker = attrs.field(eq=False)
    result: TurnResult
    message: str = ""


@attrs.frozen
class Compaction:
    """A part of an agent's history that is to be replaced by a summary."""

    agent: Speaker = attrs.field(eq=False)
    messages: tuple[Message, ...]


STEP: Final[Event[[Step, Callable[[], Awaitable[StepEnd]]], StepEnd]] = Event(
    "agent/step", "waterfall"
)
"""`(step, next)`: around one step."""
REQUEST: Final[Event[[ModelRequest, Step, Callable[[], Awaitable[ModelRequest]]], ModelRequest]] = (
    Event("agent/request", "waterfall")
)
"""`(request, step, next)`: what is returned is sent, in every attempt of the step."""
STOPPING: Final[Event[[Stopping, Callable[[], Awaitable[Stopping]]], Stopping]] = Event(
    "agent/stopping", "waterfall"
)
"""`(stopping, next)`: return it with a `message` to make the turn go on."""


COMPACT: Final[Event[[Compaction, Callable[[], Awaitable[str]]], str]] = Event(
    "agent/compact", "waterfall"
)
"""`(compaction, next)`: return a summary of your own, or what the model makes: `await next()`."""


class _Expecting:
    """Watches a waterfall: what a listener returns must be of one kind. The error names it."""

    def __init__(self, event: Event[..., Any], kind: type) -> None:
        self._event = event
        self._kind = kind

    def entering(self, listener: Any) -> None:
        """Do nothing."""

    def leaving(self, listener: Any, result: Any) -> None:  # noqa: ARG002, the bus names it
        """Refuse a wrong thing."""
        if not isinstance(result, self._kind):
            kind = self._kind.__name__
            raise PluginError(
                f"a listener of {self._event.name} returned {result!r}: expected a {kind}, for "
                "instance what `await next()` gave"
            )


async def run_waterfall(
    agent: Speaker,
    event: Event[..., R],
    args: tuple[Any, ...],
    inner: Callable[[], Any],
    kind: type[R],
) -> R:
    """Run an event of the loop; a listener that returns another kind of thing is blamed for it."""
    bus = agent.ctx.kernel.bus
    target = scope_target(None, agent)
    with no_strays():
        result: R = await bus.waterfall(event, args, inner, target, _Expecting(event, kind))
    return result
