"""The plugin `session`: its settings, what it imports when, and that it leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from harness_plugins import session as plugin
from harness_plugins.session.api import Session, SessionError, SessionsConfig

from harness_core import Context
from harness_core.errors import ConfigError, InactiveFiberError
from harness_core.testing import assert_no_residue, check_plugin

from .server import Server
from .words import filled, store, user

pytestmark = pytest.mark.asyncio

Settings = dict[str, Any]


def run(program: str) -> str:
    """Run a program in a process of its own, and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def open_files() -> int:
    return len(os.listdir("/dev/fd"))


async def test_nothing_is_made_before_a_session_is(tmp_path: Path) -> None:
    """A harness that is only looked at has no files. Then they stand beside the manifest."""

    class Loader:
        directory = tmp_path

    async with Context() as root:
        root.provide("loader", Loader())
        await root.plugin(plugin)
        assert await root.session.list() == []
        with pytest.raises(SessionError, match="there is no session"):
            await root.session.open("one")
        assert os.listdir(tmp_path) == []
        await root.session.create("one")
        assert (tmp_path / ".harness" / "sessions.sqlite").is_file()
    assert os.listdir(tmp_path / ".harness" / "sessions.sqlite.locks") == []


async def test_what_was_said_is_private(tmp_path: Path) -> None:
    """A directory that it makes is nobody else's, and git does not see it; others stay."""
    made, given = tmp_path / "deep" / "made", tmp_path / "given"
    os.mkdir(given, 0o755)
    for directory in (made, given):
        async with store({"directory": str(directory)}) as root:
            await root.session.create("one")
    assert os.stat(made).st_mode & 0o777 == 0o700
    assert (made / ".gitignore").read_text() == "*\n"
    assert os.stat(given).st_mode & 0o777 == 0o755
    assert ".gitignore" not in os.listdir(given)


async def test_without_a_manifest_it_is_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it was when the plugin was mounted."""
    monkeypatch.chdir(tmp_path)
    async with store({}) as root:
        os.chdir("/")
        await root.session.create("one")
    assert (tmp_path / ".harness" / "sessions.sqlite").is_file()


@pytest.mark.parametrize(
    ("settings", "file"),
    [
        ({"directory": "here/below"}, "here/below/sessions.sqlite"),
        ({"url": "sqlite:///mine.db"}, "mine.db"),
        ({"url": "sqlite+aiosqlite:///mine.db"}, "mine.db"),
    ],
)
async def test_where_the_file_is_can_be_said(
    settings: Settings, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a directory or by a URL, relative or not."""
    monkeypatch.chdir(tmp_path)
    async with store(settings) as root:
        session = await filled(user(), session=await root.session.create("one"))
    assert (tmp_path / file).is_file()
    absolute = {"url": f"sqlite:///{tmp_path / file}"}
    async with store(absolute) as root:
        assert (await root.session.open("one")).events == session.events


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"directory": "x", "url": "sqlite:///x"}, "either directory or url"),
        ({"timeout": 0}, "expected a number of seconds above 0"),
        ({"timeout": float("nan")}, "expected a number of seconds above 0"),
        ({"url": "nonsense"}, "no database URL"),
        ({"url": "mysql://host/x"}, '"mysql" is not supported; there are sqlite:'),
        ({"url": "postgresql+psycopg://host/x"}, "is not supported"),
        ({"url": "sqlite://"}, "only a file is a store"),
        ({"url": "sqlite:///:memory:"}, "only a file is a store"),
        ({"url": "sqlite:///file:x?mode=memory&uri=true"}, "only a file is a store"),
        ({"path": "x"}, "path"),
    ],
)
async def test_settings_that_cannot_be_are_refused(settings: Settings, problem: str) -> None:
    """When the plugin is mounted."""
    async with Context() as root:
        fiber = root.plugin(plugin, settings)
        with pytest.raises(ConfigError, match=problem):
            await fiber


async def test_the_database_libraries_are_imported_when_the_plugin_is_mounted() -> None:
    """Whoever only uses sessions in memory needs neither."""
    program = """
import sys
from harness_plugins.session.api import Session, Sessions, compact
import harness_plugins.session, harness_plugins.session_reference
heavy = {"sqlalchemy", "aiosqlite", "asyncpg", "click", "rich", "harness_core.cli"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""
    assert run(program) == ""


@pytest.mark.parametrize("missing", ["sqlalchemy", "aiosqlite", "asyncpg"])
async def test_a_missing_library_is_named_with_its_extra(missing: str) -> None:
    """In the error of the plugin's load."""
    program = f"""
import sys, anyio
sys.modules[{missing!r}] = None
from harness_core import Context
from harness_plugins import session
url = "postgresql://host/x" if {missing == "asyncpg"} else None
async def main():
    async with Context() as root:
        try:
            await root.plugin(session, {{"url": url}})
        except Exception as error:
            print(error)
anyio.run(main)
"""
    said = run(program)
    extra = "postgres" if missing == "asyncpg" else "session"
    assert f"needs {missing}, which is not installed" in said
    assert f'pip install "harness-core[{extra}]"' in said


