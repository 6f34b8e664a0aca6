"""Holds: who may write a session. One holder at a time, in this process and in all others.

A hold goes with the process that has it, however that ends: a file lock, or an advisory lock of
the database server, which knows when the connection is gone.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

import anyio
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from .errors import SessionError

__all__ = ["AdvisoryHolds", "FileHolds", "Holds", "Release"]

Release = Callable[[], Awaitable[None]]


class Holds(Protocol):
    """Where holds are taken."""

    async def take(self, name: str) -> Release | None:
        """Take a hold and return what lets go of it; None if somebody has it."""
        ...

    async def close(self) -> None:
        """Let go of everything."""
        ...


class FileHolds:
    """Locks on files in a directory, one for each session that is open."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    async def take(self, name: str) -> Release | None:
        """Take a hold and return what lets go of it; None if somebody has it."""
        self._directory.mkdir(exist_ok=True)
        path = self._directory / f"{_digest(name).hex()}.lock"
        while True:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                if not _lock(descriptor):
                    os.close(descriptor)
                    return None
                if _is_at(descriptor, path):
                    break
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)  # whoever had it took the file away before letting go

        async def release() -> None:
            try:
                path.unlink(missing_ok=True)
            except OSError:
                pass  # an empty file stays: it holds nothing
            finally:
                os.close(descriptor)

        return release

    async def close(self) -> None:
        """Do nothing: each hold is let go of by itself."""


def _lock(descriptor: int) -> bool:
    """Lock an open file without waiting; return whether nobody else has it."""
    if sys.platform == "win32":
        raise SessionError("sessions in SQLite need the file locks of POSIX; use PostgreSQL here")
    import fcntl  # does not exist everywhere

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


class AdvisoryHolds:
    """Advisory locks of PostgreSQL, all on one connection that stays open for them."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._connection: AsyncConnection | None = None
        self._taken: dict[str, int] = {}
        self._lock = anyio.Lock()

    async def take(self, name: str) -> Release | None:
        """Take a hold and return what lets go of it; None if somebody has it."""
        async with self._lock:
            if name in self._taken:  # the server would grant it to this connection once more
                return None
            if self._connection is not None and self._connection.invalidated:
                await self._renew()
            try:
                number = await self._try(name)
            except DBAPIError as error:
                if not error.connection_invalidated:
                    raise
                await self._renew()
                number = await self._try(name)
            if number is None:
                return None
            self._taken[name] = number

        async def release() -> None:
            async with self._lock:
                number = self._taken.pop(name)
                if self._connection is not None:
                    await self._connection.execute(_UNLOCK, {"number": number})

        return release

    async def _try(self, name: str) -> int | None:
        connection = await self._connected()
        space = await connection.scalar(text("select current_schema()"))
        number = int.from_bytes(_digest(f"{space}\0{name}")[:8], "big", signed=True)
        return number if await connection.scalar(_LOCK, {"number": number}) else None

    async def _connected(self) -> AsyncConnection:
        if self._connection is None:
            self._connection = await self._engine.connect().start()
            await self._connection.execution_options(isolation_level="AUTOCOMMIT")
        return self._connection

    async def _renew(self) -> None:
        """Take all holds again, after the connection was lost.

        A session that somebody else has taken meanwhile is lost: its next append finds out.
        """
        await self._drop()
        connection = await self._connected()
        for number in self._taken.values():
            await connection.execute(_LOCK, {"number": number})

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.invalidate()
            await connection.close()

    async def close(self) -> None:
        """Let go of everything."""
        async with self._lock:
            await self._drop()


_LOCK = text("select pg_try_advisory_lock(:number)")
_UNLOCK = text("select pg_advisory_unlock(:number)")


def _digest(name: str) -> bytes:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()[:16]
