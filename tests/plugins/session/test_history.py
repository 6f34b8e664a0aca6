"""History is a projection of the log: any log, projected in any way, against a naive model."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import pytest
from harness_plugins.llm.api import Message, ToolRequest, as_data
from harness_plugins.session.api import History, LogEvent, SessionError, project
from harness_plugins.session.exchanges import find_exchanges
from harness_plugins.session.history import GONE, SUMMARY
from hypothesis import given
from hypothesis import strategies as st

from .words import answer, ask, assistant, user

START = datetime(2026, 1, 31, tzinfo=UTC)


def event(seq: int, kind: str, **data: Any) -> LogEvent:
    return LogEvent(seq, kind, data, START + timedelta(seconds=seq))


def message(seq: int, one: Message, **notes: Any) -> LogEvent:
    return event(seq, "message", message=as_data(one), **notes)


@attrs.frozen
class Shown:
    """What the model knows of a visible message: its text, and the numbers that it stands for."""

    seq: int
    text: str
    stands_for: frozenset[int]


def naive(log: list[LogEvent]) -> list[Shown]:
    """Project a log with sets of numbers, from its beginning, one event after the other."""
    shown: list[Shown] = []
    for one in log:
        if one.kind == "message":
            text = one.data["message"].get("text", "")
            shown.append(Shown(one.seq, text, frozenset({one.seq})))
        elif one.kind == "snapshot":
            shown.append(Shown(one.seq, one.data["text"] or GONE, frozenset({one.seq})))
        elif one.kind == "compaction":
            numbers = set(range(one.data["first"], one.data["last"] + 1))
            hit = [i for i, each in enumerate(shown) if each.stands_for & numbers]
            if hit:
                old = shown[hit[0] : hit[-1] + 1]
                low = min(numbers | set().union(*(each.stands_for for each in old)))
                high = max(numbers | set().union(*(each.stands_for for each in old)))
                summary = f"{SUMMARY}\n\n{one.data['summary']}"
                new = [Shown(one.seq, summary, frozenset(range(low, high + 1)))]
                new += [each for each in old if each.seq in one.data["kept"]]
                shown[hit[0] : hit[-1] + 1] = new
    return shown


@st.composite
def logs(draw: st.DrawFn) -> list[LogEvent]:
    log: list[LogEvent] = []
    for seq in range(1, draw(st.integers(0, 25)) + 1):
        kind = draw(st.sampled_from(["message", "message", "snapshot", "compaction", "other"]))
        if kind == "message":
            log.append(message(seq, user(f"m{seq}")))
        elif kind == "snapshot":
            log.append(event(seq, kind, text=draw(st.sampled_from(["", "a", "b"]))))
        elif kind == "compaction" and seq > 1:
            first = draw(st.integers(1, seq - 1))
            last = draw(st.integers(first, seq - 1))
            kept = draw(st.lists(st.integers(1, seq - 1), max_size=3))
            log.append(event(seq, kind, first=first, last=last, summary=f"s{seq}", kept=kept))
        else:
            log.append(event(seq, "turn-started"))
    return log


@given(logs())
def test_a_history_is_what_a_naive_projection_says(log: list[LogEvent]) -> None:
    """Whatever was appended and compacted, in whatever order, over whatever range."""
    history = project(log)
    assert [(one.seq, one.message.text) for one in history.entries] == [
        (one.seq, one.text) for one in naive(log)
    ]
    snapshots = {one.seq: one.data["text"] for one in log if one.kind == "snapshot"}
    visible = [snapshots[one.seq] for one in history.entries if one.seq in snapshots]
    assert history.snapshot == (visible[-1] if visible else None)


@given(logs(), st.integers(0, 25))
def test_a_history_grows_as_it_is_projected(log: list[LogEvent], cut: int) -> None:
    """From any point on, one event at a time; earlier histories stay as they were."""
    history = before = project(log[:cut])
    for one in log[cut:]:
        history = history.after(one)
    assert history == project(log)
    assert before == project(log[:cut])


@given(logs())
def test_the_same_log_from_its_lines_gives_the_same_history(log: list[LogEvent]) -> None:
    """In another process."""
    lines = [one.to_json() for one in log]
    assert project(map(LogEvent.from_json, lines)) == project(log)


def test_what_is_no_part_of_the_conversation_does_not_show() -> None:
    """Kinds of the loop, and of plugins."""
    log = [event(1, "turn-started"), message(2, user()), event(3, "mine", x=1)]
    history = project(log)
    assert [one.seq for one in history.entries] == [2]
    assert history.last_message_at == START + timedelta(seconds=2)


def test_the_last_message_is_neither_a_snapshot_nor_a_summary() -> None:
    """Time has passed since somebody said something."""
    log = [
        message(1, user()),
        message(2, assistant()),
        event(3, "snapshot", text="x"),
        event(4, "compaction", first=1, last=1, summary="s"),
    ]
    assert project(log).last_message_at == START + timedelta(seconds=2)
    assert project([]).last_message_at is None


def test_requests_are_answered_by_results_of_their_id_nearest_first() -> None:
    """Some providers count the ids anew in each reply."""
    log = [
        message(1, ask("a", "b")),
        message(2, answer("a")),
        message(3, answer("b")),
        message(4, ask("a")),
    ]
    assert project(log[:1]).unanswered == (ToolRequest("a", "bash"), ToolRequest("b", "bash"))
    assert project(log[:3]).unanswered == ()
    assert project(log).unanswered == (ToolRequest("a", "bash"),)
    assert project([*log, message(5, answer("a"))]).unanswered == ()


def test_of_two_open_requests_of_one_id_the_latest_is_answered() -> None:
    """The earlier one was given up."""
    first, second = find_exchanges([ask("a"), ask("a"), answer("a"), answer("a"), answer("b")])
    assert (first.asked, first.answered) == (0, 3)
    assert (second.asked, second.answered) == (1, 2)


@pytest.mark.parametrize(
    ("one", "problem"),
    [
        (event(1, "message"), "it has no 'message'"),
        (event(1, "message", message={"role": "nobody"}), "no message"),
        (event(1, "snapshot", text=None), "its text is None"),
        (event(1, "compaction", first=1, last="x"), "invalid literal"),
        (event(1, "compaction", first=1), "it has no 'last'"),
    ],
    ids=lambda one: one.kind if isinstance(one, LogEvent) else "",
)
def test_an_event_that_is_none_is_named(one: LogEvent, problem: str) -> None:
    """With its number and what is wrong."""
    with pytest.raises(SessionError, match="event 1 of kind") as caught:
        project([one])
    assert problem in str(caught.value)
    with pytest.raises(SessionError):
        History().after(one)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "[]",
        "{}",
        '{"seq": "1", "kind": "x", "at": "2026-01-31T00:00:00+00:00", "data": {}}',
        '{"seq": 1, "kind": 2, "at": "2026-01-31T00:00:00+00:00", "data": {}}',
        '{"seq": 1, "kind": "x", "at": "2026-01-31T00:00:00", "data": {}}',
        '{"seq": 1, "kind": "x", "at": "2026-01-31T00:00:00+00:00", "data": []}',
        '{"seq": 1, "kind": "x", "at": "2026-01-31T00:00:00+00:00", "data": {}, "more": 1}',
        "[" * 100_000,
    ],
)
def test_a_line_that_is_no_event_is_refused(line: str) -> None:
    """In few words, however long it is."""
    with pytest.raises(ValueError, match="no event of a session's log") as caught:
        LogEvent.from_json(line)
    assert len(str(caught.value)) < 300


def test_a_long_log_is_projected_in_linear_time() -> None:
    """Ten times the events, about ten times the time; the square would be a hundred times."""

    def seconds(count: int) -> float:
        log = [message(seq, user()) for seq in range(1, count + 1)]
        best = float("inf")
        for _ in range(3):
            start = time.perf_counter()
            project(log)
            best = min(best, time.perf_counter() - start)
        return best

    assert seconds(20_000) < 40 * seconds(2_000)


def test_a_result_stands_behind_its_request_whatever_was_written_between() -> None:
    said = [user("one"), ask("1", "2"), user("two"), answer("2"), assistant("what?"), answer("1")]
    history = project(message(seq, one) for seq, one in enumerate(said, 1))
    assert history.messages == (*said[:2], said[5], said[3], said[2], said[4])
    assert [entry.message for entry in history.entries] == said