async def test_the_plugin_leaves_nothing_behind(tmp_path: Path) -> None:
    """However its life goes."""
    report = await check_plugin(plugin, {"directory": str(tmp_path)}, raises=True)
    assert report.ok


async def test_whoever_opens_sessions_leaves_nothing_behind(settings: Settings) -> None:
    """Nor does a session that is closed, or one that could not be opened."""

    async def consumer(ctx: Context) -> None:
        session = await ctx.session.create()
        await session.add(user())
        await session.close()
        await ctx.session.create()

    consumer.inject = ["session"]  # type: ignore[attr-defined]
    async with store(settings) as root:
        await root.session.list()
        files = open_files()
        for _ in range(6):
            async with assert_no_residue(root):
                fiber = await root.plugin(consumer)
                await fiber.dispose()
            # Connections are kept for later, a few of them; sessions keep nothing.
            assert open_files() <= files + 4
        for info in await root.session.list():
            await (await root.session.open(info.id)).close()
        assert root.session._open == set()


async def test_a_fiber_that_goes_while_it_opens_a_session_does_not_keep_it(
    settings: Settings,
) -> None:
    """At whichever of its waits."""
    loaded: list[Session] = []

    async def consumer(ctx: Context) -> None:
        loaded.append(await ctx.session.open("one"))

    consumer.inject = ["session"]  # type: ignore[attr-defined]
    async with store(settings) as root:
        await (await root.session.create("one")).close()
        for waits in range(12):
            fiber = root.plugin(consumer)
            for _ in range(waits):
                await anyio.sleep(0.001)
            await fiber.dispose()
            await (await root.session.open("one")).close()
        assert all(not session.is_open for session in loaded)


async def test_when_the_plugin_goes_nothing_of_it_stays(settings: Settings) -> None:
    """Whoever is opening, reading or writing at that moment is served or told."""
    told: list[str] = []

    async def use(service: Any, number: int) -> None:
        try:
            session = await service.create(f"s{number}")
            while True:
                await session.add(user())
                await service.read(session.id)
        except SessionError as error:
            told.append(str(error))

    async with Context() as root:
        files = open_files()
        for turn in range(4):
            fiber = await root.plugin(plugin, settings)
            service = root.session
            async with anyio.create_task_group() as tasks:
                for number in range(4):
                    tasks.start_soon(use, service, 10 * turn + number)
                await anyio.sleep(0.01 * turn)
                await fiber.dispose()
                sessions = service._open
            assert sessions == set()
            assert len(told) == 4 * (turn + 1)
            assert open_files() <= files + 1
            with pytest.raises(SessionError, match="cannot be read: the plugin session was unloa"):
                await service.list()
    assert all("closed" in one or "unloaded" in one for one in told)


async def test_a_hold_that_is_taken_while_the_plugin_goes_connects_no_more(server: Server) -> None:
    """Holds are let go of when nobody can take one any more."""
    async with Context() as root:
        fiber = await root.plugin(plugin, {"url": server.url(user=server.new_user())})
        await (await root.session.create("early")).close()
        kept = root.session._store
        pool = kept.database.engine.pool

        async def dispose() -> None:
            await fiber.dispose()

        async def take() -> None:
            with pytest.raises(SessionError, match="unloaded"):
                await kept._try("late")

        async with anyio.create_task_group() as tasks, kept.holds._lock:
            tasks.start_soon(dispose)
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(take)
            await anyio.wait_all_tasks_blocked()
        assert pool.checkedout() == 0


async def test_a_session_cannot_be_opened_by_what_is_gone(sqlite: Settings) -> None:
    """And is not taken by the attempt."""

    def consumer(ctx: Context) -> None:
        pass

    consumer.inject = ["session"]  # type: ignore[attr-defined]
    async with store(sqlite) as root:
        fiber = await root.plugin(consumer)
        service = fiber.ctx.session
        await service.create("one")
        await fiber.dispose()
        with pytest.raises(InactiveFiberError):
            await service.create("two")
        assert [one.id for one in await root.session.list()] == ["one"]
        assert (await root.session.open("one")).is_open


async def test_a_config_of_ones_own_making() -> None:
    """As a record."""
    async with Context() as root:
        await root.plugin(plugin, SessionsConfig(timeout=1))
        assert root.get("session") is not None
