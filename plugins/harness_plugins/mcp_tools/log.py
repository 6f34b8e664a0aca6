"""What a server says beside the protocol: to the log, with its name, in moderation."""

from __future__ import annotations

import logging
from collections import deque

import anyio

__all__ = ["Lines", "ServerLog", "logger"]

logger = logging.getLogger("harness_plugins.mcp_tools")

LONGEST_LINE = 500
"""Characters of a line that the log shows."""

PER_WINDOW = 100
WINDOW = 10.0
"""At most so many lines in so many seconds; the others are counted."""

TAIL = 5
"""Lines that are kept, to say what a server said before it ended."""


class ServerLog:
    """Takes the lines of one server's standard error, and what is no protocol on its output."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._tail: deque[str] = deque(maxlen=TAIL)
        self._window_ends = 0.0
        self._taken = 0
        self._dropped = 0

    def say(self, stream: str, line: bytes) -> None:
        """Log one line."""
        text = line.decode("utf-8", "replace").rstrip()
        if not text:
            return
        shown = "".join(
            c if c.isprintable() or c == "\t" else repr(c)[1:-1] for c in text[:LONGEST_LINE]
        )
        if len(text) > LONGEST_LINE:
            shown += f"... ({len(text)} characters)"
        if stream == "stderr":
            self._tail.append(shown)
        if self._may_log():
            logger.info("server %s, %s: %s", self._server, stream, shown)

    def _may_log(self) -> bool:
        now = anyio.current_time()
        if now >= self._window_ends:
            self.flush()
            self._window_ends = now + WINDOW
            self._taken = 0
        self._taken += 1
        if self._taken > PER_WINDOW:
            self._dropped += 1
            return False
        return True

    def flush(self) -> None:
        """Say how many lines were left out."""
        if self._dropped:
            logger.info("server %s: %d more lines were left out", self._server, self._dropped)
            self._dropped = 0

    def last_words(self) -> str:
        """Return the last lines of the standard error, for an error message."""
        return "\n".join(self._tail)


class Lines:
    """Cuts a stream of bytes into lines; one that is longer than `limit` is left out whole."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []
        self._size = 0
        self._is_too_long = False
        self.left_out = 0
        """How many lines were too long."""

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take what has come; return the lines that are complete, without their ends."""
        first, *rest = chunk.split(b"\n")
        self._add(first)
        lines: list[bytes] = []
        for piece in rest:
            if not self._is_too_long:
                lines.append(b"".join(self._pieces))
            self._pieces, self._size, self._is_too_long = [], 0, False
            self._add(piece)
        return lines

    def _add(self, piece: bytes) -> None:
        if self._is_too_long or not piece:
            return
        self._size += len(piece)
        self._pieces.append(piece)
        if self._size > self._limit:
            self._is_too_long = True
            self._pieces = []
            self.left_out += 1
