"""Sessions in a store, the same on SQLite and on PostgreSQL."""

from __future__ import annotations

import os
import socket
import sqlite3
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Any

import anyio
import pytest
from harness_plugins.session.api import (
    Draft,
    LogEvent,
    SessionBusyError,
    SessionError,
    UnknownSessionError,
    project,
)
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from sqlalchemy import event

from harness_core import Context
from harness_core.errors import InactiveFiberError

from .server import Server
from .words import answer, ask, assistant, filled, store, texts, user

Settings = dict[str, Any]


def consumer(ctx: Context) -> None:
    """A plugin that opens sessions."""


consumer.inject = ["session"]  # type: ignore[attr-defined]


@pytest.mark.asyncio
async def test_a_session_is_opened_as_it_was_left(settings: Settings) -> None:
    """By another process, with the same history, to go on."""
    async with store(settings) as root:
        session = await root.session.create("one", agent="reviewer", title="A title")
        await filled(user("1"), ask("a"), answer("a"), session=session)
        await session.append("snapshot", text="x")
        await session.append("mine", x=[1, None, 0.1, "ä"])
        events, history = session.events, session.history
    async with store(settings) as root:
        again = await root.session.open("one")
        assert (again.events, again.history) == (events, history)
        last = await again.add(user("2"))
        assert last.seq == 6
        (info,) = await root.session.list()
        assert (info.id, info.agent, info.title) == ("one", "reviewer", "A title")
        assert (info.events, info.messages, info.last_at) == (6, 4, last.at)
        assert info == await root.session.info("one")
        assert await root.session.read("one") == again.events


@pytest.mark.asyncio
async def test_a_session_gets_an_id_and_an_id_is_given_once(settings: Settings) -> None:
    """The other one's log stays as it is, open or closed."""
    async with store(settings) as root:
        assert (await root.session.create()).id != (await root.session.create()).id
        session = await filled(user(), session=await root.session.create("one"))
        for _ in range(2):
            with pytest.raises(SessionError, match='there is a session "one" already'):
                await root.session.create("one")
            await session.close()
        assert len(await root.session.read("one")) == 1


@pytest.mark.parametrize("id", ["", "  ", "a\nb", "a\0", "\ud800", "x" * 201])
@pytest.mark.asyncio
async def test_an_id_can_be_seen(id: str, sqlite: Settings) -> None:
    """And written into a command."""
    async with store(sqlite) as root:
        with pytest.raises(SessionError, match="cannot be the id of a session"):
            await root.session.create(id)


@pytest.mark.asyncio
async def test_a_session_that_is_not_there_is_an_error_that_helps(settings: Settings) -> None:
    """Whatever is asked of it."""
    async with store(settings) as root:
        await root.session.create("maintainer-1")
        calls = [root.session.open, root.session.fork, root.session.read, root.session.info]
        for call in calls:
            with pytest.raises(UnknownSessionError, match='did you mean "maintainer-1"') as caught:
                await call("maintainer-2")
            assert caught.value.known == ("maintainer-1",)
        with pytest.raises(LookupError):
            await anext(root.session.export("maintainer-2"))
        for odd in ("a\0b", "\ud800"):
            with pytest.raises(UnknownSessionError):
                await root.session.open(odd)


@pytest.mark.asyncio
async def test_the_list_begins_with_what_was_used_last(settings: Settings) -> None:
    """All of it, or that of an agent."""
    async with store(settings) as root:
        assert await root.session.list() == []
        for name, agent in (("a", "one"), ("b", "two"), ("c", "one")):
            await root.session.create(name, agent=agent)
        await (await filled(session=await root.session.create("d"))).close()
        a = await _reopened(root, "a")
        await a.add(user())
        assert [one.id for one in await root.session.list()] == ["a", "d", "c", "b"]
        assert [one.id for one in await root.session.list("one")] == ["a", "c"]
        assert await root.session.list("nobody") == []


async def _reopened(root: Context, id: str) -> Any:
    """Open a session that this tree has open, in another tree's stead."""
    await _mine(root, id).close()
    return await root.session.open(id)


