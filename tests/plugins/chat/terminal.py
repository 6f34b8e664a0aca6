"""A `harness chat` in a process of its own, behind pipes or behind a real terminal."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["PATH", "Chat", "chatting"]

PATIENCE = 30.0
ROOT = Path(__file__).parents[3]
PATH = f"{ROOT}{os.pathsep}{ROOT / 'plugins'}"
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Chat:
    """A running chat. What it printed is read as far as somebody waits for something."""

    def __init__(self, directory: Path, *arguments: str, terminal: bool = False) -> None:
        environ = {**os.environ, "PYTHONPATH": PATH, "TERM": "xterm"}
        environ.pop("PYTHONDONTWRITEBYTECODE", None)
        self._own, theirs = pty.openpty() if terminal else (-1, -1)
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "harness_core.cli", "chat", *arguments],
            cwd=directory,
            env=environ,
            stdin=theirs if terminal else subprocess.PIPE,
            stdout=theirs if terminal else subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        if terminal:
            os.close(theirs)
            self._in = self._out = self._own
        else:
            assert self.process.stdin is not None
            assert self.process.stdout is not None
            self._in, self._out = self.process.stdin.fileno(), self.process.stdout.fileno()
        self.text = ""

    def say(self, line: str) -> None:
        """Type a line."""
        os.write(self._in, f"{line}\n".encode())

    def until(self, wanted: str) -> str:
        """Read until a text has been printed; return what came up to its end, and forget it."""
        deadline = time.monotonic() + PATIENCE
        while wanted not in self.text:
            ready, _, _ = select.select([self._out], [], [], max(0, deadline - time.monotonic()))
            data = self._read() if ready else b""
            assert data, f"{wanted!r} never came; there was:\n{self.text}"
            self.text = _COLOUR.sub("", self.text + data.decode()).replace("\r\n", "\n")
        end = self.text.index(wanted) + len(wanted)
        before, self.text = self.text[:end], self.text[end:]
        return before

    def _read(self) -> bytes:
        try:
            return os.read(self._out, 65536)
        except OSError:  # a terminal whose other side is closed
            return b""

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        os.killpg(self.process.pid, signal.SIGINT)

    def end(self) -> int:
        """Say that there is no more input; return the exit code."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        return self.process.wait(PATIENCE)

    def close(self) -> None:
        """Make sure that nothing is left."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE)
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
        if self._own >= 0:
            os.close(self._own)


@contextmanager
def chatting(
    directory: Path, *arguments: str, terminal: bool = False
) -> Generator[Chat, None, None]:
    """Run a chat for the length of a block."""
    chat = Chat(directory, *arguments, terminal=terminal)
    try:
        yield chat
    finally:
        chat.close()
