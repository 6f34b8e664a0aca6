"""What goes to a model and what comes back: a request, and the events of one reply."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

import attrs

from harness_core.prompt import ToolSchema

from .messages import Message

__all__ = [
    "ModelEvent",
    "ModelRequest",
    "RateLimit",
    "Reply",
    "StopReason",
    "TextDelta",
    "ThinkingDelta",
    "ToolRequestDelta",
    "Usage",
]

StopReason: TypeAlias = Literal["end", "tools", "length", "refused", "other"]


def _messages(given: Iterable[Message]) -> tuple[Message, ...]:
    return tuple(given)


def _tools(given: Iterable[ToolSchema]) -> tuple[ToolSchema, ...]:
    return tuple(given)


@attrs.frozen
class ModelRequest:
    """Everything that one reply depends on.

    `stable` counts the leading characters of `system` that later requests will repeat (None: all
    of them), for providers whose caches want to be told. `options` are the provider's own, passed
    on as they are. `agent` is the name of who asks: for adapters that answer by it; no provider is
    told.
    """

    model: str
    system: str = ""
    messages: tuple[Message, ...] = attrs.field(default=(), converter=_messages)
    tools: tuple[ToolSchema, ...] = attrs.field(default=(), converter=_tools)
    stable: int | None = attrs.field(default=None, kw_only=True)
    max_tokens: int | None = attrs.field(default=None, kw_only=True)
    temperature: float | None = attrs.field(default=None, kw_only=True)
    options: Mapping[str, Any] = attrs.field(factory=dict[str, Any], kw_only=True)
    agent: str = attrs.field(default="", kw_only=True)


@attrs.frozen
class TextDelta:
    """A further piece of the reply's text."""

    text: str


@attrs.frozen
class ThinkingDelta:
    """A further piece of what the model thinks."""

    text: str


@attrs.frozen
class ToolRequestDelta:
    """A further piece of a tool request: `arguments` continues its JSON text.

    The first piece of a request has its `id` and `name`; later ones repeat the `id`.
    """

    id: str
    name: str = ""
    arguments: str = ""


@attrs.frozen
class RateLimit:
    """What the provider said of its limits with this reply; None where it said nothing."""

    remaining_requests: int | None = None
    remaining_tokens: int | None = None
    resets_in: float | None = None
    """Seconds until the limits are whole again."""


@attrs.frozen
class Usage:
    """Tokens of one reply. `input_tokens` counts all of the input, cached tokens included.

    `cached_tokens` were read from the provider's cache, `cache_written_tokens` put into it.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cache_written_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.cache_written_tokens + other.cache_written_tokens,
        )


@attrs.frozen
class Reply:
    """The whole reply: always the last event of a stream, and there is exactly one.

    `model` is the name that the provider gave, which may say more than the one that was asked for.
    """

    message: Message
    stop: StopReason = "end"
    usage: Usage = attrs.field(factory=Usage)
    model: str = ""
    limits: RateLimit | None = None


ModelEvent: TypeAlias = TextDelta | ThinkingDelta | ToolRequestDelta | Reply
