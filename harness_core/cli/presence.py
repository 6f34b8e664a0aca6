"""Presence: a running `harness dev` shows what it is to other commands of the same user.

It listens on a local socket in a private directory, named after its manifest. Who connects is told
at once, as JSON, and says nothing. A socket that a killed process has left answers nobody, and the
next one takes its place. Where there are no such sockets nobody is present.

Contract: section 10, `harness tree`.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import socket
import stat
import tempfile
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.abc

from ..errors import HarnessError
from ..loader import as_dict

__all__ = ["PresenceError", "find_present", "present"]

PATIENCE = 3.0
"""Seconds that one conversation may take."""

LIMIT = 2**24
"""Bytes of an answer after which no more is read."""

logger = logging.getLogger("harness_core")


class PresenceError(HarnessError, OSError):
    """There can be no socket, and why."""


@asynccontextmanager
async def present(manifest: Path, tell: Callable[[], Mapping[str, Any]]) -> AsyncGenerator[bool]:
    """Show what `tell` returns, for the block; gives False if another process does so already.

    Raises PresenceError if the directory or the socket cannot be used, or belongs to a process that
    does not answer.
    """
    path = _socket_of(manifest)
    if path is None or await find_present(manifest) is not None:
        yield False
        return
    try:
        listener = await anyio.create_unix_listener(path, mode=0o600)
        inode = path.stat().st_ino
    except OSError as error:
        raise PresenceError(f"{path}: {error}") from error

    async def answer(stream: anyio.abc.SocketStream) -> None:
        try:
            async with stream:
                with anyio.move_on_after(PATIENCE):
                    await stream.send(json.dumps(tell()).encode())
        except Exception as error:  # whatever it is, who asks must not end who is asked
            logger.debug("somebody asked, and was not told: %r", error)

    failure: Exception | None = None
    try:
        async with listener, anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, answer)
            try:
                yield True
            except Exception as error:  # it leaves the block as it is, and not in a group
                failure = error
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure
    finally:
        with suppress(OSError):
            if path.stat().st_ino == inode:
                path.unlink()


async def find_present(manifest: Path) -> dict[str, Any] | None:
    """Return what the process shows that runs this manifest; None if there is none.

    Raises PresenceError if the directory cannot be trusted, or the process gives no answer.
    """
    path = _socket_of(manifest)
    if path is None or not path.exists():
        return None
    received = b""
    try:
        with anyio.fail_after(PATIENCE):
            async with await anyio.connect_unix(path) as stream:
                async for part in stream:
                    received += part
                    if len(received) > LIMIT:
                        break  # and what is cut off cannot be read
    except TimeoutError as error:
        # It may be suspended, and is there all the same.
        said = f"the `harness dev` that runs this manifest does not answer ({path})"
        raise PresenceError(said) from error
    except (FileNotFoundError, ConnectionRefusedError):
        return None
    except (OSError, anyio.BrokenResourceError) as error:
        raise PresenceError(f"{path}: {error!r}") from error
    return _read(received, path)


def _read(received: bytes, path: Path) -> dict[str, Any]:
    """Return what was told."""
    try:
        told = as_dict(json.loads(received))
        if told is None:
            raise ValueError("it is not a mapping")
    except (ValueError, RecursionError) as error:
        said = f"what the running `harness dev` answers cannot be read ({path}): {error}"
        raise PresenceError(said) from error
    return told


def _socket_of(manifest: Path) -> Path | None:
    """Return where the socket for a manifest is; None where there are no such sockets."""
    if not hasattr(socket, "AF_UNIX") or not hasattr(os, "getuid"):
        return None
    name = hashlib.sha256(os.fsencode(os.path.realpath(manifest))).hexdigest()[:16]
    return _directory() / f"{name}.sock"


def _directory() -> Path:
    """Return the directory of sockets, which belongs to this user alone."""
    given = os.environ.get("XDG_RUNTIME_DIR")
    shared = Path(tempfile.gettempdir()) / f"harness-{os.getuid()}"
    directory = Path(given) / "harness" if given else shared
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
        facts = directory.lstat()
    except OSError as error:
        raise PresenceError(f"{directory}: {error.strerror}") from error
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid() or facts.st_mode & 0o077:
        raise PresenceError(
            f"{directory} is not a directory that belongs to this user alone: remove it, or set "
            "XDG_RUNTIME_DIR to one that does"
        )
    return directory
