"""Other people's text on one line: nothing in it can begin a line or move a cursor."""

from __future__ import annotations

__all__ = ["one_line"]

_LONGEST = 120


def one_line(text: str, longest: int = _LONGEST) -> str:
    """Return `text` with every character that is not printable as an escape, cut if it is long.

    Line ends, control and format characters (also those that turn the direction of writing) are
    not printable; a blank is.
    """
    safe = "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )
    return safe if len(safe) <= longest else safe[: longest - 3] + "..."
