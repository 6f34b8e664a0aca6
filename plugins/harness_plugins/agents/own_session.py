"""OwnSession: an agent's session, opened at first use, once, wherever sessions are kept."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import anyio

from harness_core import Context
from harness_plugins.session.api import Session, SessionError

__all__ = ["OwnSession"]


class OwnSession:
    """The session of the agent of this name.

    `wanted` is an open session that it was given, or the id of one that is kept; None: a new one.
    """

    __slots__ = ("_agent", "_opening", "current", "wanted")

    def __init__(self, agent: str, wanted: Session | str | None) -> None:
        self._agent = agent
        self.wanted = wanted
        self.current: Session | None = None
        """The session that was opened last."""
        self._opening: anyio.Lock | None = None

    async def open(self, ctx: Context, check: Callable[[], None]) -> Session:
        """Return the session, opened on behalf of `ctx` if need be; see `Agent.open_session`.

        `check` is called before one is opened, and raises an error if the agent is going.
        """
        if self.current is not None and self.current.is_open:
            return self.current
        if self._opening is None:
            self._opening = anyio.Lock()
        async with self._opening:
            if self.current is None or not self.current.is_open:
                check()
                self.current = await self._open(ctx)
            return self.current

    async def _open(self, ctx: Context) -> Session:
        # A session whose keeper was restarted is opened again, where it was.
        wanted = self.current.id if self.current is not None else self.wanted
        if isinstance(wanted, Session):
            if not wanted.is_open:
                raise SessionError(
                    f'session "{wanted.id}", which agent "{self._agent}" was given, is closed'
                )
            return wanted
        sessions = ctx.get("session")
        if sessions is None and wanted is not None:
            raise SessionError(
                f'agent "{self._agent}" has session "{wanted}", and nothing keeps sessions: mount '
                "the plugin session"
            )
        if sessions is not None:
            found: Session = await (
                sessions.create(agent=self._agent) if wanted is None else sessions.open(wanted)
            )
            return found
        session = Session(uuid.uuid4().hex)
        ctx.effect(lambda: session.close, label="session")
        return session
