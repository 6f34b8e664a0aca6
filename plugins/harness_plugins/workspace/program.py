"""Running a program within bounds: no input, a limit of output, no process left when it ends."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence

import anyio
import attrs
from anyio.abc import ByteReceiveStream, Process

__all__ = ["Outcome", "run_program"]

_ERRORS = 10_000
"""Bytes kept of what a program says on its standard error."""


@attrs.frozen
class Outcome:
    """How a program ended and what it said; `is_cut` if it was ended for saying too much."""

    code: int
    output: bytes
    errors: bytes
    is_cut: bool = False

    @property
    def is_good(self) -> bool:
        """Whether the program succeeded, or was only ended because there was enough output."""
        return self.code == 0 or self.is_cut


async def run_program(
    command: Sequence[str], *, limit: int, environment: Mapping[str, str] | None = None
) -> Outcome | None:
    """Run a program and return what it said, at most `limit` bytes; None if there is none such.

    It has no terminal and no input. Whoever is cancelled here leaves no process behind, and no
    children of it either.
    """
    try:
        process = await anyio.open_process(
            command, stdin=subprocess.DEVNULL, env=environment, start_new_session=True
        )
    except OSError:
        return None
    async with process:
        try:
            output, errors = await _read_both(process, limit)
            is_cut = len(output) > limit
            if not is_cut:
                await process.wait()
        finally:
            _kill(process)
        code = await process.wait()
    return Outcome(code, bytes(output[:limit]), bytes(errors), is_cut)


async def _read_both(process: Process, limit: int) -> tuple[bytearray, bytearray]:
    output, errors = bytearray(), bytearray()
    assert process.stdout is not None
    assert process.stderr is not None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_drain, process.stderr, errors)
        await _fill(process.stdout, output, limit)
        if len(output) > limit:
            tasks.cancel_scope.cancel()
    return output, errors


async def _fill(stream: ByteReceiveStream, into: bytearray, limit: int) -> None:
    try:
        while len(into) <= limit:
            into += await stream.receive()
    except anyio.EndOfStream:
        pass


async def _drain(stream: ByteReceiveStream, into: bytearray) -> None:
    """Read on after enough was kept: a program whose pipe is full would wait for ever."""
    try:
        while True:
            received = await stream.receive()
            into += received[: _ERRORS - len(into)]
    except anyio.EndOfStream:
        pass


def _kill(process: Process) -> None:
    if process.returncode is None:
        try:
            os.killpg(process.pid, signal.SIGKILL)  # its session: children too
        except (ProcessLookupError, PermissionError):
            process.kill()
