"""A `harness run` or `harness dev` in a process of its own, with deadlines for everything."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parents[2]
PATIENCE = 30.0


class Process:
    """A running command; its lines are read as they come."""

    def __init__(self, directory: Path, *arguments: str, piped: bool = False) -> None:
        path = f"{ROOT}{os.pathsep}{ROOT / 'plugins'}"
        environ = {**os.environ, "PYTHONPATH": path}
        environ.pop("PYTHONDONTWRITEBYTECODE", None)  # it hides stale bytecode
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "harness_core.cli", *arguments],
            cwd=directory,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.out: queue.Queue[str] = queue.Queue()
        self.err: queue.Queue[str] = queue.Queue()
        self.seen: list[str] = []
        self._readers = [
            threading.Thread(target=_read, args=(stream, lines), daemon=True)
            for stream, lines in (
                (self.process.stdout, self.out),
                (self.process.stderr, self.err),
            )
            if not piped or lines is self.err
        ]
        for reader in self._readers:
            reader.start()

    def line(self, lines: queue.Queue[str], wanted: Callable[[str], object]) -> str:
        """Return the next line that is wanted; fail after a while."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                line = lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                rest = "".join(self.err.queue)
                raise AssertionError(f"no such line; seen: {self.seen}\n{rest}") from None
            self.seen.append(line)
            if wanted(line):
                return line

    def event(self, **facts: Any) -> dict[str, Any]:
        """Return the next event of `harness dev --json` with these facts."""

        def wanted(line: str) -> bool:
            event = json.loads(line)
            return all(event[key] == value for key, value in facts.items())

        found: dict[str, Any] = json.loads(self.line(self.out, wanted))
        return found

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Tell the process to stop; return its exit code."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        """Wait for the end; return the exit code."""
        code = self.process.wait(PATIENCE)
        for reader in self._readers:
            reader.join(PATIENCE)
        return code

    def rest(self, lines: queue.Queue[str]) -> str:
        """Return what was printed and not read yet."""
        return "".join(lines.queue)


def _read(stream: IO[str] | None, lines: queue.Queue[str]) -> None:
    assert stream is not None
    for line in stream:
        lines.put(line)


@contextmanager
def process(directory: Path, *arguments: str, piped: bool = False) -> Generator[Process]:
    """Run a command for the block; nothing of it outlives the block.

    What is `piped` leaves its output to be read by the test.
    """
    running = Process(directory, *arguments, piped=piped)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.process.kill()
        running.wait()
        for stream in (running.process.stdout, running.process.stderr):
            assert stream is not None
            stream.close()


def save(file: Path, text: str, how: str = "in place") -> None:
    """Save a file as editors do."""
    if how == "in place":
        file.write_text(text)
        return
    beside = file.with_name(f".{file.name}.swp")
    beside.write_text(text)
    os.replace(beside, file)
