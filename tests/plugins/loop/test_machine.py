"""Random lives of an agent: turns, failures, interruptions, compactions, new processes.

After each step the log is a conversation that any provider takes, what the user said is in it, in
order, and a snapshot says what holds. A new process begins with what was durable at a random wait.
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from itertools import pairwise
from typing import Any

import anyio
from harness_plugins import agents as agents_plugin
from harness_plugins.agents.api import AgentEvent, TurnEnded, TurnStarted
from harness_plugins.agents.loop import Limits, compact_now, run_turn
from harness_plugins.llm.api import Message, ToolRequest
from harness_plugins.session.api import LogEvent, Session
from harness_plugins.tools.api import Tools
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from harness_core.prompt import SystemPrompt
from harness_core.testing import TreeHost, assert_no_residue

from .everywhere import Everywhere
from .tree import Model, SlowJournal, check_conversation, failure, reply_of, tool

requests = st.lists(
    st.builds(
        ToolRequest,
        st.sampled_from(["", "0", "1"]),
        st.sampled_from(["read", "write", "fail", "nothing"]),
        st.sampled_from(["{}", "", "[", '{"unknown": 1}']),
    ),
    min_size=1,
    max_size=3,
)
said = st.one_of(
    st.sampled_from(["words", ""]),
    requests,
    st.builds(failure, st.sampled_from(["overloaded", "authentication"])),
    st.just("long"),
)
scripts = st.lists(said, max_size=4)
waits = st.integers(1, 60)
WAYS = ("nothing", "scope", "signal", "dispose", "kill")


def as_said(one: Any) -> Any:
    return reply_of("words", input_tokens=99) if one == "long" else one


class Life(RuleBasedStateMachine):
    """An agent, and what is known of it."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.host = TreeHost()
        self.journal = SlowJournal()
        self.context = ""
        self.acknowledged: list[str] = []
        self.count = 0

    def run(self, code: Any) -> Any:
        return self.loop.run_until_complete(code)

    @initialize()
    def begin(self) -> None:
        """Open the tree."""
        self.run(self._begin())

    async def _begin(self) -> None:
        async def fail(_: object) -> None:
            await anyio.lowlevel.checkpoint()
            raise RuntimeError("no")

        async def slow(_: object) -> str:
            await anyio.lowlevel.checkpoint()
            return "ok"

        root = self.root = await self.host.start()
        await root.plugin(SystemPrompt, include_harness_identity=False)
        await root.plugin(Tools)
        await root.plugin(agents_plugin)
        self.model = Model()
        await root.plugin(self.model.plugin)
        root.tools.register(tool("read", slow, parallel=True))
        root.tools.register(tool("write", slow))
        root.tools.register(tool("fail", fail))
        root.system_prompt.context("now", lambda: self.context, order=1)
        await self._open(())

    async def _open(self, events: Any) -> None:
        """Go on with a log, as a new process does."""
        self.journal = SlowJournal(events)
        self.session = Session("s", self.journal, events)
        limits = Limits(compact_above=50, compact_keep=2, retry_seconds=1e-6, retries=1)
        self.agent = await self.root.agents.create("a", session=self.session, limits=limits)
        await self.agent.open_session()

    @rule(script=scripts, how=st.sampled_from(WAYS), at=waits, blank=st.booleans())
    def turn(self, script: list[Any], how: str, at: int, blank: bool) -> None:
        """Run a turn, and perhaps end it somewhere."""
        self.run(self._turn([as_said(one) for one in script], how, at, blank and at % 4 == 0))

    @rule(asked=requests, at=st.integers(12, 45), how=st.sampled_from(WAYS[1:]))
    def interrupted_calls(self, asked: Any, at: int, how: str) -> None:
        """End a turn about where its tools run, and go on with the next one."""
        self.run(self._turn([asked, "words"], how, at, False))
        self.run(self._turn(["words"], "nothing", 0, False))

    async def _turn(self, script: list[Any], how: str, at: int, blank: bool) -> None:
        self.count += 1
        text = "" if blank else f"Message {self.count}."
        self.model.script = script
        scope, signal = anyio.CancelScope(), anyio.Event()
        durable: list[LogEvent] | None = None

        def kill() -> None:
            nonlocal durable
            durable = list(self.journal._events)
            scope.cancel()

        acts: dict[str, Any] = {
            "nothing": lambda: None,
            "scope": scope.cancel,
            "signal": signal.set,
            "dispose": self.agent.dispose,
            "kill": kill,
        }
        everywhere = Everywhere(at, acts[how])
        events: list[AgentEvent] = []

        async def turn() -> None:
            async for event in run_turn(self.agent, text, signal=signal):
                events.append(event)
                if isinstance(event, TurnStarted) and event.seq is not None and durable is None:
                    self.acknowledged.append(text)

        async with assert_no_residue(self.root) if how != "dispose" else nullcontext():
            with everywhere.tasks(), scope:
                await everywhere.watch(turn())
        ended = [one.result for one in events if isinstance(one, TurnEnded)]
        if how == "dispose":
            await self.agent.dispose()
            await self._open(await self.journal.load())
        elif durable is not None:
            await self.agent.dispose()
            await self._open(durable)
        elif ended and ended[0].reason == "done" and ended[0].steps:
            self._check_snapshot()
        if ended and ended[0].reason == "nothing-to-say":
            assert blank
            assert not self.model.requests
        for request in self.model.requests:
            if not request.messages[0].text.startswith("["):  # not one for a summary
                check_conversation(request.messages)
                assert request.messages[-1].role != "assistant"
        self.model.requests.clear()

    def _check_snapshot(self) -> None:
        """Behind a whole turn the last visible snapshot says what holds."""
        shown = self.session.history.snapshot or ""
        assert shown.endswith(self.context)
        assert bool(shown) == bool(self.context)

    @rule(text=st.sampled_from(["", "noon", "night"]))
    def time_passes(self, text: str) -> None:
        """Change the runtime context."""
        self.context = text

    @rule()
    def compact(self) -> None:
        """Compact on request."""
        self.model.script = ["[summary]"]
        self.run(compact_now(self.agent))
        self.model.requests.clear()

    @invariant()
    def the_log_is_a_conversation(self) -> None:
        """Each request is answered once; nothing that was acknowledged is missing."""
        if self.count == 0:
            return
        history = self.session.history
        log = self.session.events
        assert [event.seq for event in log] == list(range(1, len(log) + 1))
        users = [
            event.data["message"]["text"]
            for event in log
            if event.kind == "message" and event.data["message"]["role"] == "user"
        ]
        kept = [text for text in users if text in self.acknowledged]
        assert kept == self.acknowledged
        if not history.unanswered:
            check_conversation(history.messages)
        else:  # a process was killed: the next turn closes them
            closing = [Message("tool", "", call_id=one.id) for one in history.unanswered]
            check_conversation((*history.messages, *closing))
        shown = [one.snapshot for one in history.entries if one.snapshot is not None]
        assert all(a != b for a, b in pairwise(shown))

    def teardown(self) -> None:
        self.run(self.host.stop())
        self.loop.close()


Life.TestCase.settings = settings(
    max_examples=120,
    stateful_step_count=12,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestLife = Life.TestCase
