"""What one assembly remembers of how it came about: raw material for `explain` and `diff`.

Kept cheap: states are copied while the listeners run, and compared only when somebody asks.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import attrs

from ..errors import ContributionError
from ..kernel.events import Listener
from .entries import Entry
from .model import Origin, PromptAssembly, ToolSchema
from .plan import Plan

__all__ = ["Omission", "State", "Trace", "Transition", "state_of"]

State: TypeAlias = tuple[list[Any], list[Any], list[Any], dict[str, Any]]
"""Sections and contexts as (record, name, text), tools, variables."""


def state_of(assembly: PromptAssembly) -> State:
    """Copy what listeners may change."""
    return (
        [(item, item.name, item.text) for item in assembly.sections],
        [(item, item.name, item.text) for item in assembly.contexts],
        assembly.tools[:],
        assembly.variables.copy(),
    )


@attrs.frozen
class Omission:
    """An entry that took part in the plan and is not in the assembly."""

    entry: Entry
    status: str
    reason: str


@attrs.frozen
class Transition:
    """What one listener, before or after its `next()`, made of the assembly."""

    listener: Listener
    before: State
    after: State


class Trace:
    """How one assembly came about."""

    __slots__ = ("assembly", "omissions", "plan", "scope", "seconds", "states", "tools")

    def __init__(self, plan: Plan, scope: object | None, assembly: PromptAssembly) -> None:
        self.plan = plan
        self.scope = scope
        self.assembly = assembly
        """The assembly as it was handed to the listeners."""
        self.omissions: list[Omission] = []
        self.tools: list[ToolSchema] = []
        """The tools in order, as they were handed to the listeners."""
        self.seconds: dict[Entry, float] = {}
        self.states: list[tuple[Listener | None, bool, State]] = []
        """(listener, entering, state then), in order; the last is the state at the end."""

    # The observer of the waterfall

    def entering(self, listener: Listener) -> None:
        """Note the state in which a listener is called."""
        self.states.append((listener, True, state_of(self.assembly)))

    def innermost(self) -> PromptAssembly:
        """Note the state in which the innermost `next()` was called, and return the assembly."""
        self.states.append((None, True, state_of(self.assembly)))
        return self.assembly

    def leaving(self, listener: Listener, result: Any) -> None:
        """Note the state that a listener returned; refuse what is no assembly."""
        if not isinstance(result, PromptAssembly):
            raise ContributionError(
                f"listener {listener.describe()} returned {result!r} ({type(result).__name__}): "
                "expected a PromptAssembly, for instance what `await next()` gave"
            )
        self.states.append((listener, False, state_of(result)))

    def transitions(self) -> list[Transition]:
        """Return what each listener changed, in the order in which it happened.

        Between two neighbouring states runs exactly one listener: on the way in the one that was
        entered, on the way out the one that is left.
        """
        found: list[Transition] = []
        for (one, inward, before), (other, still_inward, after) in zip(
            self.states, self.states[1:], strict=False
        ):
            listener = other if not still_inward else (one if inward else None)
            if listener is not None:
                found.append(Transition(listener, before, after))
        return found

    def restricted(self) -> list[tuple[Entry, str]]:
        """Return the tools that providers know and did not show, with the provider's entry."""
        memo = self.plan.memo
        if memo is None:
            return []
        shown = {tool.name for tool in self.tools}
        return [
            (entry, name)
            for entry, (_, known) in zip(self.plan.tools, memo.provided, strict=True)
            for name in known or ()
            if name not in shown
        ]

    def variable_origins(self) -> dict[str, Origin]:
        """Return who registered each variable."""
        origins: dict[str, Origin] = {}
        for entry in self.plan.all_variables:
            seconds = self.seconds.get(entry)
            origins[entry.name] = self.plan.source_of(entry).origin(seconds)
        return origins
