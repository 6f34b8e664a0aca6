"""What other plugins may use of `agents`: the service, an agent, what happens in a turn."""

from __future__ import annotations

from .agent import Agent as Agent
from .delegate import delegate_tool as delegate_tool
from .errors import AgentError as AgentError
from .errors import UnknownAgentError as UnknownAgentError
from .loop import COMPACT as COMPACT
from .loop import REQUEST as REQUEST
from .loop import STEP as STEP
from .loop import STOPPING as STOPPING
from .loop import AgentEvent as AgentEvent
from .loop import Compacted as Compacted
from .loop import Compaction as Compaction
from .loop import Limits as Limits
from .loop import NestedTurnError as NestedTurnError
from .loop import Replied as Replied
from .loop import Retrying as Retrying
from .loop import Speaker as Speaker
from .loop import Step as Step
from .loop import StepEnd as StepEnd
from .loop import StepStarted as StepStarted
from .loop import Stopping as Stopping
from .loop import ToolEnded as ToolEnded
from .loop import ToolStarted as ToolStarted
from .loop import TurnEnded as TurnEnded
from .loop import TurnReason as TurnReason
from .loop import TurnResult as TurnResult
from .loop import TurnStarted as TurnStarted
from .loop import assemble_context_for as assemble_context_for
from .loop import compact_now as compact_now
from .service import Agents as Agents
from .wanted import Setup as Setup
from .wanted import ToolFilter as ToolFilter

__all__ = [
    "COMPACT",
    "REQUEST",
    "STEP",
    "STOPPING",
    "Agent",
    "AgentError",
    "AgentEvent",
    "Agents",
    "Compacted",
    "Compaction",
    "Limits",
    "NestedTurnError",
    "Replied",
    "Retrying",
    "Setup",
    "Speaker",
    "Step",
    "StepEnd",
    "StepStarted",
    "Stopping",
    "ToolEnded",
    "ToolFilter",
    "ToolStarted",
    "TurnEnded",
    "TurnReason",
    "TurnResult",
    "TurnStarted",
    "UnknownAgentError",
    "assemble_context_for",
    "compact_now",
    "delegate_tool",
]
