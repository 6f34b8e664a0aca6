"""Lines of the input, read without blocking the event loop, and without a thread that lingers."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator

import anyio

__all__ = ["read_lines"]


async def read_lines(descriptor: int) -> AsyncGenerator[str, None]:
    """Yield the lines of a terminal, pipe or file, without their ends; bad bytes become U+FFFD."""
    can_wait = True
    rest = b""
    while True:
        if can_wait:
            try:
                await anyio.wait_readable(descriptor)
            except PermissionError:  # of a plain file, or /dev/null, which make nobody wait
                can_wait = False
        data = os.read(descriptor, 65536)
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield _text(line)
        if not data:
            if rest:
                yield _text(rest)
            return


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip("\r")
