"""What a server answers, as text for a model, and as a value for code."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from mcp import types

from harness_plugins.tools.api import ToolError, ToolResult

__all__ = ["result_of", "text_of_messages", "text_of_resource", "truncated"]

_FAILED_SILENTLY = "the tool failed and did not say why"


def result_of(result: types.CallToolResult) -> ToolResult:
    """Return what came of a call; raise ToolError, in the server's words, if it failed."""
    text = "\n".join(filter(None, map(_text_of_block, result.content)))
    structured = result.structured_content
    if result.is_error:
        raise ToolError(text or (_FAILED_SILENTLY if structured is None else _as_json(structured)))
    if structured is not None:
        return ToolResult(text or _as_json(structured), value=structured)
    if all(isinstance(block, types.TextContent) for block in result.content):
        return ToolResult(text, value=text)
    value = [
        block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in result.content
    ]
    return ToolResult(text, value=value)


def _as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _text_of_block(block: types.ContentBlock) -> str:
    if isinstance(block, types.TextContent):
        return block.text
    if isinstance(block, types.ImageContent | types.AudioContent):
        kind = "image" if isinstance(block, types.ImageContent) else "audio"
        return f"[{kind}: {block.mime_type}, {_size(block.data)}]"
    if isinstance(block, types.ResourceLink):
        about = f": {block.description}" if block.description else ""
        return f"[resource {block.uri} ({block.title or block.name}){about}]"
    return f"[resource {block.resource.uri}]\n{_text_of_contents([block.resource])}"


def _text_of_contents(
    contents: Sequence[types.TextResourceContents | types.BlobResourceContents],
) -> str:
    return "\n".join(
        one.text
        if isinstance(one, types.TextResourceContents)
        else f"[{one.mime_type or 'binary data'}, {_size(one.blob)}]"
        for one in contents
    )


def _size(base64: str) -> str:
    return f"{len(base64.rstrip('=')) * 3 // 4} bytes"


def text_of_resource(result: types.ReadResourceResult) -> str:
    """Return the text of a resource; what is no text is named with its kind and size."""
    return _text_of_contents(result.contents)


def text_of_messages(messages: Iterable[types.PromptMessage]) -> str:
    """Return the text of a prompt; what the assistant is to have said is marked."""
    return "\n\n".join(
        f"Assistant: {_text_of_block(message.content)}"
        if message.role == "assistant"
        else _text_of_block(message.content)
        for message in messages
    )


def truncated(text: str, limit: int | None) -> str:
    """Return a text of `limit` characters at most; one that was cut says so at its end."""
    if limit is None or len(text) <= limit:
        return text
    notice = f"\n[... {len(text)} characters in all; the rest was left out]"
    return text[: limit - len(notice)] + notice
