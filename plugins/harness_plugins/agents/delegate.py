"""The tool `delegate`: a model hands a task to a sub-agent and reads what came of it.

It acts for whichever agent calls it, so that a sub-agent which inherits it delegates further, as
deep as `max_depth` allows. The sub-agent goes when it has answered.
"""

from __future__ import annotations

import anyio

from harness_core import Context
from harness_plugins.presets.api import UnknownPresetError
from harness_plugins.tools.api import Tool, ToolCall, ToolError, Tools, function_tool

from .agent import Agent
from .errors import AgentError
from .loop import TurnResult

__all__ = ["delegate_tool", "offer_delegate"]

TIMEOUT = 3600.0
"""Seconds that a sub-agent may take; its own limits end it in better order."""


def delegate_tool() -> Tool:
    """Return the tool, for `ctx.tools.register`, in the scope of an agent or outside of all."""
    return function_tool(delegate, parallel=True, timeout=TIMEOUT)


def offer_delegate(ctx: Context) -> None:
    """Register the tool in the scope of `ctx` whenever there are tools."""

    def delegating(inner: Context) -> None:
        inner[Tools].register(delegate_tool())

    ctx.inject(["tools"], delegating)


async def delegate(task: str, call: ToolCall, preset: str | None = None) -> str:
    """Hand a task to a sub-agent and return its answer.

    The sub-agent begins with nothing but the task: say all that it has to know. It ends when it
    has answered. Several tasks may be handed over at once.

    Args:
        task: What to do, and what to answer with.
        preset: What kind of agent to ask; without one, an agent like you.
    """
    agent = _caller(call)
    try:
        helper = await agent.create(_name_below(agent), preset=preset)
    except (AgentError, UnknownPresetError) as error:
        raise ToolError(str(error)) from error
    try:
        result = await helper.send(task)
    finally:
        with anyio.CancelScope(shield=True):
            await helper.dispose()
    return _answer(helper, result)


def _caller(call: ToolCall) -> Agent:
    if not isinstance(call.scope, Agent):
        raise ToolError("only an agent can delegate: this call is of no agent's scope")
    return call.scope


def _name_below(agent: Agent) -> str:
    number = 1
    while f"{agent.name}/{number}" in agent.books.taken:
        number += 1
    return f"{agent.name}/{number}"


def _answer(helper: Agent, result: TurnResult) -> str:
    if result.reason == "done":
        return result.text
    error = f" ({result.error})" if result.error is not None else ""
    said = f" It had said: {result.text}" if result.text else ""
    raise ToolError(f"sub-agent {helper.name} did not finish: {result.reason}{error}.{said}")
