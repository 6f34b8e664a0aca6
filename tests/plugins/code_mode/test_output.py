"""Output: what is printed is told from the mark behind it, however the bytes arrive."""

from __future__ import annotations

import math
from typing import Any

import anyio
import pytest
from harness_plugins.code_mode.output import Flood, Output

pytestmark = pytest.mark.asyncio

MARK = b"\0mark;"


async def read(*chunks: bytes, most: int = 100) -> Output:
    """Return what is read of these chunks."""
    send, receive = anyio.create_memory_object_stream[bytes](math.inf)
    stream: Any = receive
    output = Output(MARK, most)
    async with send, receive:
        for chunk in chunks:
            await send.send(chunk)
        send.close()
        await output.read(stream)
    return output


async def test_the_mark_is_found_wherever_the_chunks_end() -> None:
    """Cut at any place, or at every one; bytes that look like its beginning are output."""
    for said in (b"", b"text", b"\0", b"\0mark", b"\0\0mark text \0mar", "é".encode()):
        whole = said + MARK
        for at in range(len(whole) + 1):
            output = await read(whole[:at], whole[at:])
            assert (output.text, output.is_whole) == (said.decode(), True)
        output = await read(*(bytes([one]) for one in whole))
        assert (output.text, output.size) == (said.decode(), len(said))


async def test_what_came_before_the_end_of_all_output_is_output() -> None:
    """The process was lost: there is no mark."""
    output = await read(b"so f", b"ar\0ma")
    assert (output.text, output.is_whole) == ("so far\0ma", True)


async def test_only_so_much_is_kept_and_far_too_much_is_an_error() -> None:
    """The rest is counted."""
    output = await read(b"x" * 3000, b"y" * 3000, MARK)
    assert (output.text, output.dropped, output.size) == ("x" * 400, 5600, 6000)
    with pytest.raises(Flood):
        await read(*[b"x" * 3000] * 10)
