"""Registry: the live agents of one tree by name, and how one is added: all or nothing.

It outlives a restart of the service, as the agents do that others have created.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import anyio

from harness_core import Context

from .agent import Agent
from .errors import AgentError, UnknownAgentError
from .furnish import check_name, furnish
from .wanted import Setup, Wanted

__all__ = ["MAX_DEPTH", "Registry"]

MAX_DEPTH = 8
"""How deep sub-agents may stand: an agent without a parent has depth 0."""


class Registry:
    """The agents by name. `agents` are those that can be seen; `taken` also those on the way."""

    def __init__(self) -> None:
        self.agents: dict[str, Agent] = {}
        self.taken: dict[str, Agent] = {}
        self.max_depth = MAX_DEPTH
        self.when_empty: Callable[[], object] | None = None
        """Set while no service uses the registry: called when the last agent goes."""

    # Looking

    def get(self, name: str) -> Agent | None:
        """Return the live agent of a name, or None."""
        agent = self.agents.get(name)
        return agent if agent is not None and agent.is_live else None

    def names(self) -> Iterator[str]:
        """Yield the names of the live agents, oldest first."""
        return iter([name for name, agent in self.agents.items() if agent.is_live])

    def find(self, name: str) -> Agent:
        """Return the live agent of a name; raise UnknownAgentError."""
        agent = self.get(name)
        if agent is None:
            raise UnknownAgentError(name, self.names())
        return agent

    def resolve(self, agent: Agent | str | None) -> Agent | None:
        """Return an agent that is given by name or as itself.

        Raises UnknownAgentError, and AgentError for what is no agent of this tree.
        """
        if isinstance(agent, str):
            return self.find(agent)
        if agent is None:
            return None
        if not isinstance(agent, Agent):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise AgentError(f"{agent!r} is no agent: name one, or give the agent itself")
        if agent.books is not self:
            raise AgentError(f'agent "{agent}" is of another tree')
        return agent

    def arrange(self, names: Iterable[str]) -> None:
        """Let these agents come first, in this order, where the names are listed."""
        first = {name: self.agents[name] for name in names if name in self.agents}
        others = {name: agent for name, agent in self.agents.items() if name not in first}
        self.agents = first | others

    # Checking

    def check(self, wanted: Wanted, parent: Agent | None) -> None:
        """Raise AgentError, or InactiveFiberError, if there cannot be such an agent."""
        check_name(wanted.name)
        holder = self.taken.get(wanted.name)
        if holder is not None and holder.is_live:
            raise AgentError(
                f'there is an agent "{wanted.name}" already (fiber {holder.fiber.path}): dispose '
                "it first, or choose another name"
            )
        wanted.check()
        self.check_place(wanted.name, parent)

    def check_place(self, name: str, above: Agent | None, agent: Agent | None = None) -> None:
        """Raise an error if an agent, or a new one, cannot stand below `above`."""
        if above is None:
            return
        above.check_live()
        at: Agent | None = above
        while at is not None:
            if at is agent:
                raise AgentError(f'agent "{name}" cannot stand below "{above}": it is above it')
            at = at.parent
        depth = above.depth + 1 + (agent.height if agent is not None else 0)
        if depth > self.max_depth:
            raise AgentError(
                f'agent "{name}" cannot stand below "{above}": that is depth {depth}, and the '
                f"greatest depth is {self.max_depth} (max_depth of the plugin agents)"
            )

    # Adding

    async def create(
        self, source: Context, wanted: Wanted, parent: Agent | None, setup: Setup | None = None
    ) -> Agent:
        """Create an agent on behalf of `source`; see `Agents.create`."""
        if setup is not None and not callable(setup):  # pyright: ignore[reportUnnecessaryComparison]
            raise AgentError(f"setup is called with the agent's context, got {setup!r}")
        agent = self.begin(source, wanted, parent)
        try:
            if wanted.preset is not None:
                await agent.switch_preset(wanted.preset)
            furnish(agent, wanted)
            if setup is not None:
                await agent.ctx.effect(setup, label="setup")
            self.publish(agent)
        except BaseException:
            gone = agent.dispose()
            with anyio.CancelScope(shield=True):
                await gone
            raise
        return agent

    def add(self, source: Context, wanted: Wanted, parent: Agent | None) -> Agent:
        """Create an agent that needs nobody to wait for: one without preset and setup."""
        agent = self.begin(source, wanted, parent)
        try:
            furnish(agent, wanted)
            self.publish(agent)
        except BaseException:
            agent.dispose()
            raise
        return agent

    def begin(self, source: Context, wanted: Wanted, parent: Agent | None) -> Agent:
        """Mint an agent that has nothing yet and that nobody sees."""
        self.check(wanted, parent)
        agent = Agent(wanted, parent, self, source)
        try:
            agent.ctx.effect(lambda: lambda: self._end(agent), label=f'agent "{agent.name}"')
            self.taken[agent.name] = agent
            agent.move_below(parent)
        except BaseException:
            agent.dispose()
            raise
        return agent

    def publish(self, agent: Agent) -> None:
        """Let everybody see an agent, unless it has gone meanwhile."""
        agent.check_live()
        if agent.parent is not None:
            agent.parent.check_live()
        self.agents.pop(agent.name, None)  # one that is on its way out: the new one comes last
        self.agents[agent.name] = agent

    def _end(self, agent: Agent) -> None:
        """Forget an agent, when the last of it has been undone."""
        agent.let_go()
        for books in (self.agents, self.taken):
            if books.get(agent.name) is agent:
                del books[agent.name]
        if self.when_empty is not None and not self.taken:
            self.when_empty()
