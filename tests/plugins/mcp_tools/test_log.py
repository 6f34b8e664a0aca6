"""Cutting bytes into lines, whatever pieces they come in; and the moderation of the log."""

from __future__ import annotations

import logging

import anyio
import pytest
from harness_plugins.mcp_tools.log import Lines, ServerLog
from hypothesis import given
from hypothesis import strategies as st

from harness_core.testing import run_with_virtual_clock


@given(st.lists(st.binary(max_size=30)), st.data())
def test_lines_are_the_same_in_whatever_pieces_they_come(
    wanted: list[bytes], data: st.DataObject
) -> None:
    """Those that are longer than the limit are missing, and counted."""
    wanted = [line.replace(b"\n", b"") for line in wanted]
    stream = b"".join(line + b"\n" for line in wanted)
    lines = Lines(limit=20)
    found: list[bytes] = []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        found += lines.feed(stream[:size])
        stream = stream[size:]
    assert found == [line for line in wanted if len(line) <= 20]
    assert lines.left_out == len(wanted) - len(found)


def test_a_line_that_never_ends_takes_no_room() -> None:
    """Ten thousand pieces of it are not kept."""
    lines = Lines(limit=100)
    for _ in range(10_000):
        assert lines.feed(b"x" * 50) == []
    assert lines.feed(b"\nnext\n") == [b"next"]
    assert lines.left_out == 1


def test_the_log_takes_a_hundred_lines_in_ten_seconds(caplog: pytest.LogCaptureFixture) -> None:
    """And says how many it left out, before the next ones."""
    caplog.set_level(logging.INFO)

    async def talk() -> None:
        log = ServerLog("loud")
        for number in range(150):
            log.say("stderr", b"line %d\n" % number)
        await anyio.sleep(10)
        log.say("stderr", b"later")

    run_with_virtual_clock(talk)
    assert len(caplog.messages) == 102
    assert caplog.messages[100:] == [
        "server loud: 50 more lines were left out",
        "server loud, stderr: later",
    ]


def test_a_line_is_shown_short_and_without_control_characters(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A terminal is not for a server to paint on; empty lines say nothing."""
    caplog.set_level(logging.INFO)

    async def talk() -> None:
        log = ServerLog("odd")
        for line in (b"\x1b[31mred\x07\xff", b"  \r", b"x" * 501):
            log.say("stderr", line)
        assert log.last_words() == "\\x1b[31mred\\x07\ufffd\n" + "x" * 500 + "... (501 characters)"

    anyio.run(talk)
    assert caplog.messages[0] == "server odd, stderr: \\x1b[31mred\\x07\ufffd"
    assert len(caplog.messages) == 2
