"""Messages to and from the process that runs code: JSON with its length in front."""

from __future__ import annotations

import json
import struct
from typing import Any, TypeAlias, cast

import anyio
from anyio.abc import SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

__all__ = ["Connection", "Disconnected", "Message"]

Message: TypeAlias = "dict[str, Any]"

LARGEST = 64 * 1024 * 1024
"""Bytes of one message from the process; more is taken for a fault."""


class Disconnected(Exception):
    """The other side is gone, or says what is no message."""


class Connection:
    """One side of the conversation. Messages of several tasks go out whole, one by one."""

    def __init__(self, stream: SocketStream) -> None:
        self._stream = stream
        self._buffered = BufferedByteReceiveStream(stream)
        self._sending = anyio.Lock()

    async def send(self, message: Message) -> None:
        """Send a message; raise Disconnected, or ValueError for what JSON cannot say."""
        data = json.dumps(message, allow_nan=False).encode()
        try:
            async with self._sending:
                await self._stream.send(struct.pack(">I", len(data)) + data)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            raise Disconnected from None

    async def receive(self) -> Message:
        """Return the next message; raise Disconnected if there is none any more."""
        try:
            (size,) = struct.unpack(">I", await self._buffered.receive_exactly(4))
            if size > LARGEST:
                raise Disconnected(f"a message of {size} bytes")
            message: object = json.loads(await self._buffered.receive_exactly(size))
        except (
            anyio.IncompleteRead,
            anyio.EndOfStream,
            anyio.BrokenResourceError,
            anyio.ClosedResourceError,
            ValueError,
        ):
            raise Disconnected from None
        if not isinstance(message, dict):
            raise Disconnected("a message that is no object")
        return cast("Message", message)

    async def close(self) -> None:
        """Close this side."""
        await self._stream.aclose()
