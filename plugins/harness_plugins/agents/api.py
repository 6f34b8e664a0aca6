"""What other plugins may use of `agents`: the service, an agent, what happens in a turn."""

from __future__ import annotations

from .agent import Agent as Agent
from .assembling import assemble_context_for as assemble_context_for
from .delegate import delegate_tool as delegate_tool
from .errors import AgentError as AgentError
from .errors import UnknownAgentError as UnknownAgentError
from .limits import Limits as Limits
from .loop import NestedTurnError as NestedTurnError
from .loop import compact_now as compact_now
from .loop_events import COMPACT as COMPACT
from .loop_events import REQUEST as REQUEST
from .loop_events import STEP as STEP
from .loop_events import STOPPING as STOPPING
from .loop_events import Compaction as Compaction
from .loop_events import Step as Step
from .loop_events import StepEnd as StepEnd
from .loop_events import Stopping as Stopping
from .service import Agents as Agents
from .turns import AgentEvent as AgentEvent
from .turns import Compacted as Compacted
from .turns import Replied as Replied
from .turns import Retrying as Retrying
from .turns import StepStarted as StepStarted
from .turns import ToolEnded as ToolEnded
from .turns import ToolStarted as ToolStarted
from .turns import TurnEnded as TurnEnded
from .turns import TurnReason as TurnReason
from .turns import TurnResult as TurnResult
from .turns import TurnStarted as TurnStarted
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
