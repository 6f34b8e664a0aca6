"""Speaker: who has a turn, as far as the loop knows it. An agent is one."""

from __future__ import annotations

from typing import Protocol

from harness_core import Context
from harness_plugins.session.api import Session

from .limits import Limits

__all__ = ["Speaker"]


class Speaker(Protocol):
    """What the loop needs of an agent, and what those who hear of its turns can rely on.

    It is the key of its scope. `str(speaker)` is its name.
    """

    @property
    def name(self) -> str:
        """The name of the agent."""
        ...

    @property
    def ctx(self) -> Context:
        """The context of the agent's scope."""
        ...

    @property
    def depth(self) -> int:
        """How many agents stand above it."""
        ...

    @property
    def model(self) -> str | None:
        """The model that its requests go to; None: the adapter's own."""
        ...

    @property
    def provider(self) -> str | None:
        """Whose adapter its requests go to; None: the only one there is."""
        ...

    @property
    def cwd(self) -> str | None:
        """The directory that it works in."""
        ...

    @property
    def limits(self) -> Limits | None:
        """What its turns may take; None stands for the usual limits."""
        ...

    @property
    def session(self) -> Session | None:
        """The conversation, once it has been opened."""
        ...

    @property
    def wanted_session(self) -> Session | str | None:
        """The session that it is to open, or its id; None: a new one."""
        ...

    async def open_session(self) -> Session:
        """Return the session, opened if need be; raise what opening it raises."""
        ...
