"""Store: all sessions of a database: what each holds, and who may write it."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any

import anyio
import attrs
from sqlalchemy import Select, insert, select, update
from sqlalchemy.engine import Row
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from .database import Database
from .encode import from_text, to_text
from .errors import SessionBusyError, SessionError, UnknownSessionError
from .events import LogEvent, time_text
from .holds import AdvisoryHolds, FileHolds, Holds, Release
from .info import SessionInfo
from .place import Place
from .rows import as_row, count_messages, event_from, info_from, inside
from .tables import events, sessions

__all__ = ["Store", "StoreJournal"]

_PAGE = 500
_POLL = 0.02
_LONGEST_POLL = 0.25


@attrs.define(eq=False)
class StoreJournal:
    """The log of one session in a store, held until it is closed."""

    store: Store
    id: str
    token: str
    release: Release

    async def load(self) -> Sequence[LogEvent]:
        """Return all events."""
        return await self.store.load(self.id)

    async def append(self, events: Sequence[LogEvent]) -> None:
        """Write events, all or none; they are durable when this returns."""
        await self.store.append(self.id, self.token, events)

    async def close(self) -> None:
        """Let go of the session."""
        await self.store.let_go(self.release)


class Store:
    """Sessions in a database, opened when it is first needed."""

    def __init__(self, place: Place, timeout: float) -> None:
        self.place = place
        self.database = Database(place, timeout)
        self.holds: Holds
        if place.file is None:
            self.holds = AdvisoryHolds(self.database.engine)
        else:
            self.holds = FileHolds(place.file.with_name(f"{place.file.name}.locks"))

    # Reading

    async def infos(self, agent: str | None = None) -> list[SessionInfo]:
        """Return all sessions, or those of an agent; that with the latest event first."""
        if not self.database.is_there:
            return []
        query = select(sessions)
        if agent is not None:
            query = query.where(sessions.c.agent == inside(agent))

        async def work(connection: AsyncConnection) -> list[SessionInfo]:
            return [info_from(row) for row in await connection.execute(query)]

        found = await self.database.read(work)
        return sorted(found, key=lambda one: (one.last_at or one.created_at, one.id), reverse=True)

    async def info(self, id: str) -> SessionInfo:
        """Return one session; raise UnknownSessionError."""
        row = await self._row(id)
        if row is None:
            raise UnknownSessionError(id, [one.id for one in await self.infos()])
        return info_from(row)

    async def _row(self, id: str) -> Row[Any] | None:
        # None is called by what cannot be seen, and not every database takes it.
        if not id.isprintable() or not self.database.is_there:
            return None
        query = select(sessions).where(sessions.c.id == id)

        async def work(connection: AsyncConnection) -> Row[Any] | None:
            return (await connection.execute(query)).one_or_none()

        return await self.database.read(work)

    async def load(self, id: str, to: int | None = None) -> list[LogEvent]:
        """Return the events of a session, oldest first, up to number `to`."""
        return [event async for page in self.pages(id, to) for event in page]

    async def pages(self, id: str, to: int | None = None) -> AsyncIterator[list[LogEvent]]:
        """Yield the events of a session in lists, oldest first. Nobody needs to hold it."""
        last = 0
        query = select(events).where(events.c.session == id).order_by(events.c.seq).limit(_PAGE)
        if to is not None:
            query = query.where(events.c.seq <= to)
        while page := await self._page(id, query.where(events.c.seq > last)):
            yield page
            last = page[-1].seq

    async def _page(self, id: str, query: Select[Any]) -> list[LogEvent]:
        async def work(connection: AsyncConnection) -> Sequence[Row[Any]]:
            rows: Sequence[Row[Any]] = (await connection.execute(query)).all()
            return rows

        found: list[LogEvent] = []
        for row in await self.database.read(work):
            try:
                found.append(event_from(row))
            except (AttributeError, TypeError, ValueError) as error:
                raise SessionError(
                    f'event {row.seq} of session "{id}" in {self.place} cannot be read: {error}'
                ) from error
        return found

    # Writing

    async def create(
        self, id: str, agent: str | None, title: str | None, log: Sequence[LogEvent], at: datetime
    ) -> StoreJournal:
        """Make a session that holds `log`, and hold it. Raises SessionError if there is one."""
        token = _token()
        values = {
            "id": id,
            "agent": inside(agent),
            "title": inside(title),
            "created_at": time_text(at),
            "last_at": time_text(log[-1].at) if log else None,
            "events": len(log),
            "messages": count_messages(log),
            "holder": token,
        }

        async def work(connection: AsyncConnection) -> None:
            try:
                await connection.execute(insert(sessions).values(**values))
            except IntegrityError:
                raise _exists(id) from None
            if log:
                await connection.execute(insert(events), [as_row(id, event) for event in log])

        await self.database.prepare()
        release = await self._try(id)
        if release is None:
            raise _exists(id)
        return await self._held(StoreJournal(self, id, token, release), work)

    async def open(self, id: str, wait: float) -> StoreJournal:
        """Hold a session. Raises UnknownSessionError, and SessionBusyError after `wait` seconds."""
        await self.info(id)
        token = _token()
        change = update(sessions).where(sessions.c.id == id).values(holder=token)

        async def work(connection: AsyncConnection) -> None:
            await connection.execute(change)

        release = await self._take(id, wait)
        return await self._held(StoreJournal(self, id, token, release), work)

    async def _held(
        self, journal: StoreJournal, work: Callable[[AsyncConnection], Awaitable[None]]
    ) -> StoreJournal:
        """Write who holds a session, or let go of it."""
        try:
            await self.database.write(work)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await journal.release()
            raise
        return journal

    async def _take(self, id: str, wait: float) -> Release:
        until = anyio.current_time() + wait
        pause = _POLL
        while (release := await self._try(id)) is None:
            left = until - anyio.current_time()
            if left <= 0:
                row = await self._row(id)
                raise SessionBusyError(id, _holder(row.holder if row is not None else None))
            await anyio.sleep(min(pause, left))
            pause = min(pause * 2, _LONGEST_POLL)
        return release

    async def _try(self, id: str) -> Release | None:
        return await self.database.guarded(lambda: self.holds.take(id), "opened")

    async def append(self, id: str, token: str, log: Sequence[LogEvent]) -> None:
        """Write events, all or none, if the session is still held by `token`."""
        change = (
            update(sessions)
            .where(sessions.c.id == id, sessions.c.holder == token)
            .where(sessions.c.events == log[0].seq - 1)
            .values(
                events=log[-1].seq,
                messages=sessions.c.messages + count_messages(log),
                last_at=time_text(log[-1].at),
            )
        )
        rows = [as_row(id, event) for event in log]

        async def work(connection: AsyncConnection) -> None:
            if (await connection.execute(change)).rowcount != 1:
                raise SessionError(
                    f'session "{id}" is not held here any more: somebody else has opened it, or '
                    "removed it. Open it again to go on"
                )
            await connection.execute(insert(events), rows)

        await self.database.write(work)

    async def let_go(self, release: Release) -> None:
        """End a hold. Should the database be gone, the hold is gone with it."""
        try:
            with anyio.CancelScope(shield=True):
                await release()
        except self.database.faults:
            pass

    async def close(self) -> None:
        """Close the database, once nobody takes a hold any more, which would connect anew."""
        await self.database.close(self.holds.close)


def _exists(id: str) -> SessionError:
    return SessionError(f'there is a session "{id}" already: open it, or choose another id')


def _token() -> str:
    """Return a text that says who we are, and is another one each time."""
    me = {"pid": os.getpid(), "host": socket.gethostname(), "token": secrets.token_hex(8)}
    return to_text(me)


def _holder(token: str | None) -> str:
    """Return for people who it is that has a token."""
    if token is None:
        return "another process"
    one, me = from_text(token), from_text(_token())
    if one["host"] != me["host"]:
        return f"process {one['pid']} on {one['host']}"
    return f"this process ({one['pid']})" if one["pid"] == me["pid"] else f"process {one['pid']}"
