"""What the two protocols look like on the wire, and adapters in front of a server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from harness_plugins import llm_anthropic, llm_openai
from harness_plugins.llm.api import (
    Message,
    ModelAdapter,
    ModelEvent,
    ModelRequest,
    Reply,
    find_adapter,
)

from harness_core import Context

from .server import Answer, ModelServer, Respond

KEY = "sk-very-secret-1234567890"
HELLO = ModelRequest("m-1", messages=[Message("user", "Hello")])


def chunk(delta: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """Return a chunk of a chat completion; `finish` and `usage` at the end of one."""
    finish = more.pop("finish", None)
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return {
        "id": "c1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m-1-2026",
        "choices": choices,
        **more,
    }


def openai_says(*chunks: Any, headers: Mapping[str, str] | None = None) -> Respond:
    """Return an answer of these chunks, with a proper end."""

    async def respond(answer: Answer) -> None:
        await answer.head(headers={"content-type": "text/event-stream", **(headers or {})})
        for one in chunks:
            await answer.event(one)
        await answer.event("[DONE]")
        await answer.end()

    return respond


def fragment(index: int, arguments: str, **more: Any) -> dict[str, Any]:
    """Return a delta with a piece of a tool call."""
    called = {"arguments": arguments, **({"name": more.pop("name")} if "name" in more else {})}
    return {"tool_calls": [{"index": index, "function": called, **more}]}


def anthropic_says(*events: Any, headers: Mapping[str, str] | None = None) -> Respond:
    """Return an answer of these events."""

    async def respond(answer: Answer) -> None:
        await answer.head(headers={"content-type": "text/event-stream", **(headers or {})})
        for one in events:
            await answer.event(one, one["type"])
        await answer.end()

    return respond


def message_start(**usage: int) -> dict[str, Any]:
    """Return the event that begins a message."""
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m-1-2026",
        "content": [],
        "stop_reason": None,
        "usage": {"input_tokens": 0, "output_tokens": 0, **usage},
    }
    return {"type": "message_start", "message": message}


def block(index: int, content: Mapping[str, Any], *deltas: Mapping[str, Any]) -> list[Any]:
    """Return the events of one block of content."""
    start = {"type": "content_block_start", "index": index, "content_block": content}
    stop = {"type": "content_block_stop", "index": index}
    middle = [{"type": "content_block_delta", "index": index, "delta": one} for one in deltas]
    return [start, *middle, stop]


def message_end(reason: str = "end_turn", **usage: int) -> list[dict[str, Any]]:
    """Return the events that end a message."""
    delta = {"stop_reason": reason, "stop_sequence": None}
    return [
        {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 0, **usage}},
        {"type": "message_stop"},
    ]


OPENAI_HELLO = openai_says(chunk({"content": "Hi"}), chunk({}, finish="stop"))
ANTHROPIC_HELLO = anthropic_says(
    message_start(),
    *block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": "Hi"}),
    *message_end(),
)

PLUGINS: dict[str, Any] = {"openai": llm_openai, "anthropic": llm_anthropic}
HELLOS: dict[str, Respond] = {"openai": OPENAI_HELLO, "anthropic": ANTHROPIC_HELLO}
PATHS = {"openai": "/v1", "anthropic": ""}


@asynccontextmanager
async def adapter_for(kind: str, server: ModelServer, **config: Any) -> AsyncIterator[ModelAdapter]:
    """Open a tree with an adapter that asks the server."""
    async with Context() as root:
        await root.plugin(PLUGINS[kind], base_url=server.url + PATHS[kind], **config)
        yield find_adapter(root)


async def read(adapter: ModelAdapter, request: ModelRequest = HELLO) -> list[ModelEvent]:
    """Return all events of one reply."""
    return [event async for event in adapter.stream(request)]


async def reply_of(adapter: ModelAdapter, request: ModelRequest = HELLO) -> Reply:
    """Return the last event of one reply, which is the whole."""
    events = await read(adapter, request)
    assert [type(event) for event in events].count(Reply) == 1
    last = events[-1]
    assert isinstance(last, Reply)
    return last
