"""The other process: runs the code of a model, and asks for each call of a tool to be made.

A script of its own, started by `worker` as `python -I runner.py SOCKET MEMORY`; it imports nothing
of this project. Messages are JSON with their length in front, over a socket. What the code prints
goes to stdout and stderr, which the parent reads. The parent's end of stdin is its life: when that
is closed, this process group ends. It uses asyncio, as the code of models does.
"""

from __future__ import annotations

import _thread
import ast
import asyncio
import contextlib
import inspect
import io
import json
import os
import signal
import socket
import struct
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias, cast

Message: TypeAlias = "dict[str, Any]"

FILE = "<code>"
LONGEST_ERROR = 4000
"""Characters of an error that are told."""
OUT_OF_MEMORY = 71
FAULTY = 70
"""What the process exits with when it cannot go on."""
PATIENCE = 1.0
"""Seconds that tasks which the code has left behind may take to end."""


class ToolError(Exception):
    """A call of a tool that failed, in the tool's words."""


class Closed(Exception):
    """The parent says nothing any more."""


def limit_memory(megabytes: int) -> None:
    """Let this process have so much memory and no more; and write no dumps of it."""
    try:
        import resource
    except ImportError:  # not on this system
        return
    size = megabytes * 1024 * 1024
    for what, most in ((resource.RLIMIT_AS, size), (resource.RLIMIT_CORE, 0)):
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(what, (most, most))


def end_the_group() -> None:
    """End this process and all that the code has started: nobody else is there to do it."""
    os.killpg(0, signal.SIGKILL)


def end_with_the_parent() -> None:
    """Take stdin as what tells that the parent lives, and give the code an empty one."""
    life = os.dup(0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)

    def wait() -> None:
        with contextlib.suppress(OSError):
            os.read(life, 1)
        end_the_group()

    _thread.start_new_thread(wait, ())


