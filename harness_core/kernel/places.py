"""Places: registration order as numbers, kept over the lives of a fiber.

Everything registered has a place. When a fiber unloads to load again, the places of its effects
are noted by label, its children's below theirs; the next life takes them up in the same order, so
a plugin that is restarted or reloaded stands where it stood. Contract: section 5, "Equal orders".
"""

from __future__ import annotations

from typing import Any, TypeAlias

__all__ = ["Label", "LivePlace", "Places"]

Label: TypeAlias = str | tuple[str, str]
"""What an effect is called: a text, or a kind and a name, which is cheaper to make."""


class LivePlace(int):
    """A place that knows who took it, where a plugin may live twice at once.

    Two entries of one name are then no conflict, if one belongs to the life that takes the
    other's place.
    """

    fiber: Any

    def __new__(cls, place: int, fiber: Any) -> LivePlace:
        """Make a place from a number and the fiber that registers."""
        made = super().__new__(cls, place)
        made.fiber = fiber
        return made


class Places:
    """The places that one life of a fiber leaves to the next."""

    __slots__ = ("_is_loose", "_notes")

    def __init__(self) -> None:
        self._is_loose = False
        """Whether they are for another plugin, which calls what it registers by other names."""
        self._notes: dict[Label, list[tuple[int, Places | None]]] = {}
        """By label, newest first, so that the oldest is taken up first."""

    def note(self, label: Label, place: int, below: Places | None) -> None:
        """Note an effect that is being undone; they come newest first."""
        self._notes.setdefault(label, []).append((int(place), below))

    def take(self, label: Label) -> int | None:
        """Take up the place of the oldest effect of this label that is left."""
        notes = self._notes.get(label)
        if not notes and self._is_loose:
            notes = self._oldest_of_kind(label)
        return notes.pop()[0] if notes else None

    def _oldest_of_kind(self, label: Label) -> list[tuple[int, Places | None]] | None:
        kind = label[0] if isinstance(label, tuple) else None
        alike = [
            notes
            for other, notes in self._notes.items()
            if notes and isinstance(other, tuple) and other[0] == kind
        ]
        return min(alike, key=lambda notes: notes[-1][0], default=None)

    def for_another(self) -> Places:
        """Return a copy for another plugin in the same place."""
        copy = Places()
        copy._is_loose = True
        copy._notes = {label: notes[:] for label, notes in self._notes.items()}
        return copy

    def below(self, label: Label) -> Places | None:
        """Return the places of the child whose place is taken up next."""
        notes = self._notes.get(label)
        return notes[-1][1] if notes else None

    def carry_over(self, older: Places) -> None:
        """Add what is left of an older life, because this one was cut short."""
        for label, notes in older._notes.items():
            mine = self._notes.setdefault(label, [])
            mine += notes
            mine.sort(key=lambda note: note[0], reverse=True)
