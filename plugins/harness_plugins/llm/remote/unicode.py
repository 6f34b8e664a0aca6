"""Text that UTF-8 can carry.

Halves of a surrogate pair get into a text by file names, and by servers that cut a character in
two. One of them in a history would make every further request fail.
"""

from __future__ import annotations

from typing import Any, cast

import attrs

from ..messages import Message
from ..stream import ModelEvent, Reply, TextDelta, ThinkingDelta, ToolRequestDelta

__all__ = ["carried", "carried_data", "carried_event"]


def carried(text: str) -> str:
    """Return a text whose halves that belong together are one, and others a mark for it."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def carried_data(data: Any) -> Any:
    """Return JSON data whose texts are all carried."""
    if isinstance(data, str):
        return carried(data)
    if isinstance(data, dict):
        mapping = cast("dict[str, Any]", data)
        return {carried(key): carried_data(value) for key, value in mapping.items()}
    if isinstance(data, list):
        items = cast("list[object]", data)
        return [carried_data(item) for item in items]
    return data


def carried_event(event: ModelEvent) -> ModelEvent:
    """Return an event whose texts are all carried."""
    match event:
        case TextDelta() | ThinkingDelta():
            return attrs.evolve(event, text=carried(event.text))
        case ToolRequestDelta():
            return attrs.evolve(event, arguments=carried(event.arguments))
        case Reply():
            return attrs.evolve(event, message=_carried_message(event.message))


def _carried_message(message: Message) -> Message:
    return attrs.evolve(
        message,
        text=carried(message.text),
        requests=[attrs.evolve(one, arguments=carried(one.arguments)) for one in message.requests],
        thinking=[attrs.evolve(one, text=carried(one.text)) for one in message.thinking],
    )
