"""A fact to come that anybody may wait for, and nobody can cancel."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import anyio

__all__ = ["SPENT", "Completion"]


class Completion:
    """A fact to come: something has ended. Awaiting it never cancels what it stands for."""

    __slots__ = ("_event", "done")

    def __init__(self, *, done: bool = False) -> None:
        self.done = done
        self._event: anyio.Event | None = None

    def finish(self) -> None:
        """Wake everybody who awaits."""
        self.done = True
        if self._event is not None:
            self._event.set()

    async def wait(self) -> None:
        """Wait until it has ended; return at once if it has."""
        if not self.done:
            if self._event is None:
                self._event = anyio.Event()
            await self._event.wait()

    def __await__(self) -> Generator[Any, None, None]:
        return self.wait().__await__()


SPENT = Completion(done=True)
"""The one completion of everything that ended without anybody having to wait."""
