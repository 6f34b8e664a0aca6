"""Opening an agent's session: at first use, once, wherever sessions are kept."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from harness_plugins.session.api import Session, SessionError

if TYPE_CHECKING:
    from .agent import Agent

__all__ = ["open_session"]


async def open_session(agent: Agent) -> Session:
    """Return the agent's session, opened if need be; see `Agent.open_session`."""
    session = agent.session
    if session is not None and session.is_open:
        return session
    async with agent.opening():
        session = agent.session
        if session is None or not session.is_open:
            session = agent.session = await _open(agent)
        return session


async def _open(agent: Agent) -> Session:
    agent.check_live()
    # A session whose keeper was restarted is opened again, where it was.
    wanted = agent.session.id if agent.session is not None else agent.wanted_session
    if isinstance(wanted, Session):
        if not wanted.is_open:
            raise SessionError(
                f'session "{wanted.id}", which agent "{agent.name}" was given, is closed'
            )
        return wanted
    sessions = agent.ctx.get("session")
    if sessions is None and wanted is not None:
        raise SessionError(
            f'agent "{agent.name}" has session "{wanted}", and nothing keeps sessions: mount the '
            "plugin session"
        )
    if sessions is not None:
        found: Session = await (
            sessions.create(agent=agent.name) if wanted is None else sessions.open(wanted)
        )
        return found
    session = Session(uuid.uuid4().hex)
    agent.ctx.effect(lambda: session.close, label="session")
    return session
