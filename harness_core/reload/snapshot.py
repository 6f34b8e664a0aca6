"""Snapshot: what is in the files that matter, as far as is needed to see a change of content.

Events say where to look, and the files themselves say what has changed: a touch, a save of the
same text, or a file that came and went again is no change. All of it blocks; it belongs in a
worker thread.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from pathlib import Path

import attrs

from .roots import Roots, is_skipped

__all__ = ["Batch", "Snapshot"]

_Stamp = tuple[int, int, int, int]


@attrs.frozen
class Batch:
    """Files whose content has changed, that have appeared, and that have gone: resolved paths."""

    changed: frozenset[Path] = frozenset()
    added: frozenset[Path] = frozenset()
    deleted: frozenset[Path] = frozenset()

    @property
    def files(self) -> frozenset[Path]:
        """All files of the batch."""
        return self.changed | self.added | self.deleted

    def __bool__(self) -> bool:
        return bool(self.changed or self.added or self.deleted)

    def __or__(self, later: Batch) -> Batch:
        """Return both as one."""
        return Batch(
            self.changed | later.changed, self.added | later.added, self.deleted | later.deleted
        )


_DOUBTFUL = 2_000_000_000
"""Nanoseconds after a write in which a second one may leave the very same time."""


_GRAIN = 20_000_000
"""Nanoseconds by which the clock of files may be late."""


@attrs.frozen
class _File:
    stamp: _Stamp
    digest: bytes
    is_certain: bool
    """Whether another write could not have left the same stamp."""


class Snapshot:
    """The relevant files below some roots, and those that `files` names, wherever they are.

    A file below the roots is relevant if its name ends in one of `suffixes`.
    """

    def __init__(
        self,
        roots: Roots,
        suffixes: Iterable[str] = (".py",),
        files: Callable[[], Iterable[str | Path]] = tuple,
    ) -> None:
        self.roots = roots
        self.suffixes = tuple(suffixes)
        self.files = files
        self._known: dict[str, _File] = {}
        self._named: set[str] = set()
        self._below_which: set[str] = set(roots.directories)
        """The roots that have been looked at, or are looked at first."""

    def scan(self) -> Batch:
        """Look at every file; return what is different from the last time."""
        self._read_named()
        self._read_new_roots()
        found = {path for root in self.roots.directories for path in self._below(root)}
        return self._compare(found | self._named | self._known.keys())

    def look_at(self, places: Iterable[str]) -> Batch:
        """Look at these files and directories, and at the named files that are elsewhere."""
        resolved = {os.path.realpath(place) for place in places}
        doubtful = self._read_named() & resolved
        paths = {path for path in self._named if not self.roots.covers(path)}
        for path in resolved:
            if self._is_relevant(path):
                paths.add(path)
            else:
                # A directory that came, went or was renamed moves files without events of their
                # own. What is no directory any more may have been one.
                inside = os.path.join(path, "")
                paths.update(known for known in self._known if known.startswith(inside))
                paths.update(self._below(path))
        batch = self._compare(paths)
        more = {Path(path) for path in doubtful if path in self._known} - batch.files
        return attrs.evolve(batch, changed=batch.changed | more)

    def _read_named(self) -> set[str]:
        """Read which files are named now, and what is in new ones; return these.

        They may have changed since whoever named them has read them.
        """
        named = {os.path.realpath(path) for path in self.files()}
        fresh = {path for path in named - self._named if path not in self._known}
        for path in fresh:
            found = _read(path, None)
            if found is not None:
                self._known[path] = found
        for path in self._named - named:
            if not self._is_code(path):
                self._known.pop(path, None)
        self._named = named
        return fresh

    def _read_new_roots(self) -> None:
        """Take in what roots hold that have come meanwhile, but for what was saved since then."""
        for root in set(self.roots.directories) - self._below_which:
            self._below_which.add(root)
            for path in self._below(root):
                found = _read(path, None) if path not in self._known else None
                if found is not None and found.stamp[1] < self.roots.since[root] - _GRAIN:
                    self._known[path] = found

    def _is_code(self, path: str) -> bool:
        return path.endswith(self.suffixes) and self.roots.covers(path)

    def _is_relevant(self, path: str) -> bool:
        return path in self._named or self._is_code(path)

    def _below(self, directory: str) -> Iterator[str]:
        if not self.roots.covers(directory):
            return
        for place, directories, names in os.walk(directory):
            directories[:] = [name for name in directories if not is_skipped(name)]
            for name in names:
                path = os.path.realpath(os.path.join(place, name))
                if self._is_relevant(path):
                    yield path

    def _compare(self, paths: Iterable[str]) -> Batch:
        changed, added, deleted = set[Path](), set[Path](), set[Path]()
        for path in paths:
            old = self._known.get(path)
            new = _read(path, old)
            if new is not None:
                self._known[path] = new
            if old is None and new is not None:
                added.add(Path(path))
            elif old is not None and new is None:
                del self._known[path]
                deleted.add(Path(path))
            elif old is not None and new is not None and old.digest != new.digest:
                changed.add(Path(path))
        return Batch(frozenset(changed), frozenset(added), frozenset(deleted))


def _read(path: str, old: _File | None) -> _File | None:
    """Return what a file holds; None if there is none."""
    try:
        if old is not None and old.is_certain and _stamp(os.stat(path)) == old.stamp:
            return old
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            is_certain = time.time_ns() - status.st_ctime_ns > _DOUBTFUL
            digest = blake2b(file.read(), digest_size=16).digest()
            return _File(_stamp(status), digest, is_certain)
    except OSError:
        return None


def _stamp(status: os.stat_result) -> _Stamp:
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino
