"""`agents`: named scopes, each with its persona and plugins of its own.

    - name: agents
      config:
        agents:
          maintainer:
            persona: You maintain this library.
            plugins:
              - name: ./tools.py
          reviewer:
            parent: maintainer         # sees what the maintainer sees; what it has itself wins
            persona: You review changes.

Agents may stand in any order. A persona becomes the section `deployment:persona` of the agent's
scope, in front of every outer one; `plugins` holds rows as in the manifest, mounted in the scope.
The service `agents` finds an agent by name: `ctx.agents["reviewer"]` is the key to assemble for.

A parent that does not exist, a circle of parents, and rows that are none are errors that name the
agent. The name `global` is refused: it stands for the layer that all agents share.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from harness_core import Context, Scope, create_scope
from harness_core.errors import ConfigError, closest
from harness_plugins.persona.api import set_persona

from .api import Agent, Agents

__all__ = ["AgentConfig", "Config", "apply", "inject", "name", "provides"]

name = "agents"
inject = ["system_prompt", "loader"]
provides = ["agents"]


@attrs.frozen
class AgentConfig:
    """One agent. `plugins` holds rows as in the manifest."""

    parent: str | None = None
    persona: str | None = None
    plugins: list[Any] = attrs.field(factory=list)


@attrs.frozen
class Config:
    """The agents by name; None stands for one without settings."""

    agents: dict[str, AgentConfig | None] = attrs.field(factory=dict)


def apply(ctx: Context, config: Config) -> None:
    """Mint the scopes, parents first, fill them, and publish the service."""
    agents = {one: settings or AgentConfig() for one, settings in config.agents.items()}
    problems = [*_problems(agents)]
    if problems:
        raise ConfigError(problems, plugin=name)
    scopes: dict[str, Scope] = {}
    for one in sorted(agents, key=lambda one: len(_line(one, agents))):
        parent = agents[one].parent
        above = scopes[parent].key if parent is not None else None
        agent = Agent(one, above if isinstance(above, Agent) else None)
        scopes[one] = create_scope(ctx, agent, parent=above)
        _fill(scopes[one], agents[one])
    ctx.provide("agents", Agents({one: scopes[one] for one in agents}))


def _fill(scope: Scope, settings: AgentConfig) -> None:
    if settings.persona is not None:
        scope.ctx.plugin(_Persona(settings.persona))
    if settings.plugins:
        scope.ctx.loader.mount(settings.plugins)


class _Persona:
    """Gives a scope its persona; a plugin of its own, so that the prompt says who wrote it."""

    name = "agents"
    inject = ("system_prompt",)

    def __init__(self, text: str) -> None:
        self.text = text

    def apply(self, ctx: Context) -> None:
        set_persona(ctx, self.text)


def _problems(agents: Mapping[str, AgentConfig]) -> Iterator[str]:
    for one, settings in agents.items():
        parent = settings.parent
        if not one.strip() or one == "global":
            yield f"agents.{one}: an agent cannot be called {one!r}"
        if parent is not None and parent not in agents:
            guess = closest(parent, agents)
            hint = f', did you mean "{guess}"?' if guess else ""
            known = ", ".join(agents)
            yield f'agents.{one}.parent: there is no agent "{parent}"{hint} (agents: {known})'
        line = _line(one, agents)
        if line and line[-1] == one:
            yield f"agents.{one}.parent: a circle of parents: {' → '.join((one, *line))}"


def _line(one: str, agents: Mapping[str, AgentConfig]) -> list[str]:
    """Return the ancestors of an agent, nearest first, up to one that is met again."""
    line: list[str] = []
    at = agents[one].parent
    while at is not None and at in agents:
        line.append(at)
        if at == one or line.count(at) > 1:
            break
        at = agents[at].parent
    return line