def _mine(root: Context, id: str) -> Any:
    (mine,) = [one for one in root.session._open if one.id == id]
    return mine


# One holder at a time


@pytest.mark.asyncio
async def test_a_session_is_open_once_in_a_process(settings: Settings) -> None:
    """In this tree or another one; when it is closed, it is free."""
    async with store(settings) as root, store(settings) as other:
        session = await root.session.create("one")
        for service in (root.session, other.session):
            with pytest.raises(SessionBusyError, match=r"open in this process \(\d+\)") as caught:
                await service.open("one")
            assert caught.value.session == "one"
            assert str(os.getpid()) in caught.value.holder
        await session.close()
        again = await other.session.open("one")
        with pytest.raises(SessionBusyError):
            await root.session.open("one")
        await again.add(user())


@pytest.mark.asyncio
async def test_whoever_waits_gets_it_when_it_is_free(settings: Settings) -> None:
    """Or hears that it is not, when the time is up; a cancelled one leaves nothing taken."""
    async with store(settings) as root, store(settings) as other:
        session = await root.session.create("one")
        with pytest.raises(SessionBusyError):
            await other.session.open("one", wait=0.05)
        with anyio.move_on_after(0.05) as scope:
            await other.session.open("one", wait=60)
        assert scope.cancelled_caught
        got = anyio.Event()

        async def wait() -> None:
            await (await other.session.open("one", wait=60)).add(user("second"))
            got.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await session.add(user("first"))
            assert not got.is_set()
            await session.close()
            with anyio.fail_after(10):
                await got.wait()
        log = await root.session.read("one")
        assert [one.text for one in project(log).messages] == ["first", "second"]


@pytest.mark.asyncio
async def test_a_holder_that_was_passed_over_cannot_write(settings: Settings) -> None:
    """Should a lock ever be lost, the log still has one writer."""
    async with store(settings) as root, store(settings) as other:
        first = await filled(user("1"), session=await root.session.create("one"))
        journal = _mine(root, "one")._journal
        await journal.release()  # as a lost connection would
        second = await other.session.open("one")
        with pytest.raises(SessionError, match="not held here any more"):
            await first.add(user("lost"))
        await second.add(user("2"))
        with pytest.raises(SessionError, match="not held here any more"):
            await first.add(user("lost"))
        assert first.events == second.events == await root.session.read("one")
        journal.release = _nothing


async def _nothing() -> None:
    pass


@pytest.mark.asyncio
async def test_many_sessions_write_at_once(settings: Settings) -> None:
    """Each its own log, in its own order."""

    async def write(session: Any) -> None:
        for number in range(5):
            await session.add(user(str(number)))

    async with store(settings) as root:
        sessions = [await root.session.create(f"s{number}") for number in range(12)]
        async with anyio.create_task_group() as tasks:
            for session in sessions:
                tasks.start_soon(write, session)
        for session in sessions:
            assert await root.session.read(session.id) == session.events
            assert [one.text for one in session.history.messages] == list("01234")


@pytest.mark.asyncio
async def test_sessions_of_one_process_do_not_stand_in_each_others_way(sqlite: Settings) -> None:
    """However many write at once, and however short the time is that they would wait."""
    async with store({**sqlite, "timeout": 0.001}) as root:
        sessions = [await root.session.create(f"s{number}") for number in range(30)]
        async with anyio.create_task_group() as tasks:
            for session in sessions:
                for _ in range(3):
                    tasks.start_soon(session.add, user("x" * 10_000))
        assert [one.events for one in await root.session.list()] == [3] * 30


@pytest.mark.asyncio
async def test_a_log_that_somebody_else_has_added_to_is_not_continued(sqlite: Settings) -> None:
    """The number that would come next is checked with the holder."""
    async with store(sqlite) as root:
        session = await filled(user("1"), session=await root.session.create("one"))
        with closing(sqlite3.connect(Path(sqlite["directory"]) / "sessions.sqlite")) as other:
            other.execute("update harness_sessions set events = 2")
            other.commit()
        with pytest.raises(SessionError, match="not held here any more"):
            await session.add(user("2"))
        assert len(await root.session.read("one")) == 1


