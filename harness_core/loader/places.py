"""Plain data that knows where it was written: dicts and lists with file, line and column.

To everybody else they are dicts and lists; only messages about faults look at the places.
"""

from __future__ import annotations

import os
import re
from typing import Any

import attrs

from ..errors import ManifestError

__all__ = [
    "LocatedDict",
    "LocatedList",
    "Place",
    "as_dict",
    "as_list",
    "located",
    "place_at",
    "plain",
    "shown_path",
]


@attrs.frozen
class Place:
    """A place in a file. `line` and `column` count from 1; None where only the file is known."""

    file: str
    line: int | None = None
    column: int | None = None

    def fault(self, message: str) -> ManifestError:
        """Return the error that reports a fault at this place."""
        return ManifestError(message, file=self.file, line=self.line, column=self.column)

    def __str__(self) -> str:
        return ":".join(str(part) for part in (self.file, self.line, self.column) if part)


class LocatedDict(dict[Any, Any]):
    """A mapping with its place, and the places of its keys and values."""

    __slots__ = ("keys_at", "place", "values_at")

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place = place
        self.keys_at: dict[Any, Place] = {}
        self.values_at: dict[Any, Place] = {}


class LocatedList(list[Any]):
    """A list with its place, and the places of its items."""

    __slots__ = ("items_at", "place")

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place = place
        self.items_at: list[Place] = []


def as_dict(value: object) -> dict[Any, Any] | None:
    """Return a mapping as what it is, or None for anything else."""
    found: Any = value
    return found if isinstance(value, dict) else None


def as_list(value: object) -> list[Any] | None:
    """Return a list as what it is, or None for anything else."""
    found: Any = value
    return found if isinstance(value, list) else None


def plain(value: Any) -> Any:
    """Return a copy in plain dicts and lists, which whoever gets it may change."""
    if isinstance(value, LocatedDict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, LocatedList) else value


def located(value: object, inside: object) -> object:
    """Return the first part of `inside` that equals `value` and has a place, else `value`."""
    if isinstance(inside, LocatedDict | LocatedList):
        if inside == value:
            return inside
        for inner in inside.values() if isinstance(inside, LocatedDict) else inside:
            found = located(value, inner)
            if found is not value:
                return found
    return value


_STEP = re.compile(r"\[(?P<quote>['\"]?)(?P<item>.*?)(?P=quote)\]|\.?(?P<name>[^.\[\]:]+)")
_UNKNOWN_KEY = re.compile(r"unknown key '(?P<key>[^']*)'")


def place_at(data: object, problem: str, fallback: Place) -> Place:
    """Return where the fault is that a config error describes as `path.to[0].key: what`.

    Follows the path as far as it leads; an unknown key is pointed at itself.
    """
    path, _, message = problem.partition(": ")
    place, node = fallback, data
    for step in _STEP.finditer(path):
        name = step["name"] if step["name"] is not None else step["item"]
        inner, found = _descend(node, name)
        if found is None:
            break
        node, place = inner, found
    unknown = _UNKNOWN_KEY.search(message)
    if unknown and isinstance(node, LocatedDict):
        place = node.keys_at.get(unknown["key"], place)
    return place


def _descend(node: object, name: str) -> tuple[Any, Place | None]:
    if isinstance(node, LocatedDict) and name in node:
        return node[name], node.values_at.get(name)
    if isinstance(node, LocatedList) and name.isdigit() and int(name) < len(node.items_at):
        return node[int(name)], node.items_at[int(name)]
    return None, None


def shown_path(path: str | os.PathLike[str]) -> str:
    """Return a path as messages show it: relative where it lies below the working directory."""
    full = os.path.abspath(path)
    here = os.getcwd()
    inside = full.startswith(here.rstrip(os.sep) + os.sep)
    return os.path.relpath(full, here) if inside else full
