"""Reading one instruction file: what it says, or why it cannot be read. Blocking.

"Cannot be read" is not "is not there": the text of the last good reading is remembered, and goes
on to be shown with the reason. A file that is gone is forgotten; so is one that has become
something that must not be read (a link out of the project, a pipe).
"""

from __future__ import annotations

import errno
import os
import stat
import threading

import attrs

__all__ = ["LIMIT", "Content", "Kept", "Memory", "is_there", "read"]

LIMIT = 1024 * 1024
"""Bytes that are read of one file at most, if the budget does not allow more."""

_REMEMBERED = 1000
"""Files whose text is remembered: the ones that were read last."""


@attrs.frozen
class Content:
    """What one file holds: its text, with line ends as a single newline and without a mark.

    `size` counts the bytes of the whole text. With a `problem`, the text is what the file said
    before, or empty. `real` tells apart files that are too large to be compared.
    """

    text: str = ""
    size: int = 0
    problem: str = ""
    real: str = ""


Kept = dict[str, tuple[str, int, str]]
"""Text, size and real path by path: plain data, since it outlives a reload of this code."""


class Memory:
    """The texts of the last good readings, by path. Several threads may use it."""

    def __init__(self, kept: Kept) -> None:
        self._kept = kept
        self._lock = threading.Lock()

    def __contains__(self, path: str) -> bool:
        return path in self._kept

    def keep(self, path: str, content: Content) -> None:
        """Remember what a file says; of very many, the oldest is forgotten."""
        with self._lock:
            self._kept.pop(path, None)
            self._kept[path] = (content.text, content.size, content.real)
            if len(self._kept) > _REMEMBERED:
                del self._kept[next(iter(self._kept))]

    def forget(self, path: str) -> None:
        """Forget what a file said: it is gone, or is something else now."""
        with self._lock:
            self._kept.pop(path, None)

    def with_problem(self, path: str, problem: str) -> Content:
        """Return what a file said before, with the reason why it cannot be read now."""
        text, size, real = self._kept.get(path, ("", 0, ""))
        return Content(text, size, problem, real)


class _OtherKind(Exception):
    """What is there now is not to be read at all. Its text says why."""


def is_there(path: str) -> bool:
    """Return whether there is anything at a path; raise OSError where that cannot be said."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def read(path: str, root: str | None, limit: int, memory: Memory) -> Content:
    """Return what the file says, which must be inside `root`, if there is one.

    At most `limit` bytes are read.
    """
    try:
        content = _read(path, root, limit)
    except _OtherKind as problem:
        memory.forget(path)
        return Content(problem=str(problem))
    except OSError as error:
        return memory.with_problem(path, error.strerror or type(error).__name__)
    except UnicodeDecodeError as error:
        return memory.with_problem(path, f"it is not UTF-8 (byte {error.start})")
    memory.keep(path, content)
    return content


def _read(path: str, root: str | None, limit: int) -> Content:
    real = _resolved(path)
    if root is not None and os.path.commonpath([real, root]) != root:
        raise _OtherKind("it is a link to a place outside the project")
    # Opening a pipe would wait for a writer; and since `real` was checked, it must be what opens.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
    if not stat.S_ISREG(os.stat(real).st_mode):
        raise _OtherKind("it is not a regular file")
    with open(os.open(real, flags), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise _OtherKind("it is not a regular file")
        raw = file.read(limit + 1)
    if len(raw) <= limit:
        text = _decoded(raw)
        return Content(text, len(text.encode("utf-8")))
    text = _decoded(raw[:limit], is_cut=True)
    return Content(text, max(status.st_size, len(raw)), real=real)


def _resolved(path: str) -> str:
    try:
        return os.path.realpath(path, strict=True)
    except FileNotFoundError:
        raise _OtherKind("it is a link to nothing") from None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _OtherKind("it is a link that leads back to itself") from None
        raise


def _decoded(raw: bytes, *, is_cut: bool = False) -> str:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        if not is_cut or error.reason != "unexpected end of data":
            raise
        text = raw[: error.start].decode("utf-8")
    if "\0" in text:
        # UTF-16 without its mark, or no text; and no store or endpoint takes such a character.
        at = raw.index(0)
        raise UnicodeDecodeError("utf-8", raw, at, at + 1, "a zero byte")
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
