"""Agent: the key of a scope, the owner of a lifetime, and who has the conversation.

What an agent sees beyond its own scope is one link: its preset's scope if it has a preset, else
its parent agent's scope, else the global layer alone. Its lifetime is another matter: it lies
within that of whoever created it, and within its parent's.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable
from pathlib import Path

import anyio

from harness_core import Context, Effect, Fiber, FiberState, create_scope
from harness_core.errors import InactiveFiberError
from harness_plugins.session.api import Session

from .books import Books
from .link import Link
from .loop import AgentEvent, Limits, Signal, TurnResult, run_turn, send
from .own_session import OwnSession
from .wanted import Setup, ToolFilter, Wanted

__all__ = ["Agent"]


class Agent:
    """An agent, and the key of its scope. `ctx.agents.create` makes one.

    What is registered through `agent.ctx` is seen by this agent and its sub-agents, and goes with
    it. Agents are compared by identity.
    """

    __slots__ = (
        "__weakref__",
        "_link",
        "_session",
        "_tie",
        "books",
        "cwd",
        "inside",
        "limits",
        "model",
        "name",
        "parent",
        "provider",
        "scope",
        "source",
    )

    def __init__(
        self, wanted: Wanted, parent: Agent | None, books: Books[Agent], source: Context
    ) -> None:
        self.name = wanted.name
        self.parent: Agent | None = None
        """The agent within whose lifetime this one lies, or None."""
        self.source = source
        """The context of whoever created it, or of whoever created its outermost parent."""
        self.books = books
        self.model: str | None = _own(wanted.model, parent.model if parent else None)
        self.provider: str | None = _own(wanted.provider, parent.provider if parent else None)
        self.cwd: str | None = _own(wanted.cwd, parent.cwd if parent else None)
        self.limits: Limits | None = wanted.limits or (parent.limits if parent else None)
        self.inside: dict[Agent, None] = {}
        """The sub-agents, those among them that are not complete yet."""
        self._tie: Effect | None = None
        self._link = Link(self)
        self._session = OwnSession(wanted.name, wanted.session)
        self.scope = create_scope(source, self)
        """The agent's scope; its key is the agent."""

    # Facts

    @property
    def ctx(self) -> Context:
        """The context of the agent's scope."""
        return self.scope.ctx

    @property
    def fiber(self) -> Fiber:
        """The fiber that owns what is registered through `ctx`."""
        return self.scope.ctx.fiber

    @property
    def is_live(self) -> bool:
        """Whether it is still there; False from the moment that it, or its parent, begins to go."""
        fiber = self.fiber
        if fiber.state is not FiberState.ACTIVE or fiber.is_ending:
            return False
        return self.parent is None or self.parent.is_live

    @property
    def preset(self) -> str | None:
        """The name of its own preset. A sub-agent without one sees its parent's."""
        joined = self._link.joined
        return joined.preset if joined is not None else None

    @property
    def depth(self) -> int:
        """How many agents stand above it: 0 without a parent."""
        return 0 if self.parent is None else self.parent.depth + 1

    @property
    def height(self) -> int:
        """How many levels of sub-agents stand below it."""
        return max((child.height + 1 for child in self.inside), default=0)

    @property
    def children(self) -> tuple[Agent, ...]:
        """The live sub-agents, oldest first."""
        return tuple(one for one in self.inside if self.books.get(one.name) is one)

    # Its life

    def dispose(self) -> Awaitable[None]:
        """End the agent, its sub-agents first; idempotent, shared, to be awaited."""
        return self.scope.dispose()

    async def create(
        self,
        name: str,
        *,
        preset: str | None = None,
        setup: Setup | None = None,
        model: str | None = None,
        provider: str | None = None,
        cwd: str | Path | None = None,
        persona: str | None = None,
        tools: ToolFilter | None = None,
        session: str | Session | None = None,
        limits: Limits | None = None,
    ) -> Agent:
        """Create a sub-agent, whose lifetime lies within this one's. See `Agents.create`."""
        wanted = Wanted(name, preset, model, provider, cwd, persona, tools, session, limits)
        return await self.books.create(self.source, wanted, self, setup)

    async def switch_preset(self, preset: str | None) -> None:
        """Join another preset, or none; all or nothing.

        The preset is mounted and has settled before the one step in which the agent moves. Also
        by the name it has: that joins what the preset is made of by now. Raises
        UnknownPresetError, what its mounting raises, and InactiveFiberError if the agent goes
        meanwhile.
        """
        await self._link.switch(self.ctx, preset, self.check_live)

    async def reparent(self, parent: Agent | str | None) -> None:
        """Move below another agent, sub-agents and all, or below none; all or nothing.

        The agent's lifetime lies within the new parent's from then on. Raises AgentError for a
        circle and beyond the greatest depth, UnknownAgentError, and InactiveFiberError if one of
        the two is going.
        """
        await anyio.lowlevel.checkpoint()  # before the move: one that is made is not cancelled
        above = self.books.resolve(parent)
        self.check_live()
        if above is not self.parent:
            self.books.check_place(self.name, above, self)
            self.move_below(above)

    # For the modules beside this one

    def check_live(self) -> None:
        """Raise InactiveFiberError if the agent is going, or has gone."""
        if not self.is_live:
            raise InactiveFiberError(self.fiber)

    def move_below(self, above: Agent | None) -> None:
        """Give the agent this parent: who it goes with, and what it sees."""
        before, tie = self.parent, self._tie
        self._tie = above.hold(self) if above is not None else None
        try:
            self._link.see(above)
        except BaseException:
            if self._tie is not None:
                self._tie.forget()
            self._tie = tie
            raise
        self.parent = above
        if tie is not None:
            tie.forget()
        if before is not None and before is not above:
            before.inside.pop(self, None)
        if above is not None:
            above.inside[self] = None

    def hold(self, child: Agent) -> Effect:
        """Take a sub-agent along when this agent goes."""
        return self.ctx.effect(lambda: child.dispose, label=f'sub-agent "{child.name}"')

    def let_go(self) -> None:
        """Leave the parent's books."""
        if self._tie is not None:
            self._tie.forget()
            self._tie = None
        if self.parent is not None:
            self.parent.inside.pop(self, None)

    # The conversation

    @property
    def session(self) -> Session | None:
        """The conversation, once it has been opened."""
        return self._session.current

    @property
    def wanted_session(self) -> Session | str | None:
        """The session that it opens at first use, or its id; None: a new one. It can be set."""
        return self._session.wanted

    @wanted_session.setter
    def wanted_session(self, session: Session | str | None) -> None:
        self._session.wanted = session

    async def open_session(self) -> Session:
        """Return the agent's session, and open it if it is not open yet.

        With the plugin `session` it is kept there: under the id that the agent was created with,
        or a new one. Without the plugin it lasts as long as the agent. It is closed with the
        agent, unless it was given to it open. Raises SessionError and SessionBusyError.
        """
        return await self._session.open(self.ctx, self.check_live)

    async def send(self, text: str, *, signal: Signal | None = None) -> TurnResult:
        """Run one turn and return how it ended; nothing that goes wrong in it is raised."""
        return await send(self, text, signal=signal)

    def run(self, text: str, *, signal: Signal | None = None) -> AsyncGenerator[AgentEvent, None]:
        """Run one turn and yield what happens in it; closing the generator cancels the turn."""
        return run_turn(self, text, signal=signal)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f'Agent("{self.name}")'


def _own(given: str | Path | None, inherited: str | None) -> str | None:
    return inherited if given is None else str(given)
