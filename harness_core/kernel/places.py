"""Places: registration order as numbers, kept over the lives of a fiber.

Everything registered has a place. When a fiber unloads to load again, the places of its effects
are noted by label, its children's below theirs; the next life takes them up in the same order, so
a plugin that is restarted or reloaded stands where it stood. Contract: section 5, "Equal orders".
"""

from __future__ import annotations

from typing import TypeAlias

__all__ = ["Label", "Places"]

Label: TypeAlias = str | tuple[str, str]
"""What an effect is called: a text, or a kind and a name, which is cheaper to make."""


class Places:
    """The places that one life of a fiber leaves to the next."""

    __slots__ = ("_notes",)

    def __init__(self) -> None:
        self._notes: dict[Label, list[tuple[int, Places | None]]] = {}
        """By label, newest first, so that the oldest is taken up first."""

    def note(self, label: Label, place: int, below: Places | None) -> None:
        """Note an effect that is being undone; they come newest first."""
        self._notes.setdefault(label, []).append((place, below))

    def take(self, label: Label) -> int | None:
        """Take up the place of the oldest effect of this label that is left."""
        notes = self._notes.get(label)
        return notes.pop()[0] if notes else None

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
