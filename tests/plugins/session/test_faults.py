"""What goes wrong with a database is said clearly, loses nothing, and passes."""

from __future__ import annotations

import asyncio
import os
import re
import resource
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from harness_plugins.session.api import Session, SessionError, project
from sqlalchemy import event

from harness_core import Context

from .server import Server
from .words import filled, store, user

pytestmark = pytest.mark.asyncio

Settings = dict[str, Any]


async def check_whole(root: Context, session: Session) -> None:
    """What is known is what is written."""
    assert session.events == await root.session.read(session.id)
    assert session.history == project(session.events)


async def fails_and_goes_on(
    root: Context, session: Session, problem: str, repair: Callable[[], Any]
) -> None:
    """An append fails, twice, in clear words; after the repair the session goes on."""
    before = session.events
    for _ in range(2):
        with pytest.raises(SessionError, match=problem) as caught:
            await session.add(user("x" * 100_000))
        assert re.search("cannot be (written|read)", str(caught.value))
        assert session.events == before
    repair()
    # Connections may have been given settings: the next ones are new.
    await root.session._store.database.engine.dispose()
    await session.add(user("after"))
    assert len(session.events) == len(before) + 1
    await check_whole(root, session)


@contextmanager
def each_connection(root: Context, pragma: str) -> Iterator[None]:
    """Give all connections from now on a setting."""
    engine = root.session._store.database.engine.sync_engine

    def listen(connection: Any, _: object) -> None:
        cursor = connection.cursor()
        cursor.execute(f"pragma {pragma}")
        cursor.close()

    event.listen(engine, "connect", listen)
    yield
    event.remove(engine, "connect", listen)


async def renew(root: Context) -> None:
    """Close all connections: the next one is new."""
    await root.session._store.database.engine.dispose()


# SQLite


async def test_every_commit_is_on_the_disk(sqlite: Settings) -> None:
    """Not only with the operating system: WAL, synchronous in full."""
    async with store(sqlite) as root:
        await root.session.create("one")

        async def ask(connection: Any) -> list[Any]:
            names = ("journal_mode", "synchronous", "fullfsync")
            return [(await connection.exec_driver_sql(f"pragma {name}")).scalar() for name in names]

        assert await root.session._store.database.read(ask) == ["wal", 2, 1]


async def test_a_full_database(sqlite: Settings) -> None:
    """SQLite's own limit, which is what a full disk looks like to it."""
    async with store(sqlite) as root:
        session = await filled(user("1"), session=await root.session.create("one"))
        await renew(root)
        with ExitStack() as stack:
            stack.enter_context(each_connection(root, "max_page_count = 12"))
            words = r"database or disk is full\. Nothing was changed: make room"
            await fails_and_goes_on(root, session, words, stack.close)


async def test_a_disk_that_takes_no_more(sqlite: Settings) -> None:
    """A write is cut off in the middle."""
    async with store(sqlite) as root:
        session = await filled(user("1"), session=await root.session.create("one"))
        with ExitStack() as stack:
            stack.enter_context(no_file_grows())
            words = r"disk I/O error\. The disk may be full"
            await fails_and_goes_on(root, session, words, stack.close)


