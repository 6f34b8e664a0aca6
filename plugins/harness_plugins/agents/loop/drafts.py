"""What a turn writes into the log, apart from snapshots, and what it reads there."""

from __future__ import annotations

from typing import Any

import attrs

from harness_plugins.llm.api import Message, ToolRequest, as_data
from harness_plugins.session.api import Draft, History
from harness_plugins.tools.api import ToolResult

from .records import TurnResult

__all__ = [
    "CANCELLED",
    "INTERRUPTED",
    "NOT_RUN",
    "answer_of",
    "ending_of",
    "is_pending",
    "message_of",
    "unfinished",
    "words_of",
]

INTERRUPTED = (
    'the call of tool "{name}" was interrupted: whether it was carried out, wholly or in part, is '
    "not known"
)
NOT_RUN = 'the call of tool "{name}" was not run: the turn ended ({reason})'
CANCELLED = 'the call of tool "{name}" was cancelled: the turn ended ({reason})'


def message_of(message: Message, **notes: Any) -> Draft:
    """Return a message with notes, to be written."""
    return Draft("message", {"message": as_data(message), **notes})


def is_pending(history: History) -> bool:
    """Whether there is a message that the model has not answered; snapshots are none."""
    last = next((one for one in reversed(history.entries) if one.kind == "message"), None)
    return last is not None and last.message.role != "assistant"


def answer_of(request: ToolRequest, result: ToolResult) -> Draft:
    """Return the message that answers a tool request, to be written."""
    message = Message("tool", result.text, call_id=request.id, is_error=result.is_error)
    return message_of(message, tool=request.name, status=result.status)


def unfinished(request: ToolRequest, words: str, reason: str | None = None) -> ToolResult:
    """Return the result of a call that has none of its own."""
    text = words.format(name=request.name, reason=reason)
    return ToolResult(text, "cancelled", name=request.name, call_id=request.id)


def ending_of(result: TurnResult) -> Draft:
    """Return how a turn ended, to be written."""
    facts: dict[str, Any] = {
        "reason": result.reason,
        "steps": result.steps,
        "usage": attrs.asdict(result.usage),
    }
    if result.error is not None:
        notes = (one for one in getattr(result.error, "__notes__", ()) if isinstance(one, str))
        facts["error"] = "\n".join([words_of(result.error), *notes])
    return Draft("turn-ended", facts)


def words_of(error: BaseException) -> str:
    """Return kind and message of an error, whatever that is made of."""
    kind = type(error).__name__
    try:
        return f"{kind}: {error}"
    except Exception:  # its own __str__ is at fault
        return kind
