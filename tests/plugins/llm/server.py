"""A model server over real TCP: it records what it is asked, and answers byte by byte.

What an answer does is a function of the test, so that it can be late, cut off, or nonsense.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import attrs
from anyio.abc import SocketAttribute, SocketStream

_CLOSED = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)
SSE = {"content-type": "text/event-stream"}


@attrs.frozen
class Asked:
    """One request, as it came."""

    path: str
    headers: Mapping[str, str]
    body: Any


class Answer:
    """The server's side of one request."""

    def __init__(self, stream: SocketStream, asked: Asked) -> None:
        self._stream = stream
        self.asked = asked

    async def head(self, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        """Begin a response whose body comes in chunks."""
        fields = {**(SSE if headers is None else headers), "transfer-encoding": "chunked"}
        lines = [f"HTTP/1.1 {status} Said", *(f"{name}: {value}" for name, value in fields.items())]
        await self._stream.send(("\r\n".join(lines) + "\r\n\r\n").encode())

    async def write(self, text: str | bytes) -> None:
        """Send one chunk of the body."""
        raw = text.encode() if isinstance(text, str) else text
        await self._stream.send(f"{len(raw):x}\r\n".encode() + raw + b"\r\n")

    async def event(self, data: Any, event: str | None = None) -> None:
        """Send one server-sent event."""
        named = f"event: {event}\n" if event else ""
        await self.write(f"{named}data: {data if isinstance(data, str) else json.dumps(data)}\n\n")

    async def end(self) -> None:
        """End the body as HTTP wants it."""
        await self._stream.send(b"0\r\n\r\n")

    async def json(self, status: int, data: Any, headers: Mapping[str, str] | None = None) -> None:
        """Answer with a whole JSON document."""
        await self.head(status, {"content-type": "application/json", **(headers or {})})
        await self.write(json.dumps(data))
        await self.end()

    async def cut(self) -> None:
        """Close the connection in the middle of it all."""
        await self._stream.aclose()

    async def gone(self) -> None:
        """Wait until the client has closed the connection."""
        try:
            await self._stream.receive()
        except _CLOSED:
            return
        raise AssertionError("the client sent something")


Respond = Callable[[Answer], Awaitable[None]]


class ModelServer:
    """Answers requests with what is in `answers`, in order; the last one answers all others."""

    def __init__(self, url: str, answers: list[Respond]) -> None:
        self.url = url
        self.answers = answers
        self.asked: list[Asked] = []
        self.connections = 0

    async def serve(self, stream: SocketStream) -> None:
        """Serve one connection."""
        self.connections += 1
        async with stream:
            rest = b""
            while True:
                try:
                    asked, rest = await _request(stream, rest)
                except _CLOSED:
                    return
                self.asked.append(asked)
                respond = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                try:
                    await respond(Answer(stream, asked))
                except _CLOSED:
                    return


async def _request(stream: SocketStream, rest: bytes) -> tuple[Asked, bytes]:
    while b"\r\n\r\n" not in rest:
        rest += await stream.receive()
    head, _, body = rest.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {
        name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
    }
    length = int(headers.get("content-length", 0))
    while len(body) < length:
        body += await stream.receive()
    data = json.loads(body[:length]) if length else None
    return Asked(first.split()[1], headers, data), body[length:]


@asynccontextmanager
async def serving(*answers: Respond) -> AsyncIterator[ModelServer]:
    """Run a server until the block ends. The whole block has ten seconds."""
    with anyio.fail_after(10):
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        port = listener.extra(SocketAttribute.local_port)
        server = ModelServer(f"http://127.0.0.1:{port}", list(answers))
        async with listener, anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, server.serve)
            yield server
            tasks.cancel_scope.cancel()
