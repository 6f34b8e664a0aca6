"""What is said with the process during one run: calls of tools, and their answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from anyio.abc import TaskGroup

from harness_plugins.tools.api import ToolResult

from .messages import Connection, Disconnected, Message

__all__ = ["Call", "Conversation"]

Call = Callable[[str, Any], Awaitable[ToolResult]]


class Conversation:
    """What is said during one run. `ended` is what the process says last."""

    def __init__(self, connection: Connection, call: Call) -> None:
        self._connection = connection
        self._call = call
        self._calls: dict[int, anyio.CancelScope] = {}
        self.has_started = False
        self.ended: Message | None = None

    async def hold(self, run: Message) -> None:
        """Tell the process to run, and do what it asks, until it has ended or is gone."""
        async with anyio.create_task_group() as tasks:
            try:
                await self._connection.send(run)
                while self.ended is None:
                    message = await self._connection.receive()
                    kind = message.get("kind")
                    if kind == "started":
                        self.has_started = True
                    elif kind == "call":
                        self._begin(tasks, message)
                    elif kind == "cancel" and message["call"] in self._calls:
                        self._calls[message["call"]].cancel()
                    elif kind == "ended":
                        self.ended = message
            except (Disconnected, KeyError, TypeError):
                pass  # it is gone, or makes no sense: there is no end to tell of
            # What the code did not wait for, nobody waits for.
            tasks.cancel_scope.cancel()

    def _begin(self, tasks: TaskGroup, message: Message) -> None:
        scope = self._calls[message["call"]] = anyio.CancelScope()
        tasks.start_soon(self._answer, scope, message)

    async def _answer(self, scope: anyio.CancelScope, message: Message) -> None:
        number = message["call"]
        answer: Message = {"kind": "answer", "call": number}
        try:
            with scope:
                result = await self._call(message["tool"], message["arguments"])
                if result.is_error:
                    answer["error"] = result.text
                else:
                    answer["value"] = result.data
                await self._send(answer, result)
        finally:
            self._calls.pop(number, None)

    async def _send(self, answer: Message, result: ToolResult) -> None:
        try:
            await self._connection.send(answer)
        except (TypeError, ValueError):  # infinite numbers, say: JSON has none
            await self._connection.send({**answer, "value": result.text})
        except Disconnected:
            pass  # whoever reads sees that, too
