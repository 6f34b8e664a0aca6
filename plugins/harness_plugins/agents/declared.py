"""Agents that the manifest declares: their settings, checked, and how they come to be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from harness_core import Context
from harness_core.errors import ConfigError, closest

from .agent import Agent
from .delegate import offer_delegate
from .errors import AgentError
from .furnish import RESERVED, read_filter
from .late_filter import LateFilter
from .loop import Limits
from .registry import MAX_DEPTH, Registry
from .wanted import Wanted

__all__ = ["AgentConfig", "AgentsConfig", "declare"]


@attrs.frozen
class AgentConfig:
    """One agent. `plugins` holds rows as in the manifest.

    `tools` filters the tools it inherits: names, or `{allow: [...], deny: [...]}`. With `delegate`
    its model may hand tasks to sub-agents.
    """

    parent: str | None = None
    preset: str | None = None
    persona: str | None = None
    model: str | None = None
    provider: str | None = None
    cwd: str | None = None
    session: str | None = None
    limits: Limits | None = None
    tools: Any = None
    delegate: bool = False
    plugins: list[Any] = attrs.field(factory=list)


@attrs.frozen
class AgentsConfig:
    """The agents by name; None stands for one without settings. See `Registry.max_depth`."""

    agents: dict[str, AgentConfig | None] = attrs.field(factory=dict)
    max_depth: int = MAX_DEPTH


def declare(ctx: Context, registry: Registry, config: AgentsConfig) -> None:
    """Create the declared agents, parents first; those that need a preset once there are presets.

    Raises ConfigError with every fault of the settings.
    """
    agents = {one: settings or AgentConfig() for one, settings in config.agents.items()}
    problems = [*_problems(agents, config.max_depth)]
    if problems:
        raise ConfigError(problems, plugin="agents")
    lines = {one: [one, *_line(one, agents)] for one in agents}
    in_order = sorted(agents, key=lambda one: len(lines[one]))
    late = [one for one in in_order if any(agents[name].preset for name in lines[one])]
    for one in in_order:
        if one not in late:
            _add(ctx, registry, one, agents[one])
    registry.arrange(agents)
    if late:

        async def with_presets(inner: Context) -> None:
            for one in late:
                await _create(inner, registry, one, agents[one])
            registry.arrange(agents)

        with_presets.__name__ = "agents"  # in the prompt, their texts are of this plugin
        ctx.inject(["presets", "system_prompt"], with_presets)


def _add(ctx: Context, registry: Registry, name: str, settings: AgentConfig) -> None:
    _fill(registry.add(ctx, _wanted(name, settings), registry.resolve(settings.parent)), settings)


async def _create(ctx: Context, registry: Registry, name: str, settings: AgentConfig) -> None:
    _fill(
        await registry.create(ctx, _wanted(name, settings), registry.resolve(settings.parent)),
        settings,
    )


def _wanted(name: str, settings: AgentConfig) -> Wanted:
    return Wanted(
        name,
        settings.preset,
        settings.model,
        settings.provider,
        settings.cwd,
        settings.persona,
        session=settings.session,
        limits=settings.limits,
    )


def _fill(agent: Agent, settings: AgentConfig) -> None:
    if settings.tools is not None:
        given = read_filter(f'agent "{agent.name}": tools', settings.tools)
        LateFilter(agent.name, given).hold(agent.ctx)
    if settings.delegate:
        offer_delegate(agent.ctx)
    if settings.plugins:
        loader = agent.ctx.get("loader")
        if loader is None:
            raise AgentError(f'agent "{agent.name}": its plugins need a loader, and there is none')
        loader.mount(settings.plugins)


def _problems(agents: Mapping[str, AgentConfig], max_depth: int) -> Iterator[str]:
    if max_depth < 0:
        yield f"max_depth: expected 0 or more, got {max_depth}"
    for one, settings in agents.items():
        parent = settings.parent
        if not one.strip() or one == RESERVED:
            yield f"agents.{one}: an agent cannot be called {one!r}"
        if parent is not None and parent not in agents:
            guess = closest(parent, agents)
            hint = f', did you mean "{guess}"?' if guess else ""
            known = ", ".join(agents)
            yield f'agents.{one}.parent: there is no agent "{parent}"{hint} (agents: {known})'
        line = _line(one, agents)
        if line and line[-1] == one:
            yield f"agents.{one}.parent: a circle of parents: {' → '.join((one, *line))}"
        elif len(line) > max_depth:
            yield f"agents.{one}.parent: depth {len(line)}, and the greatest is {max_depth}"
        try:
            if settings.tools is not None:
                read_filter(f"agents.{one}.tools", settings.tools)
        except AgentError as error:
            yield str(error)


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
