"""Watch: batches of changed files, as an asynchronous generator.

Directories are watched, never single files, which are lost at the first atomic save. What happens
while a batch is being worked on is collected meanwhile and is the next batch. The events are only
a hint where to look (see `snapshot`), and since even the best source of events can lose one, the
pause after a batch is used to look at everything once.

Contract: section 9; needs the extra `reload` (watchfiles).
"""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncGenerator, Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from ..errors import HarnessError
from .roots import Roots
from .snapshot import Batch, Snapshot

if TYPE_CHECKING:
    from watchfiles._rust_notify import RustNotify

__all__ = ["Batch", "WatchingUnavailableError", "watch"]

PULSE = 1.0
"""Seconds between two looks at what causes no events: named files elsewhere, lost roots."""

CHECKOUT = 30.0
"""Seconds that a git command which is rewriting the tree is waited for."""


class WatchingUnavailableError(HarnessError, ImportError):
    """The library that watches files is not installed."""


async def watch(
    roots: Roots | Iterable[str | Path],
    *,
    files: Callable[[], Iterable[str | Path]] = tuple,
    suffixes: Iterable[str] = (".py",),
    quiet: float = 0.05,
    longest: float = 2.0,
    started: anyio.Event | None = None,
) -> AsyncGenerator[Batch, None]:
    """Yield a batch whenever the content of relevant files below the roots has changed.

    Relevant are files with one of these suffixes, and those that `files` returns, which may change
    and may be outside the roots (they are then looked at once a second). A batch ends when nothing
    has happened for `quiet` seconds, or after `longest`; it holds the final state. Changes count
    from the moment that `started` is set. Raises WatchingUnavailableError without watchfiles.
    """
    roots = roots if isinstance(roots, Roots) else Roots(roots)
    snapshot = Snapshot(roots, suffixes, files)
    events = _Events(roots, quiet, longest)
    try:
        events.open()
        await anyio.to_thread.run_sync(snapshot.scan)
        if started is not None:
            started.set()
        while True:
            places = await events.wait()
            look = snapshot.scan if places is None else partial(snapshot.look_at, places)
            batch = await anyio.to_thread.run_sync(look)
            if batch:
                yield batch
    finally:
        events.close()


class _Events:
    """Where something has happened."""

    def __init__(self, roots: Roots, quiet: float, longest: float) -> None:
        self.roots = roots
        self.quiet = max(int(quiet * 1000), 1)
        self.longest = max(int(longest * 1000), 1)
        self._notify: RustNotify | None = None
        self._watched: list[tuple[int, int] | None] = []
        self._is_unsure = False
        self._locks: list[str] = []
        self._one_thread = anyio.CapacityLimiter(1)

    def open(self) -> None:
        """Begin to collect events."""
        notify = _library()
        self.close()
        self._watched = self._identities()
        self._locks = [lock for root in self.roots.directories for lock in _git_locks(root)]
        present = [root for root in self.roots.directories if os.path.isdir(root)]
        self._notify = notify(present, False, False, 300, True, True)

    def close(self) -> None:
        """Stop the thread that collects events."""
        if self._notify is not None:
            self._notify.close()
            self._notify = None

    async def wait(self) -> set[str] | None:
        """Return the places to look at, after a while none; None stands for everything."""
        places = await self._next(PULSE)
        if places is None or self._identities() != self._watched:
            # Events were lost, or a root was removed, or made anew, which is another directory.
            self.open()
            return None
        if places:
            self._is_unsure = True
            await self._wait_for_git(places)
            return places
        was_unsure, self._is_unsure = self._is_unsure, False
        return None if was_unsure else places

    async def _wait_for_git(self, places: set[str]) -> None:
        with anyio.move_on_after(CHECKOUT):
            while self._git_is_at_work():
                places |= await self._next(self.quiet / 1000) or set()

    def _git_is_at_work(self) -> bool:
        return any(os.path.exists(lock) for lock in self._locks)

    async def _next(self, seconds: float) -> set[str] | None:
        """Return the places of the next events; an empty set if there are none for a time.

        None if events were lost.
        """
        assert self._notify is not None
        stop = threading.Event()
        timeout = max(int(seconds * 1000), 1)
        wait = partial(self._notify.watch, self.longest, self.quiet, timeout, stop)
        found: set[tuple[int, str]] | str = set()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_set_when_cancelled, stop)
            try:
                found = await anyio.to_thread.run_sync(wait, limiter=self._one_thread)
            except RuntimeError:  # the library's own: the system's queue of events overflowed
                return None
            finally:
                tasks.cancel_scope.cancel()
        return set() if isinstance(found, str) else {path for _, path in found}

    def _identities(self) -> list[tuple[int, int] | None]:
        return [_identity(root) for root in self.roots.directories]


async def _set_when_cancelled(stop: threading.Event) -> None:
    """Make the thread end soon, since a thread cannot be cancelled."""
    try:
        await anyio.sleep_forever()
    finally:
        stop.set()


def _library() -> type[RustNotify]:
    try:
        from watchfiles._rust_notify import RustNotify
    except ImportError as error:
        raise WatchingUnavailableError(
            "watching files needs the library watchfiles: install harness-core[reload]"
        ) from error
    return RustNotify


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _git_locks(root: str) -> list[str]:
    """Return the file that exists while git rewrites the tree that `root` is in."""
    for directory in (root, *map(str, Path(root).parents)):
        git = os.path.join(directory, ".git")
        if os.path.isdir(git):
            return [os.path.join(git, "index.lock")]
    return []
