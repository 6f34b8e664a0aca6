"""What goes wrong with agents themselves; what goes wrong in a turn is in its result."""

from __future__ import annotations

from collections.abc import Iterable

from harness_core.errors import HarnessError, did_you_mean

__all__ = ["AgentError", "UnknownAgentError"]


class AgentError(HarnessError, ValueError):
    """An agent that cannot be as asked: its name, its place among the others, its settings."""


class UnknownAgentError(HarnessError, LookupError):
    """No live agent has this name. `known` are the names there are."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name = name
        self.known = tuple(known)
        listed = ", ".join(self.known) or "(none)"
        hint = did_you_mean(name, self.known)
        super().__init__(f'there is no agent "{name}"; agents: {listed}{hint}')
