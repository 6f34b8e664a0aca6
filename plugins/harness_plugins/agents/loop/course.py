"""Course: how far a turn has come, and its two ways out: the log, and whoever watches it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream

from harness_core import FiberState
from harness_plugins.llm.api import Usage
from harness_plugins.session.api import Draft, History, LogEvent, Session
from harness_plugins.tools.api import ToolResult

from .events import StepEnd
from .limits import Limits
from .records import AgentEvent, TurnEnded, TurnResult
from .speaker import Speaker
from .strays import no_strays

__all__ = ["Course"]


class Course:
    """What the parts of one turn share. `events` gives what happens in it, `TurnEnded` last."""

    session: Session
    """Open from the beginning of the turn on."""

    def __init__(self, agent: Speaker, random: Callable[[], float]) -> None:
        self.agent = agent
        self.limits: Limits = agent.limits or Limits()
        self.random = random
        self.scope = anyio.CancelScope()
        """The signal of everything that the turn waits for."""
        self.usage = Usage()
        self.text = ""
        self.steps = 0
        self.began = 0
        """The number of the first event of the turn in the log; 0 if none was written."""
        self.before = History()
        """The history as it was before the turn."""
        self.may_compact = True
        self.results: dict[str, ToolResult] = {}
        """What tools have answered, by the id of the request, also before it is written."""
        self.started: set[str] = set()
        """The ids of the requests whose tools were called."""
        self.is_told = False
        """Whether the reader knows that the turn has ended."""
        self.events: MemoryObjectReceiveStream[AgentEvent]
        # Without a bound: a slow reader loses nothing and holds up nobody.
        self._feed, self.events = anyio.create_memory_object_stream[AgentEvent](math.inf)

    @property
    def is_live(self) -> bool:
        """Whether the agent is there; False once its end has come to the turn."""
        return self.agent.ctx.fiber.state in (FiberState.LOADING, FiberState.ACTIVE)

    def emit(self, event: AgentEvent) -> None:
        """Tell the reader of the turn; nobody may be reading any more."""
        self.is_told = self.is_told or isinstance(event, TurnEnded)
        try:
            self._feed.send_nowait(event)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass

    def close(self) -> None:
        """Tell the reader that nothing more comes."""
        self._feed.close()

    async def write(self, drafts: Sequence[Draft]) -> tuple[LogEvent, ...]:
        """Write into the log, wherever it is now: its keeper may have been restarted meanwhile."""
        if not self.session.is_open and self.is_live:
            self.session = await self.agent.open_session()
        with no_strays():
            return await self.session.append_all(drafts)

    def add_usage(self, usage: Usage) -> None:
        """Count the tokens of a reply."""
        self.usage = self.usage + usage

    def result(self, ending: StepEnd) -> TurnResult:
        """Return what the turn amounts to, if it ends so."""
        return TurnResult(ending.reason or "done", self.text, self.steps, self.usage, ending.error)
