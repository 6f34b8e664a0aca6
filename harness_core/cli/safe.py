"""Other people's text on a terminal: nothing in it moves the cursor or hides."""

from __future__ import annotations

import unicodedata

__all__ = ["one_line", "visible"]

_JOINERS = frozenset("\u200c\u200d")
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})


def visible(text: str) -> str:
    """Return a text with control and invisible characters as escapes; line ends and tabs stay."""
    if text.isprintable():
        return text
    return "".join(_escaped(character) for character in text)


def one_line(text: str) -> str:
    """Return a text as one safe line."""
    return visible(text).replace("\n", "\\n").replace("\t", " ")


def _escaped(character: str) -> str:
    if character in "\n\t" or character.isprintable() or character in _JOINERS:
        return character
    if unicodedata.category(character) not in _HIDDEN:
        return character
    return character.encode("unicode_escape").decode()
