"""The tool calls of one reply: run where it is safe at once, written in the order of requests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NoReturn, cast

import anyio

from harness_plugins.llm.api import ToolRequest
from harness_plugins.tools.api import ToolResult, Tools

from .course import Course
from .drafts import answer_of, words_of
from .records import ToolEnded, ToolStarted

__all__ = ["Calls", "read_arguments"]


class Calls:
    """The calls that one reply asks for.

    Tools that are safe beside others begin at once. The others run one after the other, in the
    order in which the model asked: a check of the second may not overtake the first. A result is
    written as soon as all earlier ones are. `error` says why one could not be. `is_cut`: the reply
    ended at its limit, so that arguments which are missing are not none.
    """

    def __init__(
        self, course: Course, requests: Sequence[ToolRequest], *, is_cut: bool = False
    ) -> None:
        self.course = course
        self.requests = requests
        self.is_cut = is_cut
        self.error: Exception | None = None
        self._results: dict[int, ToolResult] = {}
        self._written = 0
        self._writing = anyio.Lock()

    async def run(self) -> tuple[ToolResult, ...]:
        """Run all, and return the results in the order of the requests."""
        self.course.started.clear()  # ids of earlier replies may come again
        self.course.results.clear()
        tools = self._tools()
        agent = self.course.agent
        alone: list[int] = []
        async with anyio.create_task_group() as tasks:
            for index, request in enumerate(self.requests):
                tool = tools.get(request.name, agent) if tools is not None else None
                if tool is not None and not tool.parallel:
                    alone.append(index)
                else:
                    tasks.start_soon(self._run_in_order, [index], tasks.cancel_scope)
            if alone:
                tasks.start_soon(self._run_in_order, alone, tasks.cancel_scope)
        return tuple(self._results[index] for index in sorted(self._results))

    def _tools(self) -> Tools | None:
        tools: Tools | None = self.course.agent.ctx.get("tools")
        return tools

    async def _run_in_order(self, indexes: Sequence[int], all_calls: anyio.CancelScope) -> None:
        course = self.course
        for index in indexes:
            request = self.requests[index]
            course.started.add(request.id)
            course.emit(ToolStarted(request))
            result = await self._call(request)
            self._results[index] = course.results[request.id] = result
            try:
                await self._write()
            except Exception as error:
                self.error = self.error or error
                all_calls.cancel()
                return

    async def _call(self, request: ToolRequest) -> ToolResult:
        arguments = read_arguments(request.arguments)
        if self.is_cut and not request.arguments.strip():
            arguments = "the reply was cut off at its limit before its arguments were complete"
        tools = self._tools()
        if isinstance(arguments, str):
            text = f'invalid arguments for tool "{request.name}":\n- $: {arguments}'
            return self._failed(request, text, "invalid")
        if tools is None:
            text = f'unknown tool "{request.name}"; available tools: (none)'
            return self._failed(request, text, "unknown")
        try:
            return await tools.execute(
                request.name, arguments, scope=self.course.agent, call_id=request.id
            )
        except Exception as error:  # the service itself, which should not
            self.course.agent.ctx.fiber.report(error, f'calling tool "{request.name}"')
            text = f'tool "{request.name}" failed: {words_of(error)}'
            return self._failed(request, text, "failed")

    def _failed(self, request: ToolRequest, text: str, status: Any) -> ToolResult:
        return ToolResult(text, status, name=request.name, call_id=request.id)

    async def _write(self) -> None:
        """Write the results that are due: all up to the first that is missing."""
        async with self._writing:
            while self._written in self._results:
                request, result = self.requests[self._written], self._results[self._written]
                await self.course.write([answer_of(request, result)])
                self._written += 1
                self.course.emit(ToolEnded(request, result))


def read_arguments(text: str) -> dict[str, Any] | str:
    """Return the arguments that a model wrote, or what is wrong with them. Nothing is none."""
    if not text.strip():
        return {}
    try:
        arguments: Any = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        return f"no JSON object: {error or type(error).__name__}"
    if not isinstance(arguments, dict):
        return f"expected a JSON object, got {text.strip()[:80]}"
    return cast("dict[str, Any]", arguments)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON value")
