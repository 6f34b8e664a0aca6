"""`agents`: named scopes, each with its persona and plugins of its own. The service `agents`.

    - name: agents
      config:
        max_depth: 8                   # levels of agents below each other
        agents:
          maintainer:
            persona: You maintain this library.
            model: m-1                 # also provider, cwd, limits, session
            delegate: true             # its model may hand tasks to sub-agents
            plugins:
              - name: ./tools.py
          reviewer:
            parent: maintainer         # sees what the maintainer sees; what it has itself wins
            persona: You review changes.
            tools: [read]              # what is left of the tools that it inherits
          coder:
            preset: coder              # of the plugin presets

Agents may stand in any order. A persona becomes the section `deployment:persona` of the agent's
scope, in front of every outer one; `plugins` holds rows as in the manifest, mounted in the scope.
The service `agents` finds an agent by name: `ctx.agents["reviewer"]` is the key to assemble for.
Plugins create more of them: `await ctx.agents.create(name, ...)`. An agent goes with its parent.

A parent that does not exist, a circle of parents, and rows that are none are errors that name the
agent. The name `global` is refused: it stands for the layer that all agents share.
"""

from __future__ import annotations

from harness_core import Context

from .declared import AgentConfig, AgentsConfig
from .service import Agents

__all__ = ["AgentConfig", "Agents", "Config", "apply", "inject", "name", "provides"]

name = "agents"
inject = ["system_prompt"]
provides = ["agents"]
Config = AgentsConfig


def apply(ctx: Context, config: AgentsConfig) -> None:
    """Create the declared agents, parents first, and publish the service."""
    ctx.provide("agents", Agents(ctx, config))
