"""Database: connections, transactions and the schema; what goes wrong becomes a SessionError."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import anyio
import anyio.to_thread
from sqlalchemy import event, insert, inspect, select, text
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from .errors import SessionError
from .place import Place
from .tables import VERSION, metadata, schema

__all__ = ["Database"]

T = TypeVar("T")
Work = Callable[[AsyncConnection], Awaitable[T]]

_WRITES = "harness_writes"
_SET_UP = 7_310_418_224_061
"""The advisory lock under which the tables are made: `create table` does not like company."""


class Database:
    """A database that is opened when it is first needed. `timeout` is in seconds."""

    def __init__(self, place: Place, timeout: float) -> None:
        self.place = place
        self._timeout = timeout
        self.engine = _engine(place, timeout)
        self.faults = _errors_of(self.engine)
        self._is_ready = False
        self._is_closed = False
        self._under_way = 0
        self._ended = anyio.Event()
        """Set when something that was under way has ended."""
        self._lock = anyio.Lock()
        self._writing = anyio.Lock()
        self._identity: tuple[int, int] | None = None
        """Of the file, as long as it is the one that was opened."""

    @property
    def is_there(self) -> bool:
        """Whether there can be anything in it: a file that nobody has made is empty."""
        return self._is_ready or self.place.file is None or self.place.file.exists()

    async def prepare(self) -> None:
        """Make what is missing. Raises SessionError."""
        await self.guarded(self._set_up, "opened")

    async def read(self, work: Work[T]) -> T:
        """Run `work` in a transaction that changes nothing. Raises SessionError."""
        return await self.guarded(lambda: self._run(work, writes=False), "read")

    async def write(self, work: Work[T]) -> T:
        """Run `work` in a transaction and commit it. Raises SessionError.

        It is durable when this returns, and nothing is changed if `work` raises. A failed commit
        on a broken connection leaves it open which of the two it is.
        """
        return await self.guarded(lambda: self._run(work, writes=True), "written")

    async def _run(self, work: Work[T], *, writes: bool) -> T:
        await self._set_up()
        file = self.place.file
        if not writes or file is None:
            return await self._transact(work, writes=writes)
        async with self._writing:  # SQLite has one writer at a time, and does not queue well
            if self._identity != _identity(file):
                raise SessionError(
                    f"the sessions in {file} cannot be written: the file was removed or replaced "
                    "while it was open. Put it back, or start again"
                )
            return await self._transact(work, writes=writes)

    async def _transact(self, work: Work[T], *, writes: bool) -> T:
        async with self.engine.connect() as plain:
            connection = await plain.execution_options(**{_WRITES: writes})
            async with connection.begin():
                return await work(connection)

    async def guarded(self, work: Callable[[], Awaitable[T]], done: str) -> T:
        """Run `work` to its end, whoever is cancelled; raise SessionError for what goes wrong.

        A driver that is cut off in the middle has to give up its connection. What is done here is
        short, and bounded by the timeout.
        """
        if self._is_closed:
            raise SessionError(
                f"the sessions in {self.place} cannot be {done}: the plugin session was unloaded"
            )
        self._under_way += 1
        try:
            return await _shielded(work)
        except self.faults as error:
            raise SessionError(self._said(error, done)) from error
        finally:
            self._under_way -= 1
            self._ended.set()

    def _said(self, error: Exception, done: str) -> str:
        cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
        words = str(cause).strip() or type(cause).__name__
        said = f"the sessions in {self.place} cannot be {done}: {words}"
        for sign, hint in _HINTS:
            if sign in words.lower():
                return f"{said}. {hint.format(timeout=self._timeout)}"
        return said

    async def _set_up(self) -> None:
        """Make what is missing; raise SessionError if a later release made it."""
        if not self._is_ready:
            async with self._lock:
                await self._open()

    async def _open(self) -> None:
        if self._is_ready:  # somebody else was first
            return
        file = self.place.file
        if file is not None:
            await anyio.to_thread.run_sync(_make_directory, file.parent)
        version = await self._transact(_version, writes=False)
        if version is None:
            version = await self._transact(_make_tables, writes=True)
        if version > VERSION:
            raise SessionError(
                f"the sessions in {self.place} were written by a later release (schema "
                f"{version}, this one knows {VERSION}): update harness-core, or use another "
                "url or directory"
            )
        self._identity = _identity(file) if file is not None else None
        self._is_ready = True

    async def close(self, last: Callable[[], Awaitable[None]]) -> None:
        """Take no more work, wait for what is under way, do the `last` thing, and disconnect.

        Raises SessionError for what goes wrong with that.
        """
        self._is_closed = True
        with anyio.CancelScope(shield=True):
            while self._under_way:
                self._ended = anyio.Event()
                await self._ended.wait()
            try:
                await last()
            except self.faults as error:
                raise SessionError(self._said(error, "closed")) from error
            finally:
                await self.engine.dispose()


async def _shielded(work: Callable[[], Awaitable[T]]) -> T:
    done: list[T] = []
    with anyio.CancelScope(shield=True):
        done.append(await work())
    return done[0]


def _identity(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _errors_of(engine: AsyncEngine) -> tuple[type[Exception], ...]:
    """Return what can go wrong; while it connects, a driver raises errors of its own."""
    if engine.dialect.name == "sqlite":
        return (SQLAlchemyError, OSError, sqlite3.Error)
    driver: Any = import_module("asyncpg")
    return (SQLAlchemyError, OSError, driver.PostgresError, driver.InterfaceError)


def _engine(place: Place, timeout: float) -> AsyncEngine:
    if place.file is None:
        limits = {"timeout": timeout, "command_timeout": timeout}
        return create_async_engine(place.url, pool_pre_ping=True, connect_args=limits)
    engine = create_async_engine(place.url, connect_args={"timeout": timeout})
    event.listen(engine.sync_engine, "connect", _prepare)
    event.listen(engine.sync_engine, "begin", _begin)
    return engine


def _prepare(connection: Any, _: object) -> None:
    """Set up a connection to SQLite: durable commits, transactions that we begin ourselves."""
    connection.isolation_level = None
    cursor = connection.cursor()
    try:
        # FULL: a commit is on the disk when it returns. With NORMAL, a power cut takes it back.
        for pragma in ("journal_mode = wal", "synchronous = full", "fullfsync = on"):
            cursor.execute(f"pragma {pragma}")
    finally:
        cursor.close()


def _begin(connection: Connection) -> None:
    # A transaction that begins by reading and then writes may be refused instead of waiting.
    writes = connection.get_execution_options().get(_WRITES, False)
    connection.exec_driver_sql("begin immediate" if writes else "begin")


def _make_directory(directory: Path) -> None:
    """Make a directory for what was said: for nobody else to read, and not to be committed."""
    if directory.is_dir():
        return
    directory.parent.mkdir(parents=True, exist_ok=True)
    directory.mkdir(mode=0o700, exist_ok=True)
    (directory / ".gitignore").write_text("*\n")
    for changed in (directory, directory.parent):  # so that they are there after a power cut
        descriptor = os.open(changed, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


async def _version(connection: AsyncConnection) -> int | None:
    """Return the version of the tables; None if there are none."""
    if not await connection.run_sync(lambda sync: inspect(sync).has_table(schema.name)):
        return None
    return await connection.scalar(select(schema.c.version))


async def _make_tables(connection: AsyncConnection) -> int:
    if connection.dialect.name == "postgresql":
        lock = text("select pg_advisory_xact_lock(:number)")
        await connection.execute(lock, {"number": _SET_UP})
    version = await _version(connection)  # somebody may have been faster
    if version is not None:
        return version
    await connection.run_sync(metadata.create_all)
    await connection.execute(insert(schema).values(version=VERSION))
    return VERSION


_HINTS = (
    ("disk is full", "Nothing was changed: make room, and try again"),
    ("no space left", "Nothing was changed: make room, and try again"),
    ("disk i/o error", "The disk may be full or faulty"),
    ("readonly", "Check who owns the file and its directory"),
    ("read-only", "Check where the directory is mounted, or what the server allows"),
    ("permission denied", "Check who owns the file and its directory"),
    ("unable to open", "Check the directory, who owns it, and whether it may be written"),
    ("is locked", "Another program has it for itself, longer than {timeout:g} seconds"),
    ("not a database", "Something else was there before: move it away, or use another directory"),
    (
        "malformed",
        "The file is damaged: restore a copy, or save what `sqlite3 FILE .recover` can read",
    ),
)
