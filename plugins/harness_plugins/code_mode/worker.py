"""One process that runs code, one piece at a time, and asks for the calls of tools."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import anyio.to_thread
import attrs
from anyio.abc import Process, SocketStream

from harness_plugins.tools.api import ToolError

from .conversation import Call, Conversation
from .messages import Connection, Disconnected, Message
from .output import Flood, Output
from .processes import kill_tree

__all__ = ["Ended", "Limits", "Worker"]

RUNNER = Path(__file__).with_name("runner.py")

_PASSED_ON = ("HOME", "LANG", "LANGUAGE", "PATH", "TERM", "TMPDIR", "TZ")
"""What the process gets of the environment; the rest may hold keys and passwords."""

MARK_PATIENCE = 2.0
"""Seconds that the end of what was printed may be behind the end of the run."""

START_PATIENCE = 30.0
"""Seconds that a process may take until it can run code."""

OUT_OF_MEMORY = 71


@attrs.frozen
class Limits:
    """What one process may use: `memory` in megabytes, `output` in characters."""

    memory: int
    output: int
    directory: str | None = None
    environment: Mapping[str, str] = attrs.field(factory=dict[str, str])


@attrs.frozen
class Ended:
    """What came of one run. `text` is the value of the last line, None if there is none.

    `fault` says why the process could not go on, where it could not; then there is no value.
    """

    text: str | None = None
    size: int = 0
    value: Any = None
    error: str | None = None
    fault: str | None = None


class Worker:
    """A process that runs code. `is_spent` says that it should not be used again."""

    def __init__(self, process: Process, connection: Connection, limits: Limits, home: str) -> None:
        self._process = process
        self._connection = connection
        self._limits = limits
        self._home = home
        self.is_spent = False
        self._is_ended = False
        self.printed = Output(b"", 0)
        """What the present run, or the last one, has printed."""

    @classmethod
    async def start(cls, limits: Limits) -> Worker:
        """Start a process. It has a directory of its own, which goes with it."""
        home = tempfile.mkdtemp(prefix="harness-code-")
        ours, theirs = socket.socketpair()
        # A process that is being started cannot be left half-way: nobody would end it.
        with anyio.CancelScope(shield=True):
            try:
                process = await anyio.open_process(
                    [sys.executable, "-I", str(RUNNER), str(theirs.fileno()), str(limits.memory)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    cwd=limits.directory or home,
                    env=_environment(limits.environment),
                    start_new_session=True,
                    pass_fds=[theirs.fileno()],
                )
            except BaseException as error:
                ours.close()
                shutil.rmtree(home, ignore_errors=True)
                if isinstance(error, OSError):
                    text = f"no process could be started to run the code: {error}"
                    raise ToolError(text) from error
                raise
            finally:
                theirs.close()
            stream = await SocketStream.from_socket(ours)
            return cls(process, Connection(stream), limits, home)
        raise AssertionError("nobody cancels that scope")

    async def wait_ready(self) -> None:
        """Wait until the process can run code; raise ToolError if it cannot."""
        try:
            with anyio.fail_after(START_PATIENCE):
                await self._connection.receive()
        except TimeoutError:
            raise ToolError("no process could be started to run the code in time") from None
        except Disconnected:
            fault = (await self._fault()).fault
            raise ToolError(f"no process could be started to run the code: {fault}") from None

    @property
    def pid(self) -> int:
        """The number of the process, which leads a group of that number."""
        return self._process.pid

    async def run(self, code: str, functions: list[Message], call: Call) -> Ended | None:
        """Run code, with `call(tool, arguments)` for the calls of tools that it makes.

        Returns None if the process was gone before it began. However this ends, by a cancellation
        too, a worker whose run is not over `is_spent`.
        """
        self.is_spent = True
        mark = f"\0{uuid4().hex}\0"
        output = self.printed = Output(mark.encode(), self._limits.output)
        run: Message = {
            "kind": "run",
            "code": code,
            "functions": functions,
            "mark": mark,
            "most": self._limits.output,
        }
        conversation = Conversation(self._connection, call)
        flooded = False

        async def read_output() -> None:
            nonlocal flooded
            assert self._process.stdout is not None
            try:
                await output.read(self._process.stdout)
            except Flood:
                flooded = True
                tasks.cancel_scope.cancel()
            all_read.set()

        all_read = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read_output)
            await conversation.hold(run)
            with anyio.move_on_after(MARK_PATIENCE):
                await all_read.wait()
            tasks.cancel_scope.cancel()
        if flooded:
            return Ended(fault="it printed without an end, and was ended")
        ended = conversation.ended
        if ended is None:
            return await self._fault() if conversation.has_started else None
        self.is_spent = bool(ended.get("spent")) or not output.is_whole
        return Ended(
            ended.get("text"), ended.get("size", 0), ended.get("value"), ended.get("error")
        )

    async def _fault(self) -> Ended:
        """Say how the process has ended."""
        with anyio.move_on_after(MARK_PATIENCE):
            await self._process.wait()
        code = self._process.returncode
        if code == OUT_OF_MEMORY:
            return Ended(fault=f"it used more than {self._limits.memory} MB of memory")
        if code is None:
            return Ended(fault="it said what could not be understood, and was ended")
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        return Ended(fault=f"it ended {how}")

    async def end(self) -> None:
        """Kill the process with all it has started, wait for it, and let go of all it had."""
        if self._is_ended:
            return
        self._is_ended = True
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(kill_tree, self.pid)
            await self._process.aclose()
            await self._connection.close()
            await anyio.to_thread.run_sync(lambda: shutil.rmtree(self._home, ignore_errors=True))


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    kept = {
        key: value
        for key, value in os.environ.items()
        if key in _PASSED_ON or key.startswith("LC_")
    }
    return {**kept, **more}
