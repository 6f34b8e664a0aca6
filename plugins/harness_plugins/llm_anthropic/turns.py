"""Messages as the Messages API wants them: two roles in turn, content in blocks, none blank."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, cast

from harness_plugins.llm.api import Message, Thinking, ToolRequest
from harness_plugins.llm.remote.api import ToolNames, plain_id

__all__ = ["turns_of"]


def turns_of(messages: Iterable[Message], provider: str, names: ToolNames) -> list[dict[str, Any]]:
    """Return the messages, neighbours of one role merged.

    The results of tools stand first in their turn, as the API asks. Thoughts go back to the
    provider that had them, and to no other.
    """
    turns: list[dict[str, Any]] = []
    for message in messages:
        role = "assistant" if message.role == "assistant" else "user"
        blocks = list(_blocks(message, provider, names))
        if not blocks:
            continue
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        else:
            turns.append({"role": role, "content": blocks})
    for turn in turns:
        if turn["role"] == "user":
            turn["content"] = sorted(turn["content"], key=_place)
    return turns


def _place(block: dict[str, Any]) -> int:
    return 0 if block["type"] == "tool_result" else 1


def _blocks(message: Message, provider: str, names: ToolNames) -> Iterator[dict[str, Any]]:
    if message.role == "tool":
        yield _result(message)
        return
    said = 0
    for thought in message.thinking:
        if thought.provider == provider and thought.signature:
            at = max(said, thought.at)
            yield from _text(message.text[said:at])
            yield _thought(thought)
            said = at
    yield from _text(message.text[said:])
    for request in message.requests:
        yield {
            "type": "tool_use",
            "id": plain_id(request.id),
            "name": names.sent(request.name),
            "input": _input(request),
        }


def _text(text: str) -> Iterator[dict[str, Any]]:
    if text.strip():
        yield {"type": "text", "text": text}


def _result(message: Message) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": plain_id(message.call_id)}
    if message.text.strip():
        block["content"] = message.text
    if message.is_error:
        block["is_error"] = True
    return block


def _thought(thought: Thinking) -> dict[str, Any]:
    if thought.is_redacted:
        return {"type": "redacted_thinking", "data": thought.signature}
    return {"type": "thinking", "thinking": thought.text, "signature": thought.signature}


def _input(request: ToolRequest) -> dict[str, Any]:
    """Return the arguments as an object: the API takes no text, also where it was no JSON."""
    try:
        found: object = json.loads(request.arguments)
    except ValueError:
        found = None
    if isinstance(found, dict):
        return cast("dict[str, Any]", found)
    return {"INVALID_JSON": request.arguments}
