"""A server as a process of ours: JSON messages, one a line, over its standard input and output.

It stands in for the SDK's own transport for what that does not do: lines that are no protocol are
logged and passed over; the standard error goes to the log; the end of the process ends the
connection even if a child holds its output open; and the whole family of processes ends with it.
"""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Mapping
from types import TracebackType
from typing import Any

import anyio
import attrs
from anyio.abc import Process
from mcp import types
from mcp.shared.message import SessionMessage

from .family import Family, end_family
from .log import Lines, ServerLog, logger

__all__ = ["LONGEST_MESSAGE", "Launch", "ServerProcess", "Streams"]

LONGEST_MESSAGE = 32 * 1024 * 1024
"""Bytes of one message; longer ones are left out."""

_BUFFER = 256
"""Messages on their way to a server that does not read; what comes later waits."""

_LOOK = 0.2
"""Seconds between two looks whether the process has ended. The end of its output says so at once,
unless a child of it holds that open."""

_MARK = "HARNESS_MCP_SERVER"
"""The variable in the environment of a server and its children that tells whose they are."""

Streams = tuple[Any, Any]
"""What the SDK reads messages from, and what it writes them to."""


@attrs.frozen
class Launch:
    """What to start, where, with which environment, and how patiently to end it (seconds)."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    directory: str | None
    patience: float


class ServerProcess:
    """An asynchronous context manager: the running process, as a pair of message streams."""

    def __init__(self, launch: Launch, log: ServerLog) -> None:
        self._launch = launch
        self._log = log
        self._output_ended = anyio.Event()
        self._errors_ended = anyio.Event()
        self._process: Process
        self._tasks: Any
        self._to_session, self._from_server = anyio.create_memory_object_stream[
            SessionMessage | Exception
        ](0)
        self._to_server, self._from_session = anyio.create_memory_object_stream[SessionMessage](
            _BUFFER
        )

    async def __aenter__(self) -> Streams:
        mark = secrets.token_hex(8)
        try:
            with anyio.CancelScope(shield=True):  # half a start would be a process without owner
                self._process = await anyio.open_process(
                    self._launch.command,
                    env={**self._launch.environment, _MARK: mark},
                    cwd=self._launch.directory,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    start_new_session=True,
                )
        except BaseException:
            self._close_streams()
            raise
        # No await until the group is entered, for the same reason.
        self._family = Family(self._process.pid, f"{_MARK}={mark}")
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        for task in (self._read, self._write, self._read_errors, self._watch):
            self._tasks.start_soon(task)
        return self._from_server, self._to_server

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        with anyio.CancelScope(shield=True):
            await end_family(self._process, self._family, self._launch.patience)
            with anyio.move_on_after(_LOOK):  # its last words
                await self._output_ended.wait()
                await self._errors_ended.wait()
        self._tasks.cancel_scope.cancel()
        try:
            result: bool | None = await self._tasks.__aexit__(kind, error, traceback)
        finally:
            self._close_streams()
            with anyio.move_on_after(self._launch.patience, shield=True):
                await self._process.aclose()
            self._log.flush()
        return result

    def _close_streams(self) -> None:
        for stream in (self._to_session, self._from_server, self._to_server, self._from_session):
            stream.close()

    def last_words(self) -> str:
        """Say how the process ended, if it did, and what it said last."""
        code = self._process.returncode if "_process" in self.__dict__ else None
        how = "" if code is None else f"the process ended with {_told(code)}"
        words = self._log.last_words()
        return "; ".join(filter(None, (how, f"it said last:\n{words}" if words else "")))

    # Tasks

    async def _read(self) -> None:
        lines = Lines(LONGEST_MESSAGE)
        stdout = self._process.stdout
        assert stdout is not None
        is_heard = True
        try:
            async for chunk in stdout:
                for line in lines.feed(chunk):
                    if is_heard:
                        is_heard = await self._deliver(line)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            pass  # the same as its end
        finally:
            self._output_ended.set()
            self._to_session.close()
            if lines.left_out:
                logger.warning("%d messages were too long and were left out", lines.left_out)

    async def _deliver(self, line: bytes) -> bool:
        """Hand a message to the session; return whether that listens still."""
        try:
            message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            self._log.say("no protocol on stdout", line)
            return True
        try:
            await self._to_session.send(SessionMessage(message))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return False  # the output is read on, lest the server wait for a reader at its end
        return True

    async def _write(self) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        is_read = True
        async for item in self._from_session:
            if not is_read:
                continue  # who writes to it is told of the end by the reader
            data = item.message.model_dump_json(by_alias=True, exclude_unset=True)
            try:
                await stdin.send(f"{data}\n".encode())
            except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
                is_read = False

    async def _read_errors(self) -> None:
        lines = Lines(LONGEST_MESSAGE)
        stderr = self._process.stderr
        assert stderr is not None
        try:
            async for chunk in stderr:
                for line in lines.feed(chunk):
                    self._log.say("stderr", line)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            pass
        finally:
            self._errors_ended.set()

    async def _watch(self) -> None:
        while self._process.returncode is None:  # noqa: ASYNC110 - nobody tells of it
            await anyio.sleep(_LOOK)
        with anyio.move_on_after(_LOOK):  # what is in the pipe still
            await self._output_ended.wait()
        self._to_session.close()


def _told(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"signal {-code}"
