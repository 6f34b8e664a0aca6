"""OwnSession: an agent's session, opened at first use, once, wherever sessions are kept."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import anyio

from harness_core import Context
from harness_plugins.session.api import Session, SessionError, Sessions

from .loop import wait_swapped

__all__ = ["OwnSession"]


class OwnSession:
    """The session of the agent of this name.

    `wanted` is an open session that it was given, or the id of one that is kept; None: a new one.
    """

    __slots__ = ("_agent", "_keeping", "_opening", "current", "wanted")

    def __init__(self, agent: str, wanted: Session | str | None) -> None:
        self._agent = agent
        self.wanted = wanted
        self.current: Session | None = None
        """The session that was opened last."""
        self._opening: anyio.Lock | None = None
        self._keeping: Context | None = None
        """Owns what was opened, in one place among all that the agent owns.

        A turn may open its session once more, and is still ended before that is closed.
        """

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
                await wait_swapped(ctx)  # or the keeper of sessions may seem not to exist
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
        keeping = self._keeping or ctx.own_fiber("session")
        try:
            opened = await self._opened(keeping, wanted)
        except BaseException:
            if self._keeping is None:
                with anyio.CancelScope(shield=True):
                    await keeping.fiber.dispose()
            raise
        self._keeping = keeping
        return opened

    async def _opened(self, keeping: Context, id: str | None) -> Session:
        """Return the session of this id, or a new one, owned by `keeping`."""
        sessions: Sessions | None = keeping.get("session")
        if sessions is not None:
            return await (sessions.create(agent=self._agent) if id is None else sessions.open(id))
        if id is not None:
            raise SessionError(
                f'agent "{self._agent}" has session "{id}", and nothing keeps sessions: mount the '
                "plugin session"
            )
        session = Session(uuid.uuid4().hex)
        keeping.effect(lambda: session.close, label="session")
        return session
