"""Numbers: what tells siblings of one name apart, kept as long as each of them is there."""

from __future__ import annotations

from heapq import heappop, heappush

__all__ = ["Numbers"]


class Numbers:
    """Hands out, for each name, the smallest number that is free, from 1 on."""

    __slots__ = ("_names",)

    def __init__(self) -> None:
        self._names: dict[str, tuple[list[int], int]] = {}
        """By name: the numbers that came back, smallest first, and the greatest in use."""

    def take(self, name: str) -> int:
        """Return a number for a name."""
        free, last = self._names.get(name) or ([], 0)
        if free:
            return heappop(free)
        self._names[name] = free, last + 1
        return last + 1

    def give_back(self, name: str, number: int) -> None:
        """Let others have a number of a name."""
        free, last = self._names[name]
        heappush(free, number)
        if len(free) == last:
            del self._names[name]  # nobody has the name any more