@pytest.mark.asyncio
async def test_a_cancelled_reader_costs_no_connection(settings: Settings) -> None:
    """What is asked of the database is answered; then the cancellation is heard."""
    made: list[object] = []
    async with store(settings) as root:
        await root.session.create("one")
        engine = root.session._store.database.engine.sync_engine
        event.listen(engine, "connect", lambda *_: made.append(1))
        for number in range(20):
            with anyio.move_on_after(number * 0.0003):
                while True:
                    await root.session.read("one")
                    await anyio.lowlevel.checkpoint()
        assert made == []


# A service acts for its caller


@pytest.mark.asyncio
async def test_a_session_is_closed_with_the_fiber_that_opened_it(settings: Settings) -> None:
    """It is among its effects; closing it takes it out of them."""
    async with store(settings) as root:
        fiber = await root.plugin(consumer)
        session = await fiber.ctx.session.create("one")
        other = await fiber.ctx.session.create("two")
        assert [one.label for one in fiber.effects()] == ['session "one"', 'session "two"']
        await other.close()
        assert [one.label for one in fiber.effects()] == ['session "one"']
        await fiber.dispose()
        assert not session.is_open
        await root.session.open("one")
        with pytest.raises(InactiveFiberError):
            await fiber.ctx.session.open("two")
        await root.session.open("two")


@pytest.mark.asyncio
async def test_when_the_plugin_goes_all_sessions_are_closed(settings: Settings) -> None:
    """Also those of plugins that do not inject it; what was written is there."""
    async with Context() as root:
        from harness_plugins import session as plugin

        fiber = await root.plugin(plugin, settings)
        session = await filled(user(), session=await root.session.create("one"))
        await fiber.restart()
        with pytest.raises(SessionError, match="closed"):
            await session.add(user())
        again = await root.session.open("one")
        assert again.events == session.events


# Fork, export, restore


@pytest.mark.asyncio
async def test_a_fork_is_a_copy_that_goes_its_own_way(settings: Settings) -> None:
    """Of the whole log or its beginning, also while somebody has it open."""
    async with store(settings) as root:
        session = await root.session.create("one", agent="reviewer", title="T")
        await filled(user("1"), assistant("2"), user("3"), session=session)
        whole = await root.session.fork("one")
        part = await root.session.fork("one", at=2, new_id="part")
        empty = await root.session.fork("one", at=0)
        assert whole.events[:3] == session.events
        assert whole.history == session.history
        assert [one.text for one in part.history.messages] == ["1", "2"]
        assert (part.events[2].kind, part.events[2].data) == (
            "forked",
            {"session": "one", "seq": 2},
        )
        assert empty.history.entries == ()
        await part.add(user("other"))
        await session.add(assistant("4"))
        assert await root.session.read("part") == part.events
        assert [one.text for one in session.history.messages] == ["1", "2", "3", "4"]
        info = await root.session.info("part")
        assert (info.agent, info.title, info.messages) == ("reviewer", "T", 3)
        for at in (-1, 5):
            with pytest.raises(SessionError, match="has the events 1 to 4"):
                await root.session.fork("one", at=at)
        with pytest.raises(SessionError, match="already"):
            await root.session.fork("one", new_id="part")


