"""Names of tools as Python names: what code writes to call them."""

from __future__ import annotations

import builtins
import keyword
import re
import unicodedata
from collections.abc import Collection, Iterable

__all__ = ["identifier", "python_name", "python_names"]

_OTHER = re.compile(r"\W")
_TAKEN = frozenset(
    {*keyword.kwlist, *dir(builtins), "asyncio", "ToolError", "__builtins__"}
    | {"Any", "Literal", "Never", "NotRequired", "TypedDict"}
)
"""Names that code needs for other things than tools."""


def identifier(name: str, taken: Collection[str] = _TAKEN) -> str:
    """Return a name as a Python identifier that means nothing else: `git-log` is `git_log`.

    `taken` are the names that mean something else.
    """
    made = _OTHER.sub("_", unicodedata.normalize("NFKC", name))
    if not made.isidentifier():  # it begins with a digit, or with what only looks like a letter
        made = f"_{made}"
    if not made.isidentifier():
        made = re.sub(r"[^a-zA-Z0-9_]", "_", made)
    return f"{made}_" if made in taken else made


def python_names(names: Iterable[str], taken: Collection[str] = _TAKEN) -> dict[str, str]:
    """Return, for each name, what code calls it; no two are the same.

    A name that is an identifier keeps it, whoever else would like to have it. The others are
    numbered in the order given.
    """
    given = list(names)
    made = {name: name for name in given if identifier(name, taken) == name}
    used = set(made)
    for name in given:
        if name in made:
            continue
        wanted = identifier(name, taken)
        free, number = wanted, 2
        while free in used:
            free, number = f"{wanted}_{number}", number + 1
        made[name] = free
        used.add(free)
    return {name: made[name] for name in given}


def python_name(name: str, names: Iterable[str]) -> str:
    """Return what code calls one of these names."""
    return python_names(names)[name]
