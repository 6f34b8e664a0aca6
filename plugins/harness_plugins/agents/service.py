"""The service `agents`: the live agents by name, and how one is made."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from harness_core import Context, Scope, Service
from harness_plugins.session.api import Session

from .agent import Agent
from .declared import AgentsConfig, declare
from .loop import Limits
from .registry import Registry
from .wanted import Setup, ToolFilter, Wanted

__all__ = ["Agents"]


class Agents(Service, key="agents"):
    """The live agents by name: `ctx.agents["reviewer"]`; iterating gives names, oldest first."""

    inject = ("system_prompt",)
    Config = AgentsConfig
    provides = "agents"

    def __init__(self, ctx: Context, config: AgentsConfig) -> None:
        self.registry = ctx.shared_state("agents", "registry", Registry)
        self.registry.when_empty = None
        self.registry.max_depth = config.max_depth
        ctx.effect(lambda: lambda: self._leave(ctx), label="registry of agents")
        declare(ctx, self.registry, config)

    def _leave(self, ctx: Context) -> None:
        def forget() -> None:
            ctx.forget_state("agents", "registry")

        self.registry.when_empty = forget
        if not self.registry.taken:
            forget()

    async def create(
        self,
        name: str,
        *,
        preset: str | None = None,
        parent: Agent | str | None = None,
        setup: Setup | None = None,
        model: str | None = None,
        provider: str | None = None,
        cwd: str | Path | None = None,
        persona: str | None = None,
        tools: ToolFilter | None = None,
        session: str | Session | None = None,
        limits: Limits | None = None,
    ) -> Agent:
        """Create an agent, owned by the caller's fiber and, if it has one, by its parent.

        All or nothing: `setup(agent_ctx)`, sync or async, runs like the body of an effect before
        anybody can see the agent, and whatever fails or is cancelled until then leaves nothing.

        `name` is unique among live agents. `preset` is joined in its newest generation; without
        one a sub-agent sees what its parent sees. `model`, `provider`, `cwd` become variables of
        the agent's scope; they and `limits` are the parent's by default. `tools` filters the tools
        that it inherits: names, or `{"allow": [...], "deny": [...]}`. `session` is the id of a
        session that is kept, or an open Session, which stays its owner's.

        Raises InvalidNameError, AgentError (a name that is taken, a filter that is none, too
        deep), UnknownAgentError, UnknownPresetError, RestrictionError, InactiveFiberError, and
        what the preset's plugins, the persona or `setup` raise.
        """
        above = self.registry.resolve(parent)
        wanted = Wanted(name, preset, model, provider, cwd, persona, tools, session, limits)
        return await self.registry.create(self.ctx, wanted, above, setup)

    def __getitem__(self, name: str) -> Agent:
        return self.registry.find(name)

    def get(self, name: str) -> Agent | None:
        """Return an agent, or None."""
        return self.registry.get(name)

    def scope(self, name: str) -> Scope:
        """Return an agent's scope; raise UnknownAgentError, a LookupError, if there is none."""
        return self.registry.find(name).scope

    def __iter__(self) -> Iterator[str]:
        return self.registry.names()

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.registry.get(name) is not None

    def __repr__(self) -> str:
        return f"<Agents {', '.join(self) or '(none)'}>"
