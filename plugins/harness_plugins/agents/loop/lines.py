"""Lines: whose turn it is with an agent or a session, first come first served."""

from __future__ import annotations

from collections import deque
from weakref import WeakKeyDictionary

import anyio

from harness_plugins.session.api import Session

from .speaker import Speaker

__all__ = ["Line", "Mark", "line_of"]


class Mark:
    """Stands for a work: marks all code that runs inside of it."""

    __slots__ = ("waits",)

    def __init__(self) -> None:
        self.waits: list[Line] = []
        """The lines in which its code waits."""


class Line:
    """Whose turn it is with an agent or a session, and who waits."""

    def __init__(self) -> None:
        self.holder: Mark | None = None
        self._waiting: deque[tuple[Mark, anyio.Event]] = deque()

    async def take(self, mark: Mark) -> None:
        """Wait until it is the turn of `mark`. Not bound to a task, unlike a lock."""
        if self.holder is None:
            self.holder = mark
            return
        called = anyio.Event()
        place = (mark, called)
        self._waiting.append(place)
        try:
            await called.wait()
        except BaseException:
            if called.is_set():  # it was our turn already: the next one must not wait for ever
                self.hand_on()
            else:
                self._waiting.remove(place)
            raise

    def hand_on(self) -> None:
        """Give the turn to whoever waits longest."""
        if self._waiting:
            self.holder, called = self._waiting.popleft()
            called.set()
        else:
            self.holder = None

    def is_behind(self, marks: tuple[Mark, ...]) -> bool:
        """Whether it is held by one of `marks`, or by what waits for one of them."""
        seen: set[Line] = set()
        lines = [self]
        while lines:
            line = lines.pop()
            if line in seen or line.holder is None:
                continue
            if line.holder in marks:
                return True
            seen.add(line)
            lines += line.holder.waits
        return False


_lines: WeakKeyDictionary[Speaker | Session, Line] = WeakKeyDictionary()


def line_of(one: Speaker | Session) -> Line:
    """Return the line of an agent or a session; it goes with that."""
    line = _lines.get(one)
    if line is None:
        line = _lines[one] = Line()
    return line
