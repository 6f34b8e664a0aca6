"""What these tests share: a tree with agents, a model that is told what to say, and a checker."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeAlias

import attrs
from anyio.lowlevel import checkpoint
from harness_plugins import agents as agents_plugin
from harness_plugins.agents.api import Agent, AgentEvent, TurnEnded, TurnResult
from harness_plugins.agents.loop import run_turn
from harness_plugins.llm.api import (
    Message,
    ModelError,
    ModelEvent,
    ModelRequest,
    Reply,
    TextDelta,
    ToolRequest,
    Usage,
    publish_adapter,
)
from harness_plugins.session.api import Draft, LogEvent, MemoryJournal, Session
from harness_plugins.tools.api import Tool, Tools

from harness_core import Context, Fiber
from harness_core.prompt import SystemPrompt

EMPTY: dict[str, Any] = {"type": "object", "properties": {}}

Script: TypeAlias = Any
"""A text, tool requests, a Reply, an error; or what returns one of these for a request."""


class Model:
    """A paid model, faked: it says one thing of its script after the other, then "done"."""

    provider = "test"
    model = "model-1"

    def __init__(self, *script: Script, name: str = "test") -> None:
        self.provider = name
        self.script = list(script)
        self.requests: list[ModelRequest] = []
        self.closed = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield a piece of the reply, then the whole of it."""
        self.requests.append(request)
        try:
            said: Script = self.script.pop(0) if self.script else "done"
            await checkpoint()
            if callable(said):
                said = said(request)
            if isinstance(said, Exception):
                yield TextDelta("half of")
                await checkpoint()
                raise said
            reply = reply_of(said)
            if reply.message.text:
                yield TextDelta(reply.message.text)
            await checkpoint()
            yield reply
        finally:
            self.closed += 1

    def plugin(self, ctx: Context) -> None:
        """Be the plugin that publishes it."""
        publish_adapter(ctx, self)


def reply_of(said: object, **usage: int) -> Reply:
    """Return a reply: a text, or tool requests."""
    spent = Usage(**usage) if usage else Usage(10, 2)
    if isinstance(said, Reply):
        return said
    if isinstance(said, str):
        return Reply(Message("assistant", said), usage=spent)
    assert isinstance(said, list | tuple)
    return Reply(Message("assistant", requests=tuple(said)), "tools", usage=spent)


def failure(kind: Any = "overloaded", **facts: Any) -> ModelError:
    """Return what an adapter raises."""
    return ModelError(kind, kind=kind, provider="test", **facts)


def wants(*names: str, arguments: str = "{}") -> list[ToolRequest]:
    """Return requests for tools, each with an id of its own."""
    return [ToolRequest(f"id-{i}-{name}", name, arguments) for i, name in enumerate(names)]


def tool(name: str, run: Callable[..., Any] | str = "ok", **options: Any) -> Tool:
    """Return a tool without arguments."""
    return Tool(
        name, f"Tool {name}.", EMPTY, run=run if callable(run) else lambda _: run, **options
    )


class SlowJournal(MemoryJournal):
    """A log that takes its time, and can be told to fail."""

    def __init__(self, events: Sequence[LogEvent] = ()) -> None:
        super().__init__(events)
        self.fails: Callable[[Sequence[LogEvent]], bool] = lambda _: False
        self.appends: list[tuple[str, ...]] = []

    async def append(self, events: Sequence[LogEvent]) -> None:
        """Write, with a wait before and behind."""
        await checkpoint()
        if self.fails(events):
            raise OSError("no space left on device")
        await super().append(events)
        self.appends.append(tuple(event.kind for event in events))
        await checkpoint()


@attrs.define(eq=False)
class Tree:
    """A tree, and what a test needs of it."""

    root: Context
    model: Model
    model_fiber: Fiber
    tools_fiber: Fiber | None
    journal: SlowJournal
    agent: Agent

    @property
    def messages(self) -> tuple[Message, ...]:
        """The visible conversation."""
        return self.agent.session.history.messages if self.agent.session is not None else ()

    @property
    def log(self) -> tuple[LogEvent, ...]:
        """The log."""
        return self.agent.session.events if self.agent.session is not None else ()

    @property
    def roles(self) -> str:
        """The conversation, a letter for each message: u, a, t; s a snapshot, c a summary."""
        assert self.agent.session is not None
        return "".join(
            "s"
            if one.kind == "snapshot"
            else "c"
            if one.kind == "compaction"
            else one.message.role[0]
            for one in self.agent.session.history.entries
        )

    async def again(self, name: str = "again", **settings: Any) -> Agent:
        """Return another agent that goes on with the log, as a new process would."""
        events = await self.journal.load()
        journal = SlowJournal(events)
        session = Session("s", journal, events)
        self.journal = journal
        self.agent = await self.root.agents.create(name, session=session, **settings)
        return self.agent


@asynccontextmanager
async def tree(
    *script: Script,
    tools: Sequence[Tool] = (),
    with_tools: bool = True,
    drafts: Sequence[Draft] = (),
    grace: float | None = None,
    **settings: Any,
) -> AsyncIterator[Tree]:
    """Open a tree with one agent."""
    async with Context(grace=grace) as root:
        await root.plugin(SystemPrompt, include_harness_identity=False)
        fiber = await root.plugin(Tools) if with_tools else None
        await root.plugin(agents_plugin)
        model = Model(*script)
        model_fiber = await root.plugin(model.plugin)
        for one in tools:
            root.tools.register(one)
        journal = SlowJournal()
        session = Session("s", journal)
        if drafts:
            await session.append_all(drafts)
        agent = await root.agents.create("a", session=session, **settings)
        yield Tree(root, model, model_fiber, fiber, journal, agent)


async def events_of(agent: Agent, text: str, **options: Any) -> list[AgentEvent]:
    """Return all that happens in a turn."""
    async with aclosing(run_turn(agent, text, **options)) as events:
        return [event async for event in events]


def ending(events: Sequence[AgentEvent]) -> TurnResult:
    """Return how a turn ended: the last event, and the only one of its kind."""
    last = events[-1]
    assert isinstance(last, TurnEnded)
    assert sum(isinstance(one, TurnEnded) for one in events) == 1
    return last.result


def kinds(events: Sequence[AgentEvent]) -> list[str]:
    """Return the kinds of events."""
    return [type(one).__name__ for one in events]


def check_conversation(messages: Sequence[Message]) -> None:
    """Assert that any provider would take it: each request answered once, at once, in order."""
    open_ids: list[str] = []
    seen: set[str] = set()
    before = ""
    for message in messages:
        if message.role == "tool":
            assert message.call_id in open_ids, f"a result that nobody asked for: {message}"
            open_ids.remove(message.call_id)
        else:
            assert not open_ids, f"{message} comes before the results of {open_ids}"
        if message.role == "assistant":
            assert before in ("user", "tool"), f"nobody spoke before {message}"
            assert message.text or message.requests or message.thinking
            open_ids = [request.id for request in message.requests]
            assert not seen.intersection(open_ids)
            assert len(set(open_ids)) == len(open_ids)
            seen.update(open_ids)
        before = message.role
    assert not open_ids, f"without results: {open_ids}"
    assert not messages or messages[0].role == "user"
