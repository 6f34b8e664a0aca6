"""How long to wait before the next attempt."""

from __future__ import annotations

__all__ = ["Pauses"]


class Pauses:
    """Pauses in seconds that double, from `first` to `most`, and begin anew after a good time."""

    def __init__(self, first: float, most: float) -> None:
        self._first = first
        self._most = most
        self._next = first

    def after(self, stood: float | None) -> float:
        """Return the pause after a connection that stood for so many seconds; None: not at all."""
        if stood is not None and stood > self._next:
            self._next = self._first
        pause = self._next
        self._next = min(pause * 2, self._most)
        return pause
