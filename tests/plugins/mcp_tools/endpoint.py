"""A real server of the protocol behind a URL: the SDK's own, run by uvicorn in a thread."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import MutableMapping
from typing import Any

import anyio
import uvicorn
from mcp.server.mcpserver import Context, MCPServer

__all__ = ["Endpoint"]

DEADLINE = 10.0


async def echo(word: str) -> str:
    """Say it again."""
    return word


async def add_tool(name: str, ctx: Context[Any, Any]) -> str:
    """Offer one tool more, and tell everybody, in the new way and in the old one."""
    ctx.mcp_server.add_tool(echo, name=name)
    await ctx.notify_tools_changed()
    await ctx.session.send_tool_list_changed()
    return "added"


async def slow(ctx: Context[Any, Any]) -> str:
    """Never come to an end."""
    endpoint = ENDPOINTS[ctx.mcp_server.name]
    endpoint.journal.append("slow began")
    try:
        await anyio.sleep_forever()
    finally:
        endpoint.journal.append("slow ended")
    return "never"


ENDPOINTS: dict[str, Endpoint] = {}


class Endpoint:
    """One server at one port; `is_old` makes it know the old handshake alone.

    `mute_from` is the first POST that it does not answer; `is_silent` makes it refuse the stream of
    notices; `is_clinging` makes it not answer who takes leave; `late` is a tool that it offers when
    somebody begins to listen, too late for them to be told.

    `journal` holds what it was asked: the methods of HTTP, and what its tools note.
    """

    def __init__(
        self,
        *,
        is_old: bool = False,
        is_silent: bool = False,
        is_clinging: bool = False,
        mute_from: int = 1_000_000,
        token: str = "",
        late: str = "",
    ) -> None:
        self.is_old = is_old
        self.is_silent = is_silent
        self.is_clinging = is_clinging
        self.mute_from = mute_from
        self.late = late
        self.token = token
        self.journal: list[str] = []
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self._socket.close()
        self._server: uvicorn.Server
        self._thread: threading.Thread

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}/mcp"

    def start(self, *tools: str) -> Endpoint:
        """Start it, new, and wait until it is there."""
        server = MCPServer(f"endpoint {self.port}", log_level="CRITICAL")
        ENDPOINTS[server.name] = self
        for tool in (echo, add_tool, slow):
            server.add_tool(tool)
        for name in tools:
            server.add_tool(echo, name=name)
        self._mcp = server
        self._app: Any = server.streamable_http_app()
        config = uvicorn.Config(
            self, host="127.0.0.1", port=self.port, log_level="critical", lifespan="on"
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run)
        self._thread.start()
        deadline = time.monotonic() + DEADLINE
        while not self._server.started:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        return self

    def stop(self) -> None:
        """End it as a crash would: at once, with all that it has open."""
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(DEADLINE)
        assert not self._thread.is_alive()

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            self.journal.append(scope["method"])
            headers = {name.decode(): value.decode() for name, value in scope["headers"]}
            if self.token and headers.get("authorization") != f"Bearer {self.token}":
                await answer(send, 401, {"error": "who are you?"})
                return
            is_mute = self.journal.count("POST") >= self.mute_from and scope["method"] == "POST"
            if is_mute or (self.is_clinging and scope["method"] == "DELETE"):
                await receive()  # the request
                await receive()  # the end of who made it
                return
            if self.is_silent and scope["method"] == "GET":
                await answer(send, 405, {})
                return
            if self.late and headers.get("mcp-method") == "subscriptions/listen":
                self._mcp.add_tool(echo, name=self.late)
            if self.is_old and headers.get("mcp-protocol-version", "") > "2026":
                error = {"code": -32601, "message": "Method not found"}
                await answer(send, 200, {"jsonrpc": "2.0", "id": 1, "error": error})
                return
        await self._app(scope, receive, send)


async def answer(send: Any, status: int, body: object) -> None:
    """Send a response of JSON."""
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(body).encode()})
