"""The service `session`: create, open, list, fork, read, export and import sessions."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Sequence
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import anyio
import attrs

from harness_core import Context, Effect, Service
from harness_core.errors import PluginError

from .errors import SessionError
from .events import LogEvent
from .history import project
from .info import SessionInfo
from .session import Session

if TYPE_CHECKING:
    from .place import Place
    from .store import StoreJournal

__all__ = ["Sessions", "SessionsConfig", "locate"]

Infos: TypeAlias = list[SessionInfo]
_LONGEST = 200


@attrs.frozen
class SessionsConfig:
    """Where sessions are kept: a directory for a file of SQLite, or the URL of a database.

    `timeout`: seconds to wait for a database that somebody else has for himself, or that does not
    answer.
    """

    directory: str | None = None
    url: str | None = None
    timeout: float = 10.0

    def __attrs_post_init__(self) -> None:
        if self.directory is not None and self.url is not None:
            raise ValueError("give either directory or url")
        if not self.timeout > 0:
            raise ValueError(f"timeout is {self.timeout}: expected a number of seconds above 0")


def locate(ctx: Context, config: SessionsConfig) -> Place:
    """Return where the sessions are; raise ConfigError, and PluginError for a missing library."""
    loader = ctx.get("loader")
    base = Path(loader.directory) if loader is not None else Path.cwd()
    extra = "session"
    try:
        # Late: the libraries of databases are for those who mount the plugin.
        from .place import find_place

        place = find_place(base, config.url, config.directory)
        extra = "session" if place.file is not None else "postgres"
        import_module(place.driver)
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        raise PluginError(
            f"the plugin session needs {library}, which is not installed. "
            f'Install the extra: pip install "harness-core[{extra}]"'
        ) from error
    return place


class Sessions(Service, key="session"):
    """Sessions that last. What it opens is closed with the fiber of whoever asked for it."""

    Config = SessionsConfig
    provides = "session"

    def __init__(self, ctx: Context, config: SessionsConfig) -> None:
        place = locate(ctx, config)
        from .store import Store  # late, as in locate()

        self._store = Store(place, config.timeout)
        self._open: set[_Owned] = set()
        self._is_gone = False
        ctx.effect(lambda: self._close, label=f"sessions in {place}")

    async def _close(self) -> None:
        self._is_gone = True
        async with anyio.create_task_group() as tasks:
            for session in self._open:
                tasks.start_soon(session.close)
        await self._store.close()

    # Sessions to write to

    async def create(
        self, id: str | None = None, *, agent: str | None = None, title: str | None = None
    ) -> Session:
        """Make a session and open it. Raises SessionError if there is one of this id."""
        return await self._create(id, agent, title, ())

    async def open(self, id: str, *, wait: float = 0.0) -> Session:
        """Open a session that exists, to go on where it ended.

        Raises UnknownSessionError, and SessionBusyError if it is open elsewhere, in this process
        or another one, and stays so for `wait` seconds.
        """
        return await self._opened(await self._store.open(id, wait))

    async def fork(self, id: str, *, at: int | None = None, new_id: str | None = None) -> Session:
        """Copy a session up to the event of number `at`, all by default; open the copy.

        The session itself may be open anywhere. Raises UnknownSessionError, and SessionError for
        a number that it does not have.
        """
        info = await self._store.info(id)
        end = info.events if at is None else at
        if not 0 <= end <= info.events:
            raise SessionError(
                f'session "{id}" has the events 1 to {info.events}: it cannot be forked at {at}'
            )
        log = await self._store.load(id, end)
        log.append(LogEvent(end + 1, "forked", {"session": id, "seq": end}, _now()))
        return await self._create(new_id, info.agent, info.title, log)

    async def restore(
        self,
        lines: Iterable[str] | AsyncIterable[str],
        *,
        id: str | None = None,
        agent: str | None = None,
        title: str | None = None,
    ) -> Session:
        """Make a session of the lines that `export` gave, and open it. Raises SessionError.

        All of it is written, or nothing.
        """
        return await self._create(id, agent, title, await _read_lines(lines))

    async def _create(
        self, id: str | None, agent: str | None, title: str | None, log: Sequence[LogEvent]
    ) -> Session:
        self.ctx.fiber.check_open()
        project(log)  # what cannot be read back is refused
        now = _now()
        name = _new_id(now) if id is None else _checked_id(id)
        return await self._opened(await self._store.create(name, agent, title, log, now))

    async def _opened(self, journal: StoreJournal) -> Session:
        """Return the session of a journal, owned by the caller's fiber; let go of it on failure."""
        try:
            session = _Owned(journal.id, journal, await journal.load())
            if self._is_gone:
                raise SessionError(f'session "{journal.id}": the plugin session was unloaded')
            label = f'session "{journal.id}"'
            session.effect = self.ctx.effect(lambda: lambda: self._end(session), label=label)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await journal.close()
            raise
        self._open.add(session)
        return session

    async def _end(self, session: _Owned) -> None:
        try:
            await session.end()
        finally:
            self._open.discard(session)

    # Sessions to read

    async def list(self, agent: str | None = None) -> Infos:
        """Return what there is, or what an agent has; the latest first."""
        return await self._store.infos(agent)

    async def info(self, id: str) -> SessionInfo:
        """Return what the list says of one session; raise UnknownSessionError."""
        return await self._store.info(id)

    async def read(self, id: str) -> tuple[LogEvent, ...]:
        """Return the log of a session, whoever has it open; raise UnknownSessionError."""
        await self._store.info(id)
        return tuple(await self._store.load(id))

    async def export(self, id: str) -> AsyncIterator[str]:
        """Yield the log of a session as lines of JSON; raise UnknownSessionError."""
        await self._store.info(id)
        async for page in self._store.pages(id):
            for event in page:
                yield event.to_json()


class _Owned(Session):
    """A session that is an effect of whoever opened it: closing it takes the effect back."""

    effect: Effect

    async def close(self) -> None:
        """Let go of the session, after an append that is under way; later calls only wait."""
        await self.effect()

    async def end(self) -> None:
        """Let go of the session; for its effect only."""
        await super().close()


def _now() -> datetime:
    return datetime.now(UTC)


def _new_id(now: datetime) -> str:
    return f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(4)}"


def _checked_id(id: str) -> str:
    if not id.strip() or not id.isprintable() or len(id) > _LONGEST:
        raise SessionError(
            f"{id[:_LONGEST]!r} cannot be the id of a session: expected 1 to {_LONGEST} characters "
            "that can be seen"
        )
    return id


async def _read_lines(lines: Iterable[str] | AsyncIterable[str]) -> list[LogEvent]:
    log: list[LogEvent] = []
    number = 0

    def add(line: str) -> None:
        if not line.strip():
            return
        try:
            event = LogEvent.from_json(line)
        except ValueError as error:
            raise SessionError(f"line {number}: {error}") from error
        if event.seq != len(log) + 1:
            raise SessionError(f"line {number}: event {event.seq}, expected {len(log) + 1}")
        log.append(event)

    if isinstance(lines, AsyncIterable):
        async for line in lines:
            number += 1
            add(line)
    else:
        for line in lines:
            number += 1
            add(line)
    return log
