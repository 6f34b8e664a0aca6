"""Finding and reading instruction files within a budget. Blocking; run in a thread."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence

import attrs

__all__ = ["Instructions", "collect", "find_root"]


@attrs.frozen
class Instructions:
    """One file: its path below the root, its text, what is missing of it and why."""

    path: str
    text: str = ""
    size: int = 0
    missing: int = 0
    """Bytes that the budget did not allow."""
    problem: str = ""


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


def collect(root: str, directory: str, names: Sequence[str], budget: int) -> list[Instructions]:
    """Return the files from `root` down to `directory`, the most specific last.

    The budget is spent from the most specific file upwards.
    """
    found = [
        os.path.join(level, name)
        for level in _levels(root, directory)
        for name in names
        if os.path.lexists(os.path.join(level, name))
    ]
    read: list[Instructions] = []
    for path in reversed(found):
        one = _read(path, root, budget)
        budget -= one.size - one.missing
        read.append(one)
    read.reverse()
    return read


def _levels(root: str, directory: str) -> Iterator[str]:
    yield root
    below = os.path.relpath(directory, root)
    if below != os.curdir:
        at = root
        for step in below.split(os.sep):
            at = os.path.join(at, step)
            yield at


def _read(path: str, root: str, budget: int) -> Instructions:
    shown = os.path.relpath(path, root).replace(os.sep, "/")
    try:
        problem = _problem(path, root)
        if problem:
            return Instructions(shown, problem=problem)
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            raw = file.read(budget)
    except OSError as error:
        return Instructions(shown, problem=error.strerror or type(error).__name__)
    return _decoded(shown, raw, max(size, len(raw)))


def _problem(path: str, root: str) -> str:
    """Return why a file is not to be opened, or nothing."""
    real, real_root = os.path.realpath(path), os.path.realpath(root)
    if os.path.commonpath([real, real_root]) != real_root:
        return "it is a link to a place outside the project"
    if not stat.S_ISREG(os.stat(path).st_mode):
        return "it is not a regular file"
    return ""


def _decoded(shown: str, raw: bytes, size: int) -> Instructions:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        is_cut = error.reason == "unexpected end of data" and len(raw) < size
        if not is_cut:
            return Instructions(shown, problem=f"it is not UTF-8 (byte {error.start})")
        raw = raw[: error.start]
        text = raw.decode("utf-8")
    if len(raw) < size:  # cut at the end of a line, if there is one
        whole_lines = text.rfind("\n") + 1
        text = text[:whole_lines] if whole_lines else text
    missing = size - len(text.encode("utf-8"))
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    return Instructions(shown, text.strip("\n"), size, missing)
