"""Books: where the agents of a tree are registered, as an agent knows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeVar

from harness_core import Context

from .wanted import Setup, Wanted

__all__ = ["Books"]

A = TypeVar("A")
"""The class of agents."""


class Books(Protocol[A]):
    """What an agent needs of where agents are registered: to find others, and to make more."""

    @property
    def taken(self) -> Mapping[str, A]:
        """The agents by name, those too that are on the way, or on the way out."""
        ...

    def get(self, name: str) -> A | None:
        """Return the live agent of a name, or None."""
        ...

    def resolve(self, agent: A | str | None) -> A | None:
        """Return an agent that is given by name or as itself; raise UnknownAgentError."""
        ...

    def check_place(self, name: str, above: A | None, agent: A | None = None) -> None:
        """Raise AgentError if an agent, or a new one, cannot stand below `above`."""
        ...

    async def create(
        self, source: Context, wanted: Wanted, parent: A | None, setup: Setup | None = None
    ) -> A:
        """Create an agent on behalf of `source`; all or nothing."""
        ...
