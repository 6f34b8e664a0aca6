"""Roots: the directories whose code can be reloaded, and what in them does not count."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

__all__ = ["Roots", "is_skipped"]

_SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages", "dist-packages"})
_MEMORY = 20_000
"""Paths to remember; a tree that has more is asked about again."""


def is_skipped(name: str) -> bool:
    """Whether a directory of this name holds nothing that is reloaded."""
    return name in _SKIPPED or name.startswith(".")


class Roots:
    """Directories, resolved. Everything asks here whether a file is one of theirs."""

    def __init__(self, paths: Iterable[str | Path]) -> None:
        self.directories: tuple[str, ...] = ()
        self.since: dict[str, int] = {}
        """By directory: since when it is one of them, in nanoseconds of the clock of files."""
        self._prefixes: tuple[str, ...] = ()
        self._known: dict[str, str | None] = {}
        self.add(paths)

    def add(self, paths: Iterable[str | Path]) -> None:
        """Let these directories be roots too."""
        for path in paths:
            self.since.setdefault(os.path.realpath(path), time.time_ns())
        self.directories = tuple(self.since)
        self._prefixes = tuple(os.path.join(path, "") for path in self.directories)
        self._known.clear()

    def real(self, path: str) -> str | None:
        """Return the resolved form of a path below the roots; None if it is not below them."""
        try:
            return self._known[path]
        except KeyError:
            if len(self._known) >= _MEMORY:
                self._known.clear()
            found = self._known[path] = self._resolve(path)
            return found

    def _resolve(self, path: str) -> str | None:
        if path.startswith("<"):  # "<frozen importlib._bootstrap>" is no file
            return None
        resolved = os.path.realpath(path)
        for root, prefix in zip(self.directories, self._prefixes, strict=True):
            if resolved == root:
                return resolved
            if resolved.startswith(prefix):
                inner = resolved[len(prefix) :].split(os.sep)
                if not any(is_skipped(part) for part in inner):
                    return resolved
        return None

    def covers(self, path: object) -> bool:
        """Whether `path` is the path of something below the roots."""
        return isinstance(path, str) and self.real(path) is not None
