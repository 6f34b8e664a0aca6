"""From a request to the body of the Messages API. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from harness_core.prompt import ToolSchema
from harness_plugins.llm.api import ModelRequest
from harness_plugins.llm.remote.api import ToolNames, object_schema

from .config import Config
from .turns import turns_of

__all__ = ["body_of", "names_of", "tool_params"]

_MAX_TOKENS = 8192


def names_of(tools: Iterable[ToolSchema], provider: str) -> ToolNames:
    """Return the names of tools, as they are here and as they are sent."""
    return ToolNames((tool.name for tool in tools), provider)


def tool_params(
    tools: Iterable[ToolSchema], *, provider: str = "anthropic"
) -> list[dict[str, Any]]:
    """Return tools in the shape of the SDK's `ToolParam`.

    Schemas pass unchanged but for their top, which says that it is an object. A name of other
    characters than letters, digits, `_` and `-`, or of more than 64, is translated, in both
    directions. Raises ModelError of kind "invalid-request" for a schema that allows no object,
    and for two names that become one.
    """
    listed = list(tools)
    names = names_of(listed, provider)
    return [
        {
            "name": names.sent(tool.name),
            "description": tool.description,
            "input_schema": object_schema(tool, provider),
        }
        for tool in listed
    ]


def body_of(request: ModelRequest, config: Config, names: ToolNames) -> dict[str, Any]:
    """Return the arguments of `messages.create` for a request."""
    messages = turns_of(request.messages, config.provider, names)
    body: dict[str, Any] = {
        "model": request.model or config.model,
        "max_tokens": request.max_tokens or config.max_tokens or _MAX_TOKENS,
        "messages": messages,
        "stream": True,
    }
    system, stable = _system(request)
    if system:
        body["system"] = system
    if request.tools:
        body["tools"] = tool_params(request.tools, provider=config.provider)
    if config.cache != "off":
        last: list[dict[str, Any]] = messages[-1]["content"] if messages else []
        _mark((body.get("tools", [])[-1:], stable, _markable(last)), config.cache)
    # The SDK knows no temperature any more, and models that take one still do.
    heat = {} if request.temperature is None else {"temperature": request.temperature}
    options = {**heat, **config.options, **request.options}
    if options:
        body["extra_body"] = options
    return body


def _system(request: ModelRequest) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the blocks of the system text, and the last one that later requests repeat.

    The API refuses blank blocks, so a cut is made only where something is left on both sides.
    """
    text = request.system
    if not text.strip():
        return [], []
    cut = len(text) if request.stable is None else min(max(request.stable, 0), len(text))
    parts = [text[:cut], text[cut:]] if text[:cut].strip() and text[cut:].strip() else [text]
    blocks: list[dict[str, Any]] = [{"type": "text", "text": part} for part in parts]
    return blocks, blocks[:1] if text[:cut].strip() else []


def _markable(content: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the last block that may carry a mark: thoughts may not."""
    return [one for one in content if not one["type"].endswith("thinking")][-1:]


def _mark(ends: Iterable[Sequence[dict[str, Any]]], lifetime: str) -> None:
    """Mark the ends of what is to be cached: tools, stable system text, messages; at most three.

    A part that is marked later includes all before it, in this order.
    """
    mark = {"type": "ephemeral"} if lifetime == "5m" else {"type": "ephemeral", "ttl": lifetime}
    for end in ends:
        for block in end:
            block["cache_control"] = mark
