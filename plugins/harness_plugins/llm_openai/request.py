"""From a request to the body of a chat completion. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from harness_core.prompt import ToolSchema
from harness_plugins.llm.api import Message, ModelRequest
from harness_plugins.llm.remote.api import ToolNames, object_schema

from .config import Config

__all__ = ["body_of", "names_of", "tool_params"]


def names_of(tools: Iterable[ToolSchema], provider: str) -> ToolNames:
    """Return the names of tools, as they are here and as they are sent."""
    return ToolNames((tool.name for tool in tools), provider)


def tool_params(tools: Iterable[ToolSchema], *, provider: str = "openai") -> list[dict[str, Any]]:
    """Return tools in the shape of the SDK's `ChatCompletionToolParam`.

    Schemas pass unchanged but for their top, which says that it is an object. A name of other
    characters than letters, digits, `_` and `-`, or of more than 64, is translated, in both
    directions. Raises ModelError of kind "invalid-request" for a schema that allows no object,
    and for two names that become one.
    """
    listed = list(tools)
    names = names_of(listed, provider)
    return [
        {
            "type": "function",
            "function": {
                "name": names.sent(tool.name),
                "description": tool.description,
                "parameters": object_schema(tool, provider),
            },
        }
        for tool in listed
    ]


def body_of(
    request: ModelRequest, config: Config, names: ToolNames, *, is_openai: bool
) -> dict[str, Any]:
    """Return the arguments of `chat.completions.create` for a request."""
    body: dict[str, Any] = {
        "model": request.model or config.model,
        "messages": list(_messages(request, config, names)),
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if request.tools:
        body["tools"] = tool_params(request.tools, provider=config.provider)
    limit = request.max_tokens or config.max_tokens
    if limit is not None:
        # OpenAI's newer models refuse the old name; most other servers know only that one.
        body["max_completion_tokens" if is_openai else "max_tokens"] = limit
    if request.temperature is not None:
        body["temperature"] = request.temperature
    options = {**config.options, **request.options}
    if options:
        body["extra_body"] = options
    return body


def _messages(request: ModelRequest, config: Config, names: ToolNames) -> Iterator[dict[str, Any]]:
    if request.system:
        yield {"role": "system", "content": request.system}
    turn = _start_of_turn(request.messages)
    for index, message in enumerate(request.messages):
        if message.role == "user":
            yield {"role": "user", "content": message.text}
        elif message.role == "tool":
            yield {"role": "tool", "tool_call_id": message.call_id, "content": message.text}
        else:
            thinks = config.return_thinking and index > turn
            yield _assistant(message, names, config.provider if thinks else None)


def _start_of_turn(messages: Sequence[Message]) -> int:
    """Return the index of the last message of the user, -1 if there is none."""
    return max((i for i, one in enumerate(messages) if one.role == "user"), default=-1)


def _assistant(message: Message, names: ToolNames, thinker: str | None) -> dict[str, Any]:
    data: dict[str, Any] = {"role": "assistant", "content": message.text}
    if message.requests:
        data["content"] = message.text or None
        data["tool_calls"] = [
            {
                "id": one.id,
                "type": "function",
                "function": {"name": names.sent(one.name), "arguments": one.arguments},
            }
            for one in message.requests
        ]
    thoughts = "".join(one.text for one in message.thinking if one.provider == thinker)
    if thinker is not None and thoughts:
        data["reasoning_content"] = thoughts
    return data
