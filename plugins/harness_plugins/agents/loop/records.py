"""What happens in a turn, as those who watch it see it: records, in the order in which they come.

    TurnStarted · for each step: StepStarted · deltas · Replied · for each tool: ToolStarted,
    ToolEnded · TurnEnded

`TurnEnded` is always the last one, and there is exactly one. A turn without anything to say, or
of an agent that is gone, has no other.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import attrs

from harness_core.prompt import PromptAssembly
from harness_plugins.llm.api import (
    ModelError,
    Reply,
    TextDelta,
    ThinkingDelta,
    ToolRequest,
    ToolRequestDelta,
    Usage,
)
from harness_plugins.tools.api import ToolResult

__all__ = [
    "FAILURES",
    "AgentEvent",
    "Compacted",
    "Replied",
    "Retrying",
    "StepStarted",
    "ToolEnded",
    "ToolStarted",
    "TurnEnded",
    "TurnReason",
    "TurnResult",
    "TurnStarted",
]

TurnReason: TypeAlias = Literal[
    "done",  # the model had nothing more to ask for
    "nothing-to-say",  # no message for the model: no call was made
    "stopped",  # a listener ended it
    "cancelled",
    "disposed",  # the agent went during the turn
    "max-steps",
    "max-tokens",
    "max-seconds",
    "length",  # the reply was cut off at its limit
    "refused",  # the model would not answer
    "assembly-failed",  # the prompt could not be assembled or rendered
    "model-failed",  # the provider did not reply
    "history-failed",  # the log could not be opened or written
    "listener-failed",  # a listener of the loop's events raised, or returned a wrong thing
    "failed",  # a fault of the loop itself
]

FAILURES = frozenset(
    {"assembly-failed", "model-failed", "history-failed", "listener-failed", "failed"}
)
"""The reasons that stand for something that went wrong."""


@attrs.frozen
class TurnResult:
    """How a turn ended. `text` is the text of the last reply; `usage` is of the whole turn.

    `error` is what went wrong, for people; the conversation goes on with the next turn.
    """

    reason: TurnReason
    text: str = ""
    steps: int = 0
    usage: Usage = attrs.field(factory=Usage)
    error: BaseException | None = attrs.field(default=None, eq=False)

    @property
    def is_error(self) -> bool:
        """Whether the turn failed, other than by a limit or by somebody's wish."""
        return self.reason in FAILURES

    def __str__(self) -> str:
        return self.text


@attrs.frozen
class TurnStarted:
    """The user's message is in the history, as event `seq` of session `session`.

    `seq` is None if there was none: the turn goes on with what the model has not answered yet.
    """

    session: str
    seq: int | None


@attrs.frozen
class StepStarted:
    """A step begins, counted from 1; its prompt is assembled."""

    step: int
    assembly: PromptAssembly = attrs.field(eq=False)


@attrs.frozen
class Retrying:
    """The provider failed in a way that may pass: the same request again in `seconds`.

    The deltas of the failed attempt, which is number `attempt`, are void: they come anew.
    """

    attempt: int
    seconds: float
    error: ModelError = attrs.field(eq=False)


@attrs.frozen
class Replied:
    """The model's whole reply, which is in the history now."""

    reply: Reply


@attrs.frozen
class ToolStarted:
    """A tool is about to run."""

    request: ToolRequest


@attrs.frozen
class ToolEnded:
    """A tool has run; its result is in the history."""

    request: ToolRequest
    result: ToolResult


@attrs.frozen
class Compacted:
    """A range of the history was replaced by a summary."""

    first: int
    last: int
    summary: str


@attrs.frozen
class TurnEnded:
    """The end of a turn."""

    result: TurnResult


AgentEvent: TypeAlias = (
    TurnStarted
    | StepStarted
    | TextDelta
    | ThinkingDelta
    | ToolRequestDelta
    | Retrying
    | Replied
    | ToolStarted
    | ToolEnded
    | Compacted
    | TurnEnded
)
