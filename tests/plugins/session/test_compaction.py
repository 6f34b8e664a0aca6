"""Compaction: what goes, what stays, and that nothing is torn apart."""

from __future__ import annotations

from collections.abc import Sequence

import anyio
import pytest
from harness_plugins.llm.api import Message
from harness_plugins.session.api import (
    History,
    Session,
    SessionError,
    compact,
    plan_compaction,
    project,
)
from harness_plugins.session.history import SUMMARY

from .words import answer, ask, assistant, filled, user

pytestmark = pytest.mark.asyncio


async def count(messages: Sequence[Message]) -> str:
    return f"{len(messages)} messages"


def texts(history: History) -> list[str]:
    return [one.text.removeprefix(f"{SUMMARY}\n\n") for one in history.messages]


async def test_a_range_gives_way_to_a_summary_and_the_last_messages_stay() -> None:
    """The log keeps all of it; reading it again gives the same."""
    session = await filled(user("1"), assistant("2"), user("3"), assistant("4"))
    event = await compact(session, count, keep=2)
    assert event is not None
    assert texts(session.history) == ["2 messages", "3", "4"]
    assert dict(event.data) == {"first": 1, "last": 2, "summary": "2 messages", "kept": []}
    assert len(session.events) == 5
    assert project(session.events) == session.history


async def test_a_summary_is_summarised_with_what_followed_it() -> None:
    """It stands for all that it replaces, also what the earlier one stood for."""
    session = await filled(user("1"), assistant("2"), user("3"))
    await compact(session, count, keep=1)
    await filled(assistant("4"), user("5"), session=session)
    seen: list[Message] = []

    async def summarise(messages: Sequence[Message]) -> str:
        seen.extend(messages)
        return "new"

    event = await compact(session, summarise, keep=1)
    assert event is not None
    assert [one.text for one in seen] == [f"{SUMMARY}\n\n2 messages", "3", "4"]
    assert (event.data["first"], event.data["last"]) == (1, 5)
    assert texts(session.history) == ["new", "5"]


async def test_nothing_is_compacted_where_nothing_is_gained() -> None:
    """Else a history that is too long would be compacted for ever."""
    session = await filled(user("1"), assistant("2"))
    assert plan_compaction(session.history, keep=2) is None
    assert plan_compaction(session.history, keep=9) is None
    assert await compact(session, count, keep=2) is None
    assert await compact(session, count, keep=0) is not None
    assert await compact(session, count, keep=0) is None
    await session.append("snapshot", text="x")
    assert await compact(session, count, keep=0) is None
    with pytest.raises(ValueError, match="0 or more"):
        plan_compaction(session.history, keep=-1)


async def test_a_request_goes_with_its_results() -> None:
    """Where the cut would fall between them, more is kept."""
    session = await filled(user("1"), ask("a", "b"), answer("a"), answer("b"), user("2"))
    assert plan_compaction(session.history, keep=2) == (1, 1)
    assert plan_compaction(session.history, keep=3) == (1, 1)
    assert plan_compaction(session.history, keep=1) == (1, 4)


async def test_exchanges_that_overlap_are_kept_together() -> None:
    """What is kept for the sake of one may cut another one, before it."""
    session = await filled(
        ask("a"), ask("b"), answer("a"), user("1"), user("2"), answer("b"), user("3")
    )
    assert plan_compaction(session.history, keep=4) is None
    assert plan_compaction(session.history, keep=1) == (1, 6)


async def test_a_request_whose_result_may_still_come_is_kept() -> None:
    """One that somebody has spoken after will get none."""
    session = await filled(user("1"), ask("a", "b"), answer("a"))
    assert plan_compaction(session.history, keep=0) == (1, 1)
    await session.add(user("2"))
    assert plan_compaction(session.history, keep=1) == (1, 3)


async def test_ids_that_come_again_do_not_tie_the_history_together() -> None:
    """Some providers count the ids anew in each reply."""
    session = await filled(ask("a"), answer("a"), user("1"), ask("a"), answer("a"))
    assert plan_compaction(session.history, keep=3) == (1, 2)


async def test_what_is_pinned_stays_behind_the_summary() -> None:
    """Again and again; it is not among what is gained."""
    session = await filled(user("1"))
    await session.add(user("rule"), pinned=True)
    await filled(user("3"), user("4"), session=session)
    for _ in range(3):
        await compact(session, count, keep=1)
        assert texts(session.history)[1] == "rule"
        await session.add(user("more"))
    assert texts(session.history) == ["3 messages", "rule", "more", "more"]
    await compact(session, count, keep=0)
    assert plan_compaction(session.history, keep=0) is None


async def test_a_pinned_result_keeps_its_request_and_the_other_results() -> None:
    """A result without a request is refused by every provider, and the other way round."""
    session = await filled(user("1"), ask("a", "b"), answer("a"))
    await session.add(answer("b"), pinned=True)
    await filled(user("2"), session=session)
    await compact(session, count, keep=1)
    assert [one.seq for one in session.history.entries] == [6, 2, 3, 4, 5]
    assert session.history.unanswered == ()


async def test_snapshots_are_no_part_of_a_summary() -> None:
    """They have been superseded, or will be written anew."""
    session = Session("s")
    await session.append("snapshot", text="a")
    await filled(user("1"), user("2"), session=session)
    await compact(session, count, keep=1)
    assert texts(session.history) == ["1 messages", "2"]
    assert session.history.snapshot is None


@pytest.mark.parametrize("summary", ["", " \n", None, 3])
async def test_a_summary_that_is_none_changes_nothing(summary: object) -> None:
    """What it stands for would be lost."""
    session = await filled(user("1"), user("2"))

    async def summarise(_: Sequence[Message]) -> str:
        return summary  # type: ignore[return-value]

    with pytest.raises(SessionError, match="expected a text"):
        await compact(session, summarise, keep=1)
    assert len(session.events) == 2


async def test_a_failed_or_cancelled_summary_changes_nothing() -> None:
    """The caller hears of it."""
    session = await filled(user("1"), user("2"))

    async def fail(_: Sequence[Message]) -> str:
        raise LookupError("no model")

    async def wait(_: Sequence[Message]) -> str:
        await anyio.sleep_forever()
        raise AssertionError

    with pytest.raises(LookupError):
        await compact(session, fail, keep=1)
    with anyio.move_on_after(0.01) as scope:
        await compact(session, wait, keep=1)
    assert scope.cancelled_caught
    assert len(session.events) == 2


async def test_two_compactions_at_once_are_one() -> None:
    """The second finds its range changed, and does nothing; what was said meanwhile stays."""
    session = await filled(user("1"), user("2"), user("3"))

    async def slow(messages: Sequence[Message]) -> str:
        await filled(user("meanwhile"), session=session)
        await compact(session, count, keep=2)
        return "too late"

    assert await compact(session, slow, keep=1) is None
    assert texts(session.history) == ["2 messages", "3", "meanwhile"]


async def test_a_compaction_that_would_tear_apart_is_refused() -> None:
    """Whoever writes it by hand; and one of nothing that is visible."""
    session = await filled(ask("a"), user("1"), answer("a"))
    with pytest.raises(SessionError, match='the request "a" would be parted from its result'):
        await session.append("compaction", first=1, last=2, summary="s", kept=[])
    with pytest.raises(SessionError, match="nothing of its range is visible"):
        await session.append("compaction", first=7, last=9, summary="s")
    assert len(session.events) == 3
    await session.append("compaction", first=1, last=2, summary="s", kept=[1])
    assert [one.seq for one in session.history.entries] == [4, 1, 3]