class Runner:
    """Runs one piece of code after the other, each in a namespace of its own."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.process = os.getpid()
        self.home = os.getcwd()
        self.output = os.dup(1)
        self.answers: dict[int, asyncio.Future[Message]] = {}
        self.calls = 0
        self.writer: asyncio.StreamWriter
        self.running: asyncio.Task[None] | None = None
        """The run under way, so that it is not collected."""

    async def serve(self) -> None:
        """Run what comes, until nothing comes any more."""
        reader, self.writer = await asyncio.open_connection(sock=self.connection)
        self.send({"kind": "ready"})
        while True:
            message = await receive(reader)
            if message["kind"] == "run":
                self.running = asyncio.create_task(self.run(message), name="run")
                self.running.add_done_callback(stop_if_failed)
            elif message["kind"] == "answer":
                waiting = self.answers.pop(message["call"], None)
                if waiting is not None and not waiting.done():
                    waiting.set_result(message)

    def send(self, message: Message) -> None:
        """Send a message."""
        self.end_if_copied()
        data = json.dumps(message, allow_nan=False).encode()
        self.writer.write(struct.pack(">I", len(data)) + data)

    def end_if_copied(self) -> None:
        """End this process if the code has made it by forking: it must not speak for the first."""
        if os.getpid() != self.process:
            os._exit(0)

    # One run

    async def run(self, message: Message) -> None:
        """Run code, and tell what came of it."""
        self.send({"kind": "started"})
        self.open_output()
        os.chdir(self.home)
        mine = asyncio.all_tasks()
        threads = threading.active_count()
        ended: Message = {"kind": "ended"}
        try:
            value = await self.evaluate(message["code"], message["functions"])
            ended.update(shown(value, message["most"]))
            del value
        except BaseException as error:  # whatever it is, the parent is told
            if isinstance(error, SystemExit) and not error.code:
                pass
            else:
                ended["error"] = described(error, message["code"])
                ended["spent"] = isinstance(error, MemoryError)
        self.end_if_copied()
        left = await self.end_tasks(mine)
        if left or threading.active_count() > threads or has_children():
            ended["spent"] = True
        self.close_output(message["mark"])
        self.send(ended)

    async def evaluate(self, code: str, functions: list[Message]) -> Any:
        """Run code and return the value of its last line, awaited if it can be."""
        *body, value = split(code)
        names: dict[str, Any] = {
            "__name__": "__main__",
            "__builtins__": __builtins__,
            "asyncio": asyncio,
            "ToolError": ToolError,
        }
        names.update({one["name"]: self.function(one) for one in functions})
        found: Any = None
        for part in [*body, value]:
            found = None
            if part is not None:
                found = eval(part, names)
                if part.co_flags & inspect.CO_COROUTINE:
                    found = await found
        if inspect.isawaitable(found):
            found = await found
        return found

    async def end_tasks(self, mine: set[asyncio.Task[Any]]) -> set[asyncio.Task[Any]]:
        """Cancel the tasks that the code has left, and return those that do not end."""
        left = asyncio.all_tasks() - mine
        for task in left:
            task.cancel()
        if left:
            _, left = await asyncio.wait(left, timeout=PATIENCE)
        self.answers.clear()
        return left

    def open_output(self) -> None:
        """Let stdout and stderr go where they went at first, and stdin be empty."""
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
        for number, name in ((1, "stdout"), (2, "stderr")):
            os.dup2(self.output, number)
            # Not buffered: what the code prints stands in the order in which it was printed, and is
            # there when the process is lost.
            raw: Any = io.FileIO(number, "wb", closefd=False)
            stream = io.TextIOWrapper(raw, "utf-8", "backslashreplace", write_through=True)
            setattr(sys, name, stream)

    def close_output(self, mark: str) -> None:
        """Write out what is printed, and the mark behind it."""
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # the code may have put anything there
                stream.flush()
        os.write(self.output, mark.encode())

    # Calls

    def function(self, described: Message) -> Callable[..., Coroutine[Any, Any, Any]]:
        """Return the function that stands for a tool."""
        tool: str = described["tool"]
        parameters: list[list[str]] = described["parameters"]
        in_schema = {code_name: name for name, code_name in parameters}

        async def call(*args: Any, **kwargs: Any) -> Any:
            if len(args) > len(parameters):
                most = len(parameters)
                raise TypeError(f"{call.__name__}() takes {most} arguments, got {len(args)}")
            arguments = {parameters[at][0]: value for at, value in enumerate(args)}
            for code_name, value in kwargs.items():
                name = in_schema.get(code_name, code_name)
                if name in arguments:
                    raise TypeError(f"{call.__name__}() got {code_name!r} twice")
                arguments[name] = value
            # `...` stands in a signature for what is left out.
            given = {name: value for name, value in arguments.items() if value is not ...}
            return await self.call(tool, given)

        call.__name__ = call.__qualname__ = described["name"]
        return call

    async def call(self, tool: str, arguments: Message) -> Any:
        """Have a tool called; return what it returned, or raise ToolError."""
        self.calls += 1
        number = self.calls
        try:
            self.send({"kind": "call", "call": number, "tool": tool, "arguments": arguments})
        except (TypeError, ValueError) as error:
            raise TypeError(f"arguments of a tool must be JSON data: {error}") from None
        answer = self.answers[number] = asyncio.get_running_loop().create_future()
        try:
            message = await answer
        except asyncio.CancelledError:
            if self.answers.pop(number, None) is not None:
                self.send({"kind": "cancel", "call": number})
            raise
        if "error" in message:
            raise ToolError(message["error"])
        return message["value"]


def stop_if_failed(task: asyncio.Task[None]) -> None:
    """End the process if a run could not even tell what came of it."""
    error = None if task.cancelled() else task.exception()
    if task.cancelled() or error is not None:
        os._exit(OUT_OF_MEMORY if isinstance(error, MemoryError) else FAULTY)


async def receive(reader: asyncio.StreamReader) -> Message:
    """Return the next message; raise Closed if there is none any more."""
    try:
        (size,) = struct.unpack(">I", await reader.readexactly(4))
        message: Message = json.loads(await reader.readexactly(size))
    except (asyncio.IncompleteReadError, ConnectionError):
        raise Closed from None
    return message


def split(code: str) -> list[Any]:
    """Compile code: what is to be run, and the last line if it has a value, else None."""
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    tree = ast.parse(code, FILE)
    last: Any = None
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        last = ast.Expression(tree.body.pop().value)  # type: ignore[attr-defined]
    body = compile(tree, FILE, "exec", flags)
    return [body, compile(last, FILE, "eval", flags) if last is not None else None]


def shown(value: Any, most: int) -> Message:
    """Return a value as JSON data, if it can be and is not too large, and as a text."""
    if value is None:
        return {}
    try:
        data = json.dumps(value, ensure_ascii=False, allow_nan=False)
        json.loads(data)
    except (TypeError, ValueError, RecursionError):
        text = repr(value)
        return {"text": text[:most], "size": len(text)}
    text = value if isinstance(value, str) else data
    ended: Message = {"text": text[:most], "size": len(text)}
    if len(data) <= 10 * most:
        ended["value"] = value
    return ended


def described(error: BaseException, code: str) -> str:
    """Return kind and message of an error, and the lines of the code that it came through."""
    lines: list[str] = []
    source = code.split("\n")
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename == FILE and frame.lineno is not None:
            said = source[frame.lineno - 1].strip() if frame.lineno <= len(source) else ""
            lines.append(f"line {frame.lineno}, in {frame.name}: {said}")
    if len(lines) > 12:
        lines[6:-6] = [f"({len(lines) - 12} more)"]
    kind = type(error).__name__
    if isinstance(error, SyntaxError):
        lines.append(f"{kind}: {error.msg} (line {error.lineno})")
    else:
        try:
            text = str(error)
        except Exception:  # its own __str__ is at fault
            text = ""
        lines.append(f"{kind}: {text}" if text else kind)
    if isinstance(error, BaseExceptionGroup):
        several = cast("BaseExceptionGroup[BaseException]", error)
        lines += [f"- {described(one, code)}" for one in several.exceptions]
    if "asyncio.run() cannot be called from a running event loop" in lines[-1]:
        lines.append("`await` works at the top level: write `await main()`")
    told = "\n".join(lines)
    return told if len(told) <= LONGEST_ERROR else f"{told[:LONGEST_ERROR]} ..."


def has_children() -> bool:
    """Whether the code has left a process behind that still runs."""
    try:
        while True:
            process, _ = os.waitpid(-1, os.WNOHANG)
            if process == 0:
                return True
    except ChildProcessError:
        return False


def one_line_warning(message: Warning | str, category: type[Warning], *_: object) -> str:
    """Say what a warning says, and not in which file of ours it was noticed."""
    return f"{category.__name__}: {message}\n"


async def main(connection: socket.socket) -> None:
    """Serve the parent. When it is gone, so is all that the code has started.

    Its end may show here before it shows at stdin.
    """
    try:
        await Runner(connection).serve()
    except Closed:
        end_the_group()


if __name__ == "__main__":
    parent = socket.socket(fileno=int(sys.argv[1]))
    parent.set_inheritable(False)
    end_with_the_parent()
    limit_memory(int(sys.argv[2]))
    sys.argv[:] = [""]
    warnings.formatwarning = one_line_warning  # type: ignore[assignment]
    code = FAULTY
    try:
        asyncio.run(main(parent))
        code = 0
    except MemoryError:
        code = OUT_OF_MEMORY
    finally:
        os._exit(code)
