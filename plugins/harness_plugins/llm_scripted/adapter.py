"""The adapter itself: a turn of the script as a stream of events."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncGenerator, Iterator
from types import TracebackType
from typing import Self

import anyio

from harness_plugins.llm.api import (
    Calls,
    Message,
    ModelError,
    ModelEvent,
    ModelRequest,
    Reply,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolRequest,
    ToolRequestDelta,
    Usage,
    as_data,
)

from .choose import choose
from .script import Failure, Script, Turn

__all__ = ["ScriptedAdapter"]


class ScriptedAdapter:
    """Replies from a script. Enter it with `ctx.enter`, then publish it."""

    def __init__(self, provider: str, model: str, script: Script) -> None:
        self.provider = provider
        self.model = model
        self._script = script
        self._calls = Calls(provider)
        self._failures: dict[str, int] = {}
        """How often a request has failed: for turns that fail first. Replies need no memory."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._calls.close()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Reply: see ModelAdapter."""
        self._calls.check()
        turn = choose(self._script, request, self.provider)
        digest = _digest(request)
        failure = self._next_failure(turn, digest)
        reply = self._reply(turn, request, digest)
        await self._wait(turn.delay)
        pace = self._script.pace if turn.pace is None else turn.pace
        for number, event in enumerate(_pieces(turn, reply)):
            if failure is not None and number == failure.after:
                break
            if number:
                await self._wait(pace)
            yield event
        if failure is not None:
            raise self._error(failure)
        yield reply

    async def _wait(self, seconds: float) -> None:
        with self._calls.step():
            await anyio.sleep(seconds)
        self._calls.check()

    def _next_failure(self, turn: Turn, digest: str) -> Failure | None:
        """Return the error that is due; None after it has come as often as it should."""
        failure = turn.error
        if failure is None or not failure.times:
            return failure
        count = self._failures.pop(digest, 0)
        if count >= failure.times:
            return None
        self._failures[digest] = count + 1
        return failure

    def _error(self, failure: Failure) -> ModelError:
        return ModelError(
            failure.message,
            kind=failure.kind,
            provider=self.provider,
            status=failure.status,
            retry_after=failure.retry_after,
        )

    def _reply(self, turn: Turn, request: ModelRequest, digest: str) -> Reply:
        message = Message(
            "assistant",
            turn.whole_text,
            requests=[
                ToolRequest(f"call_{digest[:12]}_{number}", call.name, call.text)
                for number, call in enumerate(turn.tools, 1)
            ],
            thinking=[Thinking(turn.thinking, provider=self.provider)] if turn.thinking else (),
        )
        stop = turn.stop or ("tools" if turn.tools else "end")
        usage = _usage(turn, request, message)
        return Reply(message, stop, usage, request.model or self.model)


def _pieces(turn: Turn, reply: Reply) -> Iterator[ModelEvent]:
    for piece in turn.thinking_pieces:
        yield ThinkingDelta(piece)
    for piece in turn.text_pieces:
        yield TextDelta(piece)
    for request in reply.message.requests:
        half = len(request.arguments) // 2
        yield ToolRequestDelta(request.id, request.name, request.arguments[:half])
        yield ToolRequestDelta(request.id, arguments=request.arguments[half:])


def _digest(request: ModelRequest) -> str:
    """Return what tells a request from others, the same in every process."""
    facts = {
        "agent": request.agent,
        "model": request.model,
        "system": request.system,
        "messages": [as_data(message) for message in request.messages],
        "tools": [tool.name for tool in request.tools],
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _usage(turn: Turn, request: ModelRequest, message: Message) -> Usage:
    if turn.usage is not None:
        given = turn.usage
        return Usage(given.input, given.output, given.cached, given.cache_written)
    asked = len(request.system) + sum(map(_length, request.messages))
    return Usage(_tokens(asked), _tokens(_length(message)))


def _length(message: Message) -> int:
    thoughts = sum(len(one.text) for one in message.thinking)
    requests = sum(len(one.name) + len(one.arguments) for one in message.requests)
    return len(message.text) + thoughts + requests


def _tokens(characters: int) -> int:
    return -(-characters // 4)
