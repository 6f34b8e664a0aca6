"""What an agent's scope holds from the start: its variables, its persona, its tool filter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, cast

from harness_core import Context
from harness_core.errors import InvalidNameError, closest
from harness_core.prompt import SystemPrompt
from harness_plugins.persona.api import set_persona
from harness_plugins.tools.api import Tools

from .agent import Agent
from .errors import AgentError
from .wanted import Wanted

__all__ = ["check_name", "furnish", "read_filter"]

RESERVED = "global"
"""How the layer is called that all agents share."""


def check_name(name: object) -> None:
    """Raise InvalidNameError for what is no name of an agent."""
    if not isinstance(name, str) or not name.strip() or name == RESERVED:
        raise InvalidNameError(
            name, of="agent", expected='a text that is not blank, and not "global"'
        )


def furnish(agent: Agent, wanted: Wanted) -> None:
    """Register in an agent's scope what it was created with; raise what a registration raises."""
    ctx = agent.ctx
    prompt = ctx[SystemPrompt]
    for name in ("model", "provider", "cwd"):
        if getattr(agent, name) is not None:
            prompt.variable(name, partial(getattr, agent, name))  # they can be set later
    if wanted.persona is not None:
        set_persona(ctx, wanted.persona)
    if wanted.tools is not None:
        _restrict(ctx, agent.name, wanted.tools)


def _restrict(ctx: Context, name: str, given: Any) -> None:
    filtered = read_filter(f'agent "{name}": tools', given)
    tools: Tools | None = ctx.get("tools")
    if tools is None:
        raise AgentError(f'agent "{name}": a tool filter needs the plugin tools, mounted before')
    tools.restrict(**filtered)


def read_filter(whose: str, given: Any) -> dict[str, list[str]]:
    """Return a tool filter as the arguments of `tools.restrict`; raise AgentError for no filter."""
    if isinstance(given, Mapping):
        keys = cast("Mapping[object, object]", given)
        if not keys:
            raise AgentError(f"{whose}: a filter without names: give allow, deny or both")
        for key in keys:
            if key not in ("allow", "deny"):
                guess = closest(str(key), ("allow", "deny"))
                hint = f', did you mean "{guess}"?' if guess else ""
                raise AgentError(f'{whose}: unknown key "{key}"{hint} (there are: allow, deny)')
        return {str(key): _names(f"{whose}.{key}", names) for key, names in keys.items()}
    return {"allow": _names(whose, given)}


def _names(whose: str, given: Any) -> list[str]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise AgentError(f"{whose}: expected a list of tool names, got {given!r}")
    names: list[str] = []
    for name in cast("Iterable[object]", given):
        if not isinstance(name, str):
            raise AgentError(f"{whose}: expected tool names, got {name!r}")
        names.append(name)
    return names
