"""From the chunks of a chat completion to events and a reply.

Servers that speak this protocol differ in what they leave out: ids, indexes, usage, whole lists.
Everything is read as if it could be missing.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from harness_plugins.llm.api import (
    Message,
    ModelError,
    ModelEvent,
    RateLimit,
    Reply,
    StopReason,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolRequest,
    ToolRequestDelta,
    Usage,
)
from harness_plugins.llm.remote.api import EventReader, ToolNames, count_of, rate_limit, seconds_of

__all__ = ["ChunkReader"]

_STOPS: Mapping[str, StopReason] = {
    "content_filter": "refused",
    "function_call": "tools",
    "length": "length",
    "stop": "end",
    "tool_calls": "tools",
}
_BROKEN_OFF = frozenset({"error", "insufficient_system_resource"})
"""Reasons that say that the server gave up."""


class _Request:
    """A tool request that comes in fragments."""

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.arguments = ""
        self.is_told = False


class ChunkReader(EventReader):
    """Reads one reply, of which only the first choice counts."""

    def __init__(self, provider: str, names: ToolNames) -> None:
        super().__init__(provider, names)
        self._text = ""
        self._thinking = ""
        self._requests: list[_Request] = []
        self._by_index: dict[Any, _Request] = {}
        self._refused = False
        self._usage = Usage()

    def feed(self, item: Any) -> Iterator[ModelEvent]:
        """Take a `ChatCompletionChunk`; yield what it tells."""
        self.model = item.model or self.model
        if item.usage is not None:
            self._usage = _usage_of(item.usage)
        for choice in item.choices or ():
            if choice.index:
                continue
            if choice.delta is not None:
                yield from self._delta(choice.delta)
            if choice.finish_reason:
                self._finish(choice.finish_reason)

    def reply(self, headers: Mapping[str, str]) -> Reply:
        """Return the whole reply."""
        requests = tuple(
            ToolRequest(
                one.id,
                self.names.original(one.name),
                self.arguments(one.arguments.strip(), is_last=one is self._requests[-1]),
            )
            for one in self._requests
        )
        thinking = (Thinking(self._thinking, provider=self.provider),) if self._thinking else ()
        stop = "refused" if self._refused else self.stop
        if requests and stop == "end":
            stop = "tools"  # some servers say "stop" after tool calls, too
        message = Message("assistant", self._text, requests=requests, thinking=thinking)
        return Reply(message, stop, self._usage, self.model, _limits_of(headers))

    def _delta(self, delta: Any) -> Iterator[ModelEvent]:
        thought = getattr(delta, "reasoning_content", None) or getattr(delta, "reasoning", None)
        if isinstance(thought, str) and thought:
            self._thinking += thought
            yield ThinkingDelta(thought)
        for text in (delta.content, delta.refusal):
            if text:
                self._text += text
                yield TextDelta(text)
        self._refused = self._refused or bool(delta.refusal)
        for fragment in delta.tool_calls or ():
            yield from self._fragment(fragment)

    def _fragment(self, fragment: Any) -> Iterator[ModelEvent]:
        one = self._request_of(fragment)
        called = fragment.function
        arguments: Any = (called.arguments if called is not None else None) or ""
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments)
        one.arguments += arguments
        if one.is_told:
            if arguments:
                yield ToolRequestDelta(one.id, arguments=arguments)
            return
        one.name += (called.name if called is not None else None) or ""
        if one.name:
            one.is_told = True
            one.id = one.id or f"call_{uuid.uuid4().hex}"
            yield ToolRequestDelta(one.id, self.names.original(one.name), one.arguments)

    def _request_of(self, fragment: Any) -> _Request:
        """Return the request that a fragment continues, or begins.

        By its index; but a new id is a new request, since some servers count none.
        """
        one = self._by_index.get(fragment.index)
        if one is None or (fragment.id and one.id and fragment.id != one.id):
            one = self._by_index[fragment.index] = _Request()
            self._requests.append(one)
        one.id = one.id or fragment.id or ""
        return one

    def _finish(self, reason: str) -> None:
        if reason in _BROKEN_OFF:
            raise ModelError(
                f"the server gave up in the middle of the reply ({reason})",
                kind="overloaded",
                provider=self.provider,
            )
        nameless = [one for one in self._requests if not one.is_told]
        if nameless:
            raise self.garbled("the reply asks for a tool and does not name it")
        self.stop = _STOPS.get(reason, "other")
        self.is_complete = True


def _usage_of(usage: Any) -> Usage:
    details = usage.prompt_tokens_details
    cached = count_of(details.cached_tokens) if details is not None else None
    if cached is None:
        cached = count_of(getattr(usage, "prompt_cache_hit_tokens", None))
    return Usage(
        input_tokens=count_of(usage.prompt_tokens) or 0,
        output_tokens=count_of(usage.completion_tokens) or 0,
        cached_tokens=cached or 0,
    )


def _limits_of(headers: Mapping[str, str]) -> RateLimit | None:
    resets = [
        seconds_of(headers.get(f"x-ratelimit-reset-{what}")) for what in ("requests", "tokens")
    ]
    return rate_limit(
        count_of(headers.get("x-ratelimit-remaining-requests")),
        count_of(headers.get("x-ratelimit-remaining-tokens")),
        max((one for one in resets if one is not None), default=None),
    )