@pytest.mark.asyncio
async def test_an_exported_log_is_restored(settings: Settings) -> None:
    """Line by line, by whatever brings the lines; long ones too."""
    async with store(settings) as root:
        session = await root.session.create("one")
        await session.append_all([Draft("mine", {"x": number}) for number in range(1100)])
        await session.add(user("two\nlines"))
        lines = [line async for line in root.session.export("one")]
        assert [LogEvent.from_json(line) for line in lines] == list(session.events)

        async def read() -> AsyncIterator[str]:
            for line in lines:
                yield f"{line}\n"

        two = await root.session.restore([*lines, "\n"], id="two", agent="a", title="t")
        three = await root.session.restore(read())
        assert two.events == three.events == session.events
        assert await root.session.read("two") == session.events
        info = await root.session.info("two")
        assert (info.agent, info.title, info.events, info.messages) == ("a", "t", 1101, 1)
        assert (await two.add(user())).seq == 1102


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (["{}"], "line 1: no event"),
        (['{"seq": 2, "kind": "x", "at": "2026-01-31T00:00:00+00:00", "data": {}}'], "expected 1"),
        (
            ['{"seq": 1, "kind": "message", "at": "2026-01-31T00:00:00+00:00", "data": {}}'],
            "event 1 of kind 'message' cannot be read",
        ),
    ],
)
@pytest.mark.asyncio
async def test_what_is_no_log_is_not_restored(
    lines: list[str], problem: str, sqlite: Settings
) -> None:
    """Nothing of it."""
    async with store(sqlite) as root:
        with pytest.raises(SessionError, match=problem):
            await root.session.restore(lines, id="one")
        assert await root.session.list() == []


# Texts


@hypothesis_settings(
    max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=8), texts)
def test_every_text_comes_back(
    settings: Settings, pairs: list[tuple[str, str]], title: str
) -> None:
    """NUL, lone surrogates, wide characters, in every place where a text can be."""

    async def check() -> None:
        async with store(settings) as root:
            session = await root.session.create(agent=title, title=title)
            drafts = [Draft(kind, {kind: [text, {text: kind}]}) for kind, text in pairs]
            drafts = [one for one in drafts if one.kind not in ("message", "snapshot")]
            events = await session.append_all(drafts)
            assert [(one.kind, one.data) for one in events] == [
                (one.kind, one.data) for one in drafts
            ]
            await session.close()
            again = await root.session.open(session.id)
            assert again.events == events
            info = await root.session.info(session.id)
            assert (info.agent, info.title) == (title, title)
            assert info in await root.session.list(title)

    anyio.run(check)


# The schema


@pytest.mark.asyncio
async def test_a_store_of_a_later_release_is_refused(settings: Settings, request: Any) -> None:
    """It may hold what this release would damage."""
    async with store(settings) as root:
        await root.session.create("one")
    change = "update harness_schema set version = 7"
    if "url" in settings:
        server: Server = request.getfixturevalue("server")
        server.sql(f"set search_path = test{server.count}; {change}")
    else:
        with closing(sqlite3.connect(Path(settings["directory"]) / "sessions.sqlite")) as other:
            other.execute(change)
            other.commit()
    async with store(settings) as root:
        for _ in range(2):
            with pytest.raises(SessionError, match="by a later release") as caught:
                await root.session.open("one")
            assert "schema 7, this one knows 1" in str(caught.value)


@pytest.mark.asyncio
async def test_many_that_come_first_at_once_make_one_schema(settings: Settings) -> None:
    """Whoever is faster."""
    async with AsyncExitStack() as stack:
        roots = [await stack.enter_async_context(store(settings)) for _ in range(6)]
        async with anyio.create_task_group() as tasks:
            for number, root in enumerate(roots):
                tasks.start_soon(root.session.create, f"s{number}")
        assert len(await roots[0].session.list()) == 6


@pytest.mark.asyncio
async def test_two_stores_of_one_database_have_nothing_in_common(server: Server) -> None:
    """Each in a schema of its own: the same id may be open in both."""
    first, second = ({"url": server.url(user=server.new_user())} for _ in range(2))
    async with store(first) as root, store(second) as other:
        one = await root.session.create("one")
        two = await other.session.create("one")
        await one.add(user("1"))
        assert two.events == ()
        assert await other.session.read("one") == ()


@pytest.mark.asyncio
async def test_the_holder_on_another_machine_is_named(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its process and its host."""
    async with store(settings) as root, store(settings) as other:
        with monkeypatch.context() as patch:
            patch.setattr(socket, "gethostname", lambda: "elsewhere")
            await root.session.create("one")
        with pytest.raises(SessionBusyError, match=rf"open in process {os.getpid()} on elsewhere"):
            await other.session.open("one")
