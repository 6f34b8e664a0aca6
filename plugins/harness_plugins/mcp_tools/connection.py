"""One connection to one server, from handshake to end: what it offers, and calls to it."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import anyio
from mcp import types
from mcp.client.session import ClientSession
from mcp.client.subscriptions import SubscriptionLost, listen
from mcp.shared.exceptions import MCPError
from mcp.types.version import LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from harness_plugins.tools.api import ToolError, ToolResult

from .content import result_of, text_of_messages, text_of_resource
from .dispatcher import SiftingDispatcher
from .offer import Fault, Offer, ServerError
from .process import Streams

__all__ = ["Connection", "connected"]

T = TypeVar("T")

_MOST_PAGES = 1000
_HEARTBEAT = 30.0
"""Seconds between two looks whether an endpoint still knows us."""

_PAUSE = 0.05
"""Seconds between two listings, however often a server says that something has changed."""

_LISTEN_AGAIN = 1.0
_LISTEN_AGAIN_MOST = 30.0


class Connection:
    """A session with a server. `changed` is set when it says that its offer has changed."""

    def __init__(self, streams: Streams, server: str, *, is_remote: bool) -> None:
        self._server = server
        self._is_remote = is_remote
        self._dispatcher = SiftingDispatcher(streams)
        self.session = ClientSession(dispatcher=self._dispatcher, message_handler=self._heed)
        self.changed = anyio.Event()
        self._suspicion = anyio.Event()

    @property
    def closed(self) -> anyio.Event:
        """Is set when the server has gone."""
        return self._dispatcher.closed

    def is_lost(self, error: Exception) -> bool:
        """Whether an error of a request is but the end of the connection."""
        if isinstance(error, MCPError) and error.code == types.CONNECTION_CLOSED:
            return True
        return self.closed.is_set()

    def suspect(self) -> None:
        """Have somebody look whether the server is still there."""
        self._suspicion.set()

    async def _heed(self, message: object) -> None:
        if isinstance(
            message,
            types.ToolListChangedNotification
            | types.ResourceListChangedNotification
            | types.PromptListChangedNotification,
        ):
            self.changed.set()

    async def next_change(self) -> None:
        """Wait until the server says that its offer has changed; several at once are one."""
        await self.changed.wait()
        await anyio.sleep(_PAUSE)
        self.changed = anyio.Event()

    # Beginning

    async def shake_hands(self, patience: float) -> None:
        """Agree on a version: the newest way first, then the one that all servers know.

        A server that does not answer the first, which it need not know, has half of `patience`.
        """
        is_agreed = False
        with anyio.move_on_after(patience / 2):
            try:
                await self.session.discover()
                is_agreed = True
            except (MCPError, ValidationError, RuntimeError):
                pass  # it knows the old way only, or is gone, which the old way will say
        if not is_agreed:
            try:
                await self.session.initialize()
            except MCPError as error:
                if error.code != types.UNSUPPORTED_PROTOCOL_VERSION:
                    raise
                await self.session.discover()  # it was slow, and has answered the first after all
        self._dispatcher.version = self.session.protocol_version

    # What it offers

    async def offer(self, *, resources: bool, prompts: bool) -> Offer:
        """Return what the server offers now; what it has no part in, it is not asked for.

        Raises what asking for the tools raises; a list of others that it does not give is a fault.
        """
        can = self.session.server_capabilities or types.ServerCapabilities()
        session = self.session
        self._dispatcher.sifted = []
        tools: list[types.Tool] = []
        if can.tools is not None:
            tools = await self._pages(session.list_tools, lambda page: page.tools)
        faults = [Fault("tool", name, problem) for name, problem in self._dispatcher.sifted]
        found: list[types.Resource] = []
        if resources and can.resources is not None:
            ask = self._pages(session.list_resources, lambda page: page.resources)
            found = await self._if_given(ask, "resources", faults)
        asked: list[types.Prompt] = []
        if prompts and can.prompts is not None:
            ask_prompts = self._pages(session.list_prompts, lambda page: page.prompts)
            asked = await self._if_given(ask_prompts, "prompts", faults)
        return Offer(tuple(tools), tuple(found), tuple(asked), tuple(faults))

    async def _if_given(
        self, asking: Awaitable[list[T]], what: str, faults: list[Fault]
    ) -> list[T]:
        try:
            return await asking
        except (MCPError, ValidationError, ServerError) as error:
            if self.is_lost(error):
                raise
            faults.append(Fault("list", what, str(error)))
            return []

    async def _pages(
        self, ask: Callable[..., Awaitable[Any]], items: Callable[[Any], list[T]]
    ) -> list[T]:
        found: list[T] = []
        cursor: str | None = None
        seen: set[str] = set()
        for _ in range(_MOST_PAGES):
            page = await ask(params=types.PaginatedRequestParams(cursor=cursor))
            found += items(page)
            cursor = page.next_cursor
            if not cursor:
                return found
            if cursor in seen:
                raise ServerError(
                    f'server "{self._server}" goes round in circles: its list has come to page '
                    f"{cursor!r} twice"
                )
            seen.add(cursor)
        raise ServerError(f'server "{self._server}" lists more than {_MOST_PAGES} pages')

    async def read(self, uri: str) -> str:
        """Return the text of a resource."""
        return text_of_resource(await self.session.read_resource(uri))

    async def prompt(self, name: str, arguments: dict[str, str]) -> str:
        """Return the text of a prompt."""
        return text_of_messages((await self.session.get_prompt(name, arguments)).messages)

    # Calling

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Call a tool. Whoever cancels this cancels the call on the server, too.

        Raises ToolError, in words for the model, for what the server refuses, and if it goes.
        """
        try:
            json.dumps(arguments, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise ToolError(f"the arguments hold what is no text: {error.reason}") from None
        try:
            return result_of(await self.session.call_tool(name, arguments))
        except MCPError as error:
            self.suspect()  # an endpoint that has started anew does not know us
            if self.is_lost(error):
                raise ToolError(
                    f'server "{self._server}" went away during the call; its tools come back '
                    "when it does"
                ) from error
            raise ToolError(f'server "{self._server}" refused the call: {error}') from error

    # Watching

    async def listen(self) -> None:
        """Ask for news of changes where the protocol sends none unasked, and go on asking."""
        can = self.session.server_capabilities or types.ServerCapabilities()
        tools = bool(can.tools and can.tools.list_changed)
        resources = bool(can.resources and can.resources.list_changed)
        prompts = bool(can.prompts and can.prompts.list_changed)
        is_modern = self.session.protocol_version in MODERN_PROTOCOL_VERSIONS
        if not is_modern or not (tools or resources or prompts):
            return
        pause = _LISTEN_AGAIN
        while True:
            try:
                async with listen(
                    self.session,
                    tools_list_changed=tools,
                    resources_list_changed=resources,
                    prompts_list_changed=prompts,
                ) as news:
                    self.changed.set()  # of what happened before it listened, nobody tells
                    pause = _LISTEN_AGAIN
                    async for _ in news:
                        pass  # each is a notification, too, and heeded as such
            except SubscriptionLost:
                self.suspect()
            except MCPError as error:
                if error.code == types.METHOD_NOT_FOUND:
                    return
                self.suspect()
            await anyio.sleep(pause)
            pause = min(pause * 2, _LISTEN_AGAIN_MOST)

    async def watch(self) -> None:
        """Look now and then, and at any suspicion, whether an endpoint still knows us.

        A process needs no such look: its end is seen.
        """
        while self._is_remote:
            with anyio.move_on_after(_HEARTBEAT):
                await self._suspicion.wait()
            self._suspicion = anyio.Event()
            if not await self._is_there():
                self.closed.set()
                return

    async def _is_there(self) -> bool:
        with anyio.move_on_after(_HEARTBEAT):  # slow is not gone
            try:
                if self.session.protocol_version in MODERN_PROTOCOL_VERSIONS:
                    await self.session.send_discover(LATEST_MODERN_VERSION)
                else:
                    await self.session.send_ping()
            except MCPError as error:
                return error.code in (types.METHOD_NOT_FOUND, types.REQUEST_TIMEOUT)
        return True


@asynccontextmanager
async def connected(
    streams: Streams, server: str, *, is_remote: bool
) -> AsyncGenerator[Connection]:
    """Open a session on a pair of streams, without a handshake yet."""
    connection = Connection(streams, server, is_remote=is_remote)
    async with connection.session:
        yield connection
