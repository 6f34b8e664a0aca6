"""Choosing instruction files: which there are, which say the same, what the budget allows.

Blocking; run in a thread.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import attrs

from .reading import LIMIT, Content, Memory, is_there, read

__all__ = ["Instructions", "Places", "candidates", "collect", "find_root"]


@attrs.frozen
class Places:
    """Where to look, for which names: from `root` down to `directory`. All paths are absolute.

    `user` is a file of the user's own, more general than all others, and how to call it.
    """

    root: str
    directory: str
    names: tuple[str, ...]
    user: tuple[str, str] | None = None


@attrs.frozen
class Instructions:
    """One file: its path below the root, its text, what is missing of it and why."""

    path: str
    text: str = ""
    size: int = 0
    missing: int = 0
    """Bytes that the budget did not allow."""
    problem: str = ""
    also: tuple[str, ...] = ()
    """Files that say the same."""


@attrs.define(eq=False)
class _Found:
    label: str
    path: str
    level: int
    content: Content
    also: list[str] = attrs.field(factory=list)


def find_root(directory: str) -> str:
    """Return the nearest directory at or above `directory` that holds `.git`, else itself."""
    at = directory
    while True:
        if os.path.lexists(os.path.join(at, ".git")):
            return at
        above = os.path.dirname(at)
        if above == at:
            return directory
        at = above


def candidates(places: Places) -> Iterator[str]:
    """Yield the paths of all files that would count, whether they are there or not."""
    if places.user is not None:
        yield places.user[1]
    for level in _levels(places.root, places.directory):
        for name in places.names:
            yield os.path.join(level, name)


def collect(places: Places, budget: int, memory: Memory) -> list[Instructions]:
    """Return the files in order, the most specific last, those that say nothing new left out.

    The budget is spent from the most specific file upwards.
    """
    chosen: list[Instructions] = []
    for one in reversed(_without_copies(_read_all(places, max(budget, LIMIT), memory))):
        text = _cut(one.content.text, one.content.size, budget)
        taken = len(text.encode("utf-8"))
        budget -= taken
        chosen.append(
            Instructions(
                one.label,
                text.strip("\n"),
                one.content.size,
                one.content.size - taken,
                one.content.problem,
                tuple(one.also),
            )
        )
    chosen.reverse()
    return chosen


def _levels(root: str, directory: str) -> Iterator[str]:
    yield root
    below = os.path.relpath(directory, root)
    if below != os.curdir:
        at = root
        for step in below.split(os.sep):
            at = os.path.join(at, step)
            yield at


def _read_all(places: Places, limit: int, memory: Memory) -> list[_Found]:
    found: list[_Found] = []
    if places.user is not None:
        label, path = places.user
        found += _look(label, path, -1, None, limit, memory)[0]
    for level, directory in enumerate(_levels(places.root, places.directory)):
        closed = ""
        for name in places.names:
            path = os.path.join(directory, name)
            label = _label(path, places.root)
            there, problem = _look(label, path, level, places.root, limit, memory)
            found += there
            closed = closed or problem
        if closed:
            label = f"{_label(directory, places.root)}/"
            found.append(_Found(label, directory, level, Content(problem=closed)))
    return found


def _look(
    label: str, path: str, level: int, root: str | None, limit: int, memory: Memory
) -> tuple[list[_Found], str]:
    """Return the file, if there is one, and why it cannot be said whether there is one."""
    try:
        if not is_there(path):
            memory.forget(path)
            return [], ""
    except OSError as error:
        if path not in memory:
            return [], error.strerror or type(error).__name__
    return [_Found(label, path, level, read(path, root, limit, memory))], ""


def _label(path: str, root: str) -> str:
    return os.path.relpath(path, root).replace(os.sep, "/")


def _without_copies(found: Sequence[_Found]) -> list[_Found]:
    """Leave out what says the same as a more specific file, or one before it in its directory."""
    kept: dict[tuple[str, str], _Found] = {}
    copies: set[_Found] = set()
    for one in sorted(found, key=lambda each: -each.level):  # stable: the order of the names stays
        text = one.content.text.strip("\n")
        if not text:
            continue
        first = kept.setdefault((one.content.real, text), one)
        if first is not one:
            first.also.append(one.label)
            copies.add(one)
    return [one for one in found if one not in copies]


def _cut(text: str, size: int, budget: int) -> str:
    """Return as much of a text as the budget allows: whole lines, if there is room for one."""
    if size <= budget:
        return text
    cut = text.encode("utf-8")[:budget].decode("utf-8", "ignore")
    whole_lines = cut.rfind("\n") + 1
    return cut[:whole_lines] if whole_lines else cut
