"""Twins: siblings of one name, told apart by how many of them come before."""

from __future__ import annotations

from bisect import bisect_left, insort

__all__ = ["Twins"]


class Twins:
    """The places of siblings, by name. Asking is no search: a parent may have ten thousand."""

    __slots__ = ("_places",)

    def __init__(self) -> None:
        self._places: dict[str, list[int]] = {}

    def add(self, name: str, place: int) -> None:
        """Take in a sibling."""
        insort(self._places.setdefault(name, []), place)

    def remove(self, name: str, place: int) -> None:
        """Let a sibling go."""
        places = self._places[name]
        del places[bisect_left(places, place)]
        if not places:
            del self._places[name]

    def number(self, name: str, place: int) -> int:
        """Return which of its name the sibling at a place is, from 1 on."""
        return bisect_left(self._places.get(name, ()), place) + 1
