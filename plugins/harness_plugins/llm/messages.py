"""Messages of a conversation, in the one form that history and all adapters share.

Facts only, frozen, and the same as data (`as_data`, `message_from`), so that a message that was
written down reads back equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

import attrs
from cattrs import Converter

__all__ = ["Message", "Role", "Thinking", "ToolRequest", "as_data", "message_from"]

Role: TypeAlias = Literal["user", "assistant", "tool"]


@attrs.frozen
class ToolRequest:
    """A tool call that the model asks for. `arguments` is its JSON text, exactly as it came.

    It may be no JSON at all: whoever runs it says so to the model.
    """

    id: str
    name: str
    arguments: str = "{}"


@attrs.frozen
class Thinking:
    """What the model thought before it answered.

    `signature` is opaque: the provider that wrote it (`provider`) wants it back unchanged with the
    same message, and no other one may see it. A redacted thought has a signature and no text. `at`
    is how many characters of the message's text stood before it.
    """

    text: str = ""
    signature: str = ""
    provider: str = ""
    is_redacted: bool = False
    at: int = attrs.field(default=0, kw_only=True)


def _requests(given: Iterable[ToolRequest]) -> tuple[ToolRequest, ...]:
    return tuple(given)


def _thoughts(given: Iterable[Thinking]) -> tuple[Thinking, ...]:
    return tuple(given)


@attrs.frozen
class Message:
    """One message. The system text is none: it is part of the request.

    - `user`: `text`.
    - `assistant`: `text`, `requests`, `thinking`; each request is answered by a `tool` message.
    - `tool`: `text` answers the request whose id is `call_id`; `is_error` if the call failed.
    """

    role: Role
    text: str = ""
    requests: tuple[ToolRequest, ...] = attrs.field(default=(), converter=_requests, kw_only=True)
    thinking: tuple[Thinking, ...] = attrs.field(default=(), converter=_thoughts, kw_only=True)
    call_id: str = attrs.field(default="", kw_only=True)
    is_error: bool = attrs.field(default=False, kw_only=True)


_CONVERTER = Converter(omit_if_default=True, forbid_extra_keys=True)


def as_data(message: Message) -> dict[str, Any]:
    """Return a message as JSON data, without what has its default."""
    data: dict[str, Any] = _CONVERTER.unstructure(message)
    return data


def message_from(data: Mapping[str, Any]) -> Message:
    """Return the message that `as_data` gave; raise ValueError for anything else."""
    try:
        return _CONVERTER.structure(data, Message)
    except Exception as error:  # cattrs raises groups of whatever a field's type raises
        raise ValueError(f"no message: {data!r}") from error
