"""Real processes on one session: killed at any point, or two at a time."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from harness_plugins.session.api import SessionBusyError

from .words import store, user

Settings = dict[str, Any]
ROUNDS = 10


class Nursery:
    """The program that starts processes, and its lines."""

    def __init__(self) -> None:
        program = Path(__file__).with_name("nursery.py")
        self.process = subprocess.Popen(
            [sys.executable, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.expect("ready")

    def start(self, settings: Settings, work: str, **more: Any) -> list[int]:
        """Start processes and return their numbers."""
        assert self.process.stdin is not None
        task = {"settings": settings, "id": "one", "work": work, **more}
        self.process.stdin.write(json.dumps(task) + "\n")
        self.process.stdin.flush()
        return [int(word) for word in self.expect("started")]

    def line(self) -> list[str]:
        """Return the words of the next line."""
        assert self.process.stdout is not None
        words = self.process.stdout.readline().split()
        assert words, "the nursery has ended"
        return words

    def expect(self, first: str) -> list[str]:
        """Return what follows the word that the next line begins with."""
        word, *rest = self.line()
        assert word == first, (word, rest)
        return rest

    def acknowledged(self) -> int:
        """Return the last number that was acknowledged before the process went."""
        last = 0
        while (words := self.line())[0] != "gone":
            last = int(words[-1]) if words[0] == "acknowledged" else last
        return last

    def stop(self) -> None:
        """End the program."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(20)
        self.process.stdout.close()


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    """One for all tests; it holds no session itself."""
    made = Nursery()
    try:
        yield made
    finally:
        made.stop()


def make_session(settings: Settings) -> None:
    async def make() -> None:
        async with store(settings) as root:
            await root.session.create("one")

    anyio.run(make)


def test_a_process_that_is_killed_loses_nothing_it_has_acknowledged(
    settings: Settings, nursery: Nursery
) -> None:
    """At any point, again and again; each time the session is opened at once, and goes on."""
    make_session(settings)
    dice = random.Random(5)
    seen = 0

    async def check(acknowledged: int) -> int:
        async with store(settings) as root:
            # The server needs a moment to find out that the connection is gone.
            session = await root.session.open("one", wait=10)
            numbers = [one.seq for one in session.events]
            assert numbers == list(range(1, len(numbers) + 1))
            assert len(numbers) >= acknowledged
            # A batch is there whole or not at all; at most one was not acknowledged any more.
            texts = [one.text for one in session.history.messages]
            batches = [text.partition(".") for text in texts if text != "between"]
            for at, (number, _, part) in enumerate(batches):
                is_last = at + 1 == len(batches) or batches[at + 1][0] != number
                assert not is_last or int(part) == int(number) % 3
            assert len(numbers) - acknowledged <= 3
            await session.add(user("between"))
            assert (await root.session.info("one")).events == len(session.events)
            return len(session.events)

    for _ in range(ROUNDS):
        (process,) = nursery.start(settings, "append")
        (opened,) = nursery.expect("opened")
        assert int(opened) == seen
        for _ in range(dice.randrange(6)):
            (last,) = nursery.expect("acknowledged")
            seen = int(last)
        time.sleep(dice.uniform(0, 0.003))
        os.kill(process, signal.SIGKILL)
        seen = anyio.run(check, max(nursery.acknowledged(), seen))
    assert seen > 2 * ROUNDS


def test_a_session_that_another_process_has_is_busy_until_that_is_gone(
    settings: Settings, nursery: Nursery
) -> None:
    """The error names the process. Whoever waits gets the session when the process is killed."""
    make_session(settings)
    (process,) = nursery.start(settings, "hold")
    nursery.expect("opened")

    async def check() -> None:
        async with store(settings) as root:
            with pytest.raises(SessionBusyError, match=f"open in process {process}: close it"):
                await root.session.open("one")
            copy = await root.session.fork("one")
            await copy.add(user())

            async def kill() -> None:
                await anyio.sleep(0.1)
                os.kill(process, signal.SIGKILL)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(kill)
                session = await root.session.open("one", wait=20)
            await session.add(user())

    anyio.run(check)
    nursery.expect("gone")


def test_processes_that_share_a_session_never_interleave(
    settings: Settings, nursery: Nursery
) -> None:
    """Each waits for its turn, and what it writes in a turn stands together."""
    make_session(settings)
    processes = nursery.start(settings, "share", count=3)
    nursery.expect("gone")

    async def check() -> None:
        async with store(settings) as root:
            log = await root.session.read("one")
        assert [one.seq for one in log] == list(range(1, 3 * 6 * 3 + 1))
        turns = [tuple(one.data[key] for key in ("who", "turn", "part")) for one in log]
        for at in range(0, len(turns), 3):
            who, turn, _ = turns[at]
            assert turns[at : at + 3] == [(who, turn, part) for part in range(3)]
        assert {who for who, _, _ in turns} == set(processes)

    anyio.run(check)
