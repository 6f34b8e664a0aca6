"""What code prints: read as it comes, kept up to a limit, told from what the next run prints."""

from __future__ import annotations

import anyio
from anyio.abc import ByteReceiveStream

__all__ = ["Flood", "Output"]

FLOOD = 50
"""How many times the limit may be printed, before it is taken for a loop without an end."""


class Flood(Exception):
    """The code prints without an end."""


class Output:
    """What one run prints. `mark` is what the process writes behind it."""

    def __init__(self, mark: bytes, most: int) -> None:
        self._mark = mark
        self._most = 4 * most  # bytes, of as many characters at least
        self._kept = bytearray()
        self._rest: bytes = b""
        """What may be the beginning of the mark."""
        self.size = 0
        self.is_whole = False
        """Whether the mark has been seen, or the end of all output."""

    async def read(self, stream: ByteReceiveStream) -> None:
        """Read until the mark; raise Flood if it is far too much."""
        while not self.is_whole:
            try:
                self._take(await stream.receive())
            except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
                self._keep(self._rest)
                self.is_whole = True
            if self.size > FLOOD * self._most:
                raise Flood

    def _take(self, data: bytes) -> None:
        data = self._rest + data
        before, mark, _ = data.partition(self._mark)
        if mark:
            self.is_whole = True
            self._keep(before)
            return
        # The end of what has come may be the beginning of the mark.
        first = max(0, len(data) - len(self._mark) + 1)
        ends = (at for at in range(first, len(data)) if self._mark.startswith(data[at:]))
        cut = next(ends, len(data))
        self._keep(data[:cut])
        self._rest = data[cut:]

    def _keep(self, data: bytes) -> None:
        self.size += len(data)
        self._kept += data[: self._most - len(self._kept)]

    @property
    def text(self) -> str:
        """What was printed, as far as it was kept."""
        return self._kept.decode("utf-8", "replace")

    @property
    def dropped(self) -> int:
        """The bytes that were not kept."""
        return self.size - len(self._kept)