@contextmanager
def no_file_grows() -> Iterator[None]:
    """Files of this process may not be longer than a few pages."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_a_database_that_cannot_be_written(sqlite: Settings) -> None:
    """It can still be read, and nothing can be made in it."""
    async with store(sqlite) as root:
        session = await filled(user("1"), session=await root.session.create("one"))
        await renew(root)
        with ExitStack() as stack:
            stack.enter_context(each_connection(root, "query_only = 1"))
            with pytest.raises(SessionError, match="readonly"):
                await root.session.create("two")
            await check_whole(root, session)
            words = r"readonly database\. Check who owns"
            await fails_and_goes_on(root, session, words, stack.close)
        assert (await root.session.create("two")).is_open


async def test_a_database_that_somebody_has_for_himself(sqlite: Settings) -> None:
    """The wait is bounded, and the hold is not lost over it."""
    file = Path(sqlite["directory"]) / "sessions.sqlite"
    async with store({**sqlite, "timeout": 0.1}) as root:
        session = await filled(user("1"), session=await root.session.create("one"))
        with closing(sqlite3.connect(file, isolation_level=None)) as other:
            other.execute("begin exclusive")
            words = r"database is locked. Another program has it for itself, longer than 0\.1 sec"
            await fails_and_goes_on(root, session, words, lambda: other.execute("rollback"))


async def test_a_session_is_closed_whatever_the_database_does(sqlite: Settings) -> None:
    """Then it is free."""
    file = Path(sqlite["directory"]) / "sessions.sqlite"
    async with store({**sqlite, "timeout": 0.1}) as root:
        session = await filled(user("1"), session=await root.session.create("one"))
        with closing(sqlite3.connect(file, isolation_level=None)) as other:
            other.execute("begin exclusive")
            await session.close()
            with pytest.raises(SessionError, match="is locked"):
                await root.session.open("one")
            other.execute("rollback")
        assert (await root.session.open("one")).events == session.events


async def test_a_file_that_was_removed_or_replaced(sqlite: Settings) -> None:
    """What would be written to it would be lost."""
    file = Path(sqlite["directory"]) / "sessions.sqlite"
    away = file.with_name("away")
    async with store(sqlite) as root:
        session = await filled(user("1"), session=await root.session.create("one"))
        file.rename(away)
        with pytest.raises(SessionError, match="removed or replaced"):
            await session.add(user("2"))
        file.write_bytes(b"")
        with pytest.raises(SessionError, match="removed or replaced"):
            await session.add(user("2"))
        os.replace(away, file)
        await session.add(user("2"))
        await check_whole(root, session)


async def test_a_file_that_is_no_database(sqlite: Settings) -> None:
    """It is not touched."""
    file = Path(sqlite["directory"]) / "sessions.sqlite"
    file.write_bytes(b"something else " * 1000)
    async with store(sqlite) as root:
        with pytest.raises(SessionError, match=r"not a database\. Something else was there before"):
            await root.session.list()
    assert file.read_bytes() == b"something else " * 1000


async def test_a_damaged_file(sqlite: Settings) -> None:
    """The session says so; others that can be read are read."""
    file = Path(sqlite["directory"]) / "sessions.sqlite"
    async with store(sqlite) as root:
        session = await root.session.create("one")
        for _ in range(50):
            await session.add(user("x" * 2000))
    raw = file.read_bytes()
    third = len(raw) // 3 // 4096 * 4096
    file.write_bytes(raw[:third] + b"\xff" * third + raw[2 * third :])
    async with store(sqlite) as root:
        with pytest.raises(SessionError, match=r"malformed\. The file is damaged: restore a copy"):
            await root.session.open("one")
        assert not list(file.with_name("sessions.sqlite.locks").iterdir())


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("data = '{'", 'event 2 of session "one" in .* cannot be read'),
        ("data = '[]'", "expected an object"),
        ("data = '{}'", "event 2 of kind 'message' cannot be read"),
        ("at = 'noon'", 'event 2 of session "one"'),
    ],
)
async def test_an_event_that_cannot_be_read_is_named(
    change: str, problem: str, sqlite: Settings
) -> None:
    """And the session is not taken."""
    async with store(sqlite) as root:
        await filled(user("1"), user("2"), session=await root.session.create("one"))
    with closing(sqlite3.connect(Path(sqlite["directory"]) / "sessions.sqlite")) as other:
        other.execute(f"update harness_events set {change} where seq = 2")
        other.commit()
    async with store(sqlite) as root:
        for _ in range(2):
            with pytest.raises(SessionError, match=problem):
                await root.session.open("one")


async def test_a_directory_that_cannot_be(tmp_path: Path) -> None:
    """Something else stands there."""
    (tmp_path / "file").write_text("")
    async with store({"directory": str(tmp_path / "file" / "below")}) as root:
        with pytest.raises(
            SessionError, match=r"cannot be opened: .*(Not a directory|File exists)"
        ):
            await root.session.create("one")


# Cancellations that no shield holds off


async def test_an_append_cut_off_by_asyncio_is_written_or_not(settings: Settings) -> None:
    """At whichever moment: the session finds out, and the log has no gap."""
    async with store(settings) as root:
        session = await root.session.create("one")
        for number in range(40):
            task = asyncio.create_task(session.add(user(str(number))))
            await asyncio.sleep(number * 0.0001)
            task.cancel()
            await asyncio.wait([task])
            await session.add(user("after"))
            assert [one.seq for one in session.events] == list(range(1, len(session.events) + 1))
        await check_whole(root, session)
        await session.close()
        assert (await root.session.open("one")).events == session.events


async def test_an_opening_cut_off_by_asyncio_keeps_nothing(settings: Settings) -> None:
    """At whichever moment; the sessions that are open stay open."""
    async with store(settings) as root:
        kept = await root.session.create("kept")
        await (await root.session.create("one")).close()
        for number in range(40):
            task = asyncio.create_task(root.session.open("one"))
            await asyncio.sleep(number * 0.0002)
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                await task.result().close()
            await (await root.session.open("one", wait=10)).close()
            await kept.add(user(str(number)))
        await check_whole(root, kept)
        async with store(settings) as other:
            with pytest.raises(SessionError, match="is open in this process"):
                await other.session.open("kept")


# PostgreSQL


@pytest.fixture
def database(server: Server) -> str:
    """An empty database."""
    return server.new_database()


def _end_connections(server: Server, database: str) -> None:
    server.sql(
        "select pg_terminate_backend(pid) from pg_stat_activity "
        f"where datname = '{database}' and pid <> pg_backend_pid()"
    )


async def test_connections_that_break_are_made_anew(server: Server, database: str) -> None:
    """The holds too: nobody else gets a session meanwhile, if this process asks first."""
    settings = {"url": server.url(database)}
    async with store(settings) as root, store(settings) as other:
        session = await filled(user("1"), session=await root.session.create("one"))
        _end_connections(server, database)
        await session.add(user("2"))
        _end_connections(server, database)
        two = await root.session.create("two")
        with pytest.raises(SessionError, match="is open in this process"):
            await other.session.open("one")
        await session.add(user("3"))
        await check_whole(root, session)
        _end_connections(server, database)
        await session.close()
        await two.close()
        assert (await other.session.open("one")).events == session.events


async def test_a_server_that_is_gone_for_a_while(server: Server, database: str) -> None:
    """The session goes on where it was."""
    async with store({"url": server.url(database)}) as root:
        session = await filled(user("1"), session=await root.session.create("one"))
        server.sql(f"alter database {database} allow_connections false")
        _end_connections(server, database)
        await fails_and_goes_on(
            root,
            session,
            f'database "{database}" is not currently accepting connections',
            lambda: server.sql(f"alter database {database} allow_connections true"),
        )


async def test_a_server_that_takes_nothing(server: Server, database: str) -> None:
    """As a standby does."""
    async with store({"url": server.url(database)}) as root:
        session = await filled(user("1"), session=await root.session.create("one"))
        server.sql(f"alter database {database} set default_transaction_read_only = on")
        _end_connections(server, database)
        await fails_and_goes_on(
            root,
            session,
            "read-only transaction. Check where",
            lambda: (
                server.sql(f"alter database {database} set default_transaction_read_only = off"),
                _end_connections(server, database),
            ),
        )


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("postgresql://postgres:secret@127.0.0.1:1/x", "Connect call failed"),
        ("postgresql://postgres@/nowhere?host={directory}&password=secret", "does not exist"),
        ("postgresql://nobody:secret@/postgres?host={directory}", "does not exist"),
        ("postgresql://postgres:secret@/x?host=/nowhere", "No such file"),
    ],
)
async def test_a_server_that_is_not_there_is_named_without_its_password(
    url: str, problem: str, server: Server
) -> None:
    """The address is in the error, the password is not."""
    async with store({"url": url.format(directory=server.directory)}) as root:
        calls: list[Callable[[], Awaitable[object]]] = [root.session.list, root.session.create]
        for call in calls:
            with pytest.raises(SessionError, match=problem) as caught:
                await call()
            assert "the sessions in postgresql://" in str(caught.value)
            assert "secret" not in str(caught.value)
