"""What these tests share: a tree in which agents can be created, and what an agent is told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import harness_plugins.agents
from harness_plugins.agents.api import Agent
from harness_plugins.tools.api import Tool, Tools

from harness_core import Context
from harness_core.prompt import SystemPrompt, render_prompt

EMPTY: dict[str, Any] = {"type": "object", "properties": {}}


@asynccontextmanager
async def tree(**config: Any) -> AsyncIterator[Context]:
    """Open a tree with prompt, tools and agents, and no loader."""
    async with Context() as root:
        await root.plugin(SystemPrompt, include_harness_identity=False)
        await root.plugin(Tools)
        await root.plugin(harness_plugins.agents, config)
        yield root


async def told(root: Context, scope: object | None = None) -> str:
    """Return the system prompt of a scope."""
    return render_prompt(await root.system_prompt.assemble(scope=scope))


async def tools_of(root: Context, scope: object | None = None) -> list[str]:
    """Return the names of the tools that the model of a scope is told of."""
    return [one.name for one in (await root.system_prompt.assemble(scope=scope)).tools]


def tool(name: str) -> Tool:
    """Return a tool that says ok."""
    return Tool(name, f"Tool {name}.", EMPTY, run=lambda _: "ok")


def rule(text: str, order: float = 10) -> Any:
    """Return a set-up that gives an agent a rule."""

    def setup(ctx: Context) -> None:
        ctx.system_prompt.section(f"rule {text}", text, order=order)

    return setup


def line(agent: Agent) -> list[str]:
    """Return the names from an agent to its outermost parent."""
    names: list[str] = []
    at: Agent | None = agent
    while at is not None:
        names.append(at.name)
        at = at.parent
    return names
