"""The loop: runs the turns of an agent, one at a time. What is imported here is its door.

From the top down; each module imports only what stands below it.

    run, compact_now      what an agent calls
    turn                  one turn, from the user's message to the reason for which it ended
    steps, step           the steps of a turn; one step: assemble, ask, write, run the tools
    compaction            replacing the earlier part of the history by a summary
    model_calls, tool_calls, stable, assembly    the parts of a step
    course                what the parts of one turn share; its log and its readers
    work, lines           whose turn it is, and in which task it runs
    events                where plugins step in
    drafts                what is written into the log
    records, limits, speaker, signals, strays, swaps    what all of them speak of

A turn runs in a task of the agent's fiber (`work`), so that neither the caller nor the agent can
go without the turn's having been ended in order.
"""

from __future__ import annotations

from .assembly import assemble_context_for as assemble_context_for
from .compact_now import compact_now as compact_now
from .events import COMPACT as COMPACT
from .events import REQUEST as REQUEST
from .events import STEP as STEP
from .events import STOPPING as STOPPING
from .events import Compaction as Compaction
from .events import Step as Step
from .events import StepEnd as StepEnd
from .events import Stopping as Stopping
from .limits import Limits as Limits
from .records import AgentEvent as AgentEvent
from .records import Compacted as Compacted
from .records import Replied as Replied
from .records import Retrying as Retrying
from .records import StepStarted as StepStarted
from .records import ToolEnded as ToolEnded
from .records import ToolStarted as ToolStarted
from .records import TurnEnded as TurnEnded
from .records import TurnReason as TurnReason
from .records import TurnResult as TurnResult
from .records import TurnStarted as TurnStarted
from .run import run_turn as run_turn
from .run import send as send
from .signals import Signal as Signal
from .speaker import Speaker as Speaker
from .swaps import wait_swapped as wait_swapped
from .work import NestedTurnError as NestedTurnError

__all__ = [
    "COMPACT",
    "REQUEST",
    "STEP",
    "STOPPING",
    "AgentEvent",
    "Compacted",
    "Compaction",
    "Limits",
    "NestedTurnError",
    "Replied",
    "Retrying",
    "Signal",
    "Speaker",
    "Step",
    "StepEnd",
    "StepStarted",
    "Stopping",
    "ToolEnded",
    "ToolStarted",
    "TurnEnded",
    "TurnReason",
    "TurnResult",
    "TurnStarted",
    "assemble_context_for",
    "compact_now",
    "run_turn",
    "send",
    "wait_swapped",
]
