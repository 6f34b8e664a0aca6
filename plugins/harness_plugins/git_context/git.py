"""Running the real `git`: asynchronously, bounded, never asking anybody anything."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping

import anyio
from anyio.abc import Process

__all__ = ["run_git"]

_SAFE = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.quotePath=off")
"""Settings of a repository that would run programs of the repository's choice are turned off."""


def _environment() -> Mapping[str, str]:
    """Return an environment in which git asks nothing, and looks at the directory it is given.

    Inside a hook, GIT_DIR and its kin point to another repository.
    """
    kept = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    return {
        **kept,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_PAGER": "cat",
        "GIT_ASKPASS": "true",
        "SSH_ASKPASS": "true",
        "LC_ALL": "C",
    }


async def run_git(directory: str, *arguments: str, limit: int) -> bytes | None:
    """Return at most `limit` bytes of what git says; None if git is missing or refuses."""
    command = ["git", *_SAFE, "-C", directory, *arguments]
    try:
        process = await anyio.open_process(
            command,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=_environment(),
        )
    except OSError:
        return None
    async with process:
        output = await _read(process, limit)
        if len(output) > limit:
            process.kill()
            return output[:limit]
        await process.wait()
    return output if process.returncode == 0 else None


async def _read(process: Process, limit: int) -> bytes:
    output = bytearray()
    assert process.stdout is not None
    while len(output) <= limit:
        try:
            output += await process.stdout.receive()
        except anyio.EndOfStream:
            break
    return bytes(output)
