"""What one assembly for an agent is for."""

from __future__ import annotations

from typing import Any

from harness_core.prompt import AssembleContext
from harness_plugins.session.api import History

from .speaker import Speaker

__all__ = ["assemble_context_for"]


def assemble_context_for(
    agent: Speaker, signal: Any = None, *, history: History | None = None
) -> AssembleContext:
    """Return what one assembly for an agent is for: `scope` and `agent` are set together.

    `last_message_at` says when the last message was written, None if there is none: of `history`,
    or else of the agent's session. In a turn it is the last message before the turn, or it would
    always be the one that was said just now. `signal` is an anyio cancel scope, which belongs to
    this one assembly.
    """
    if history is None and agent.session is not None:
        history = agent.session.history
    last = history.last_message_at if history is not None else None
    return AssembleContext(scope=agent, signal=signal, agent=agent, last_message_at=last)
