"""The SDK's dispatcher, with two things more: bad tools are sifted out, and its end is told.

The SDK refuses a whole listing for one tool that breaks the protocol.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import anyio
from mcp.shared.dispatcher import CallOptions, OnNotify, OnNotifyIntercept, OnRequest
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.transport_context import TransportContext
from mcp.types import methods
from mcp.types.version import LATEST_HANDSHAKE_VERSION
from pydantic import ValidationError

from .process import Streams

__all__ = ["SiftingDispatcher"]

_METHOD = "tools/list"


class SiftingDispatcher(JSONRPCDispatcher[TransportContext]):
    """Carries the messages of one connection.

    `closed` is set when the server has gone; `version` is what was negotiated; `sifted` holds what
    the last listing held that is no tool: its name and what is wrong.
    """

    def __init__(self, streams: Streams) -> None:
        super().__init__(*streams)
        self.closed = anyio.Event()
        self.version: str | None = None
        self.sifted: list[tuple[str, str]] = []

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Drive the connection until it ends."""
        try:
            await super().run(on_request, on_notify, on_notify_intercept, task_status=task_status)
        finally:
            self.closed.set()

    async def send_raw_request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
        *,
        _related_request_id: Any = None,
    ) -> dict[str, Any]:
        """Send a request and return the result; of a listing of tools, the part that is sound."""
        raw = await super().send_raw_request(
            method, params, opts, _related_request_id=_related_request_id
        )
        return self._sift(raw) if method == _METHOD else raw

    def _sift(self, raw: dict[str, Any]) -> dict[str, Any]:
        tools = raw.get("tools")
        if not isinstance(tools, list) or self._problem(raw) is None:
            return raw
        sound: list[object] = []
        for tool in cast("list[object]", tools):
            problem = self._problem({**raw, "tools": [tool]})
            if problem is None:
                sound.append(tool)
            else:
                self.sifted.append((_name_of(tool), problem))
        return {**raw, "tools": sound}

    def _problem(self, raw: Mapping[str, Any]) -> str | None:
        try:
            methods.parse_server_result(_METHOD, self.version or LATEST_HANDSHAKE_VERSION, raw)
        except ValidationError as error:
            fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
            place = ".".join(str(part) for part in fault["loc"] if part not in ("tools", 0))
            return f"{place}: {fault['msg']}" if place else str(fault["msg"])
        return None


def _name_of(tool: object) -> str:
    name = cast("dict[str, object]", tool).get("name") if isinstance(tool, dict) else None
    return name if isinstance(name, str) else "(without a name)"
