"""The events of a call, in the order in which they are dispatched. All are scope-filtered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from harness_core import Event

from .model import ToolCall, ToolDecision, ToolResult

__all__ = ["ASK", "EXECUTE", "POST_EXECUTE", "PRE_EXECUTE", "RESULT"]

Next = Callable[[], Awaitable[ToolResult]]

PRE_EXECUTE: Final[Event[[ToolCall], ToolDecision | None]] = Event("tools/pre-execute", "serial")
"""`(call)`: may it run? The first ToolDecision counts; one that has no say returns nothing."""
ASK: Final[Event[[ToolCall, str], ToolDecision | None]] = Event("tools/ask", "serial")
"""`(call, question)`: for whoever can ask a person. Without an answer, the call is denied."""
EXECUTE: Final[Event[[ToolCall, Next], ToolResult]] = Event("tools/execute", "waterfall")
"""`(call, next)`: around the tool; returns what `await next()` gave, or a result of its own."""
POST_EXECUTE: Final[Event[[ToolCall, ToolResult], None]] = Event("tools/post-execute", "parallel")
"""`(call, result)`: a call has run; the caller gets the result once all listeners are done."""
RESULT: Final[Event[[ToolCall, ToolResult], None]] = Event("tools/result", "emit")
"""`(call, result)`: a call is over, whether it ran or not."""
