"""From the events of the Messages API to events and a reply."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness_plugins.llm.api import (
    Message,
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
from harness_plugins.llm.remote.api import (
    EventReader,
    ToolNames,
    count_of,
    rate_limit,
    seconds_until,
)

__all__ = ["MessageReader"]

_STOPS: Mapping[str, StopReason] = {
    "end_turn": "end",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refused",
    "stop_sequence": "end",
    "tool_use": "tools",
}
_COUNTS = (
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
)
_LIMITED = "anthropic-ratelimit-"


class _Block:
    """One block of the content, while it comes."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.text = ""
        self.signature = ""
        self.id = ""
        self.name = ""
        self.input: Any = None

    @property
    def arguments(self) -> str:
        """The text that came in pieces; or what came at once, as other servers send it."""
        return (self.text.strip() and self.text) or (json.dumps(self.input) if self.input else "")


class MessageReader(EventReader):
    """Reads one reply."""

    def __init__(self, provider: str, names: ToolNames) -> None:
        super().__init__(provider, names)
        self._blocks: dict[int, _Block] = {}
        self._counts: dict[str, int] = {}

    def feed(self, item: Any) -> Iterator[ModelEvent]:
        """Take a `RawMessageStreamEvent`; yield what it tells. Kinds that are new are passed by."""
        match item.type:
            case "message_start":
                self.model = item.message.model or ""
                self._count(item.message.usage)
            case "content_block_start":
                yield from self._begin(item.index, item.content_block)
            case "content_block_delta":
                yield from self._continue(self._block(item.index), item.delta)
            case "message_delta":
                self._count(item.usage)
                if item.delta.stop_reason:
                    self.stop = _STOPS.get(item.delta.stop_reason, "other")
                    self.is_complete = True
            case _:
                pass

    def reply(self, headers: Mapping[str, str]) -> Reply:
        """Return the whole reply."""
        blocks = [block for _, block in sorted(self._blocks.items())]
        message = Message(
            "assistant",
            "".join(block.text for block in blocks if block.kind == "text"),
            requests=[
                ToolRequest(
                    block.id,
                    self.names.original(block.name),
                    self.arguments(block.arguments, is_last=block is blocks[-1]),
                )
                for block in blocks
                if block.kind == "tool_use"
            ],
            thinking=self._thoughts(blocks),
        )
        return Reply(message, self.stop, self._usage(), self.model, _limits_of(headers))

    def _thoughts(self, blocks: Sequence[_Block]) -> Iterator[Thinking]:
        said = 0
        for block in blocks:
            if block.kind == "text":
                said += len(block.text)
            elif block.kind.endswith("thinking"):
                yield Thinking(
                    block.text,
                    block.signature,
                    self.provider,
                    is_redacted=block.kind == "redacted_thinking",
                    at=said,
                )

    def _begin(self, index: int, content: Any) -> Iterator[ModelEvent]:
        block = self._blocks[index] = _Block(content.type)
        match content.type:
            case "text":
                yield from self._add_text(block, content.text or "")
            case "thinking":
                block.signature = content.signature or ""
                yield from self._add_thought(block, content.thinking or "")
            case "redacted_thinking":
                block.signature = content.data
            case "tool_use":
                block.id, block.name, block.input = content.id, content.name, content.input
                yield ToolRequestDelta(block.id, self.names.original(block.name))
            case _:
                pass

    def _continue(self, block: _Block, delta: Any) -> Iterator[ModelEvent]:
        match delta.type:
            case "text_delta":
                yield from self._add_text(block, delta.text)
            case "thinking_delta":
                yield from self._add_thought(block, delta.thinking)
            case "signature_delta":
                block.signature += delta.signature
            case "input_json_delta" if block.kind == "tool_use":
                block.text += delta.partial_json
                if delta.partial_json:
                    yield ToolRequestDelta(block.id, arguments=delta.partial_json)
            case _:
                pass

    def _add_text(self, block: _Block, text: str) -> Iterator[ModelEvent]:
        block.text += text
        if text:
            yield TextDelta(text)

    def _add_thought(self, block: _Block, text: str) -> Iterator[ModelEvent]:
        block.text += text
        if text:
            yield ThinkingDelta(text)

    def _block(self, index: int) -> _Block:
        block = self._blocks.get(index)
        if block is None:
            raise self.garbled(f"the reply continues block {index}, which never began")
        return block

    def _count(self, usage: Any) -> None:
        """Keep the newest counts: those at the end are of the whole reply."""
        for name in _COUNTS:
            count = count_of(getattr(usage, name, None))
            if count is not None:
                self._counts[name] = count

    def _usage(self) -> Usage:
        fresh, output, read, written = (self._counts.get(name, 0) for name in _COUNTS)
        return Usage(fresh + read + written, output, read, written)


def _limits_of(headers: Mapping[str, str]) -> RateLimit | None:
    tokens = [
        count_of(headers.get(f"{_LIMITED}{what}-remaining"))
        for what in ("tokens", "input-tokens", "output-tokens")
    ]
    resets = [
        seconds_until(headers, f"{_LIMITED}{what}-reset")
        for what in ("requests", "tokens", "input-tokens", "output-tokens")
    ]
    return rate_limit(
        count_of(headers.get(f"{_LIMITED}requests-remaining")),
        min((one for one in tokens if one is not None), default=None),
        max((one for one in resets if one is not None), default=None),
    )
