"""Agent: the key of a scope, the owner of a lifetime, and who has the conversation.

What an agent sees beyond its own scope is one link: its preset's scope if it has a preset, else
its parent agent's scope, else the global layer alone. Its lifetime is another matter: it lies
within that of whoever created it, and within its parent's.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from harness_core import Context, Effect, Fiber, FiberState, Scope, ScopeBinding, bind_scope_parent
from harness_core.errors import InactiveFiberError
from harness_core.prompt import SystemPrompt
from harness_plugins.presets.api import Joined, PresetError, find_presets
from harness_plugins.session.api import Session

from .loop import AgentEvent, Limits, Signal, TurnResult, run_turn, send
from .opening import open_session
from .wanted import Setup, ToolFilter, Wanted

if TYPE_CHECKING:
    from .registry import Registry

__all__ = ["Agent"]


class Agent:
    """An agent, and the key of its scope. `ctx.agents.create` makes one.

    What is registered through `agent.ctx` is seen by this agent and its sub-agents, and goes with
    it. Agents are compared by identity.
    """

    __slots__ = (
        "__weakref__",
        "_binding",
        "_is_checked",
        "_moving",
        "_opening",
        "_tie",
        "cwd",
        "inside",
        "joined",
        "limits",
        "model",
        "name",
        "parent",
        "provider",
        "registry",
        "scope",
        "session",
        "source",
        "wanted_session",
    )

    scope: Scope
    """The agent's scope; its key is the agent."""

    def __init__(self, wanted: Wanted, registry: Registry, source: Context) -> None:
        parent = wanted.parent
        self.name = wanted.name
        self.parent = parent
        """The agent within whose lifetime this one lies, or None."""
        self.source = source
        """The context of whoever created it, or of whoever created its outermost parent."""
        self.registry = registry
        self.model: str | None = _own(wanted.model, parent.model if parent else None)
        self.provider: str | None = _own(wanted.provider, parent.provider if parent else None)
        self.cwd: str | None = _own(wanted.cwd, parent.cwd if parent else None)
        self.limits: Limits | None = wanted.limits or (parent.limits if parent else None)
        self.session: Session | None = None
        """The conversation, once it has been opened."""
        self.wanted_session = wanted.session
        self.joined: Joined | None = None
        """The generation of its preset that it has joined."""
        self.inside: dict[Agent, None] = {}
        """The sub-agents, those among them that are not complete yet."""
        self._binding: ScopeBinding | None = None
        self._is_checked = False
        self._tie: Effect | None = None
        self._moving: anyio.Lock | None = None
        self._opening: anyio.Lock | None = None

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
        return self.joined.preset if self.joined is not None else None

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
        return tuple(one for one in self.inside if self.registry.get(one.name) is one)

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
        wanted = Wanted(name, self, preset, model, provider, cwd, persona, tools, session, limits)
        return await self.registry.create(self.source, wanted, setup)

    async def switch_preset(self, preset: str | None) -> None:
        """Join another preset, or none; all or nothing.

        The preset is mounted and has settled before the one step in which the agent moves. Also
        by the name it has: that joins what the preset is made of by now. Raises
        UnknownPresetError, what its mounting raises, and InactiveFiberError if the agent goes
        meanwhile.
        """
        async with self.moving():
            before = self.joined
            after = None
            if preset is not None:
                after = await find_presets(self.ctx).join(preset)
            try:
                self.check_live()
                if after is not None and not self._is_checked:
                    self.ctx[SystemPrompt].tools(self.check_preset)
                    self._is_checked = True
            except BaseException:
                await _left(after)
                raise
            self.joined = after
            self.link()
            await _left(before)

    async def reparent(self, parent: Agent | str | None) -> None:
        """Move below another agent, sub-agents and all, or below none; all or nothing.

        The agent's lifetime lies within the new parent's from then on. Raises AgentError for a
        circle and beyond the greatest depth, UnknownAgentError, and InactiveFiberError if one of
        the two is going.
        """
        await anyio.lowlevel.checkpoint()  # before the move: one that is made is not cancelled
        above = self.registry.resolve(parent)
        self.check_live()
        if above is not self.parent:
            self.registry.check_place(self.name, above, self)
            self.move_below(above)

    # For the modules beside this one

    def moving(self) -> anyio.Lock:
        """Held while it moves from one preset to another."""
        if self._moving is None:
            self._moving = anyio.Lock()
        return self._moving

    def opening(self) -> anyio.Lock:
        """Held while its session is opened."""
        if self._opening is None:
            self._opening = anyio.Lock()
        return self._opening

    def check_live(self) -> None:
        """Raise InactiveFiberError if the agent is going, or has gone."""
        if not self.is_live:
            raise InactiveFiberError(self.fiber)

    def move_below(self, above: Agent | None) -> None:
        """Give the agent this parent: who it goes with, and what it sees."""
        before, tie = self.parent, self._tie
        try:
            self._tie = above.hold(self) if above is not None else None
            self.parent = above
            self.link()
        except BaseException:
            if self._tie is not None and self._tie is not tie:
                self._tie.forget()
            self.parent, self._tie = before, tie
            raise
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

    def link(self) -> None:
        """See what this agent is to see beyond its own scope."""
        above = self.joined.key if self.joined is not None else self.parent
        if self._binding is not None:
            self._binding.rebind(above)
        elif above is not None:
            self._binding = bind_scope_parent(self, above)

    def check_preset(self) -> tuple[()]:
        """Raise PresetError if what the agent sees of its preset is not there; else do nothing.

        It stands among the providers of tools, since these are asked at once when an assembly
        begins: one that is under way goes on as it began.
        """
        joined = self.joined
        if joined is not None and not joined.generation.is_mounted:
            raise PresetError(
                f'agent "{self.name}" has joined the preset "{joined.preset}", and the plugin '
                "presets is gone: mount it again, or switch the agent to no preset"
            )
        return ()

    # The conversation

    async def open_session(self) -> Session:
        """Return the agent's session, and open it if it is not open yet.

        With the plugin `session` it is kept there: under the id that the agent was created with,
        or a new one. Without the plugin it lasts as long as the agent. It is closed with the
        agent, unless it was given to it open. Raises SessionError and SessionBusyError.
        """
        return await open_session(self)

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


async def _left(joined: Joined | None) -> None:
    """Leave a generation and wait for its end: the agent has moved, and cannot move back."""
    if joined is not None:
        gone = joined.leave()
        with anyio.CancelScope(shield=True):
            await gone


def _own(given: str | Path | None, inherited: str | None) -> str | None:
    return inherited if given is None else str(given)
