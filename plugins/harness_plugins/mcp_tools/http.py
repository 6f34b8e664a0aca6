"""A server behind a URL: the SDK's streamable HTTP, told of what it keeps to itself."""

from __future__ import annotations

import functools
import ssl
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from types import TracebackType

import httpx2
from mcp.client.streamable_http import streamable_http_client

from .process import LONGEST_MESSAGE, Streams

__all__ = ["ServerEndpoint"]


@functools.cache
def _trust() -> ssl.SSLContext:
    """Return whom we trust; read once, for it takes long, and attempts may be many."""
    return httpx2.create_ssl_context()


class ServerEndpoint:
    """An asynchronous context manager: the endpoint, as a pair of message streams.

    `listens_again()` is called whenever the stream that the server sends its notices on is opened
    again: then it had broken.
    """

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        timeout: float,
        listens_again: Callable[[], None],
    ) -> None:
        self._url = url
        self._headers = headers
        # Reading has no limit of its own: a server may be silent for as long as it has nothing to
        # say, and a call has its own timeout.
        self._timeout = httpx2.Timeout(timeout, read=None)
        self._listens_again = listens_again
        self._stack = AsyncExitStack()
        self._listened = False

    async def __aenter__(self) -> Streams:
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(
                httpx2.AsyncClient(
                    headers=dict(self._headers),
                    timeout=self._timeout,
                    event_hooks={"request": [self._note]},
                    verify=_trust(),
                )
            )
            streams = await stack.enter_async_context(
                streamable_http_client(
                    self._url, http_client=client, max_sse_event_size=LONGEST_MESSAGE
                )
            )
            self._stack = stack.pop_all()
        return streams

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return await self._stack.__aexit__(kind, error, traceback)

    async def _note(self, request: httpx2.Request) -> None:
        if request.method != "GET":
            return
        if self._listened:
            self._listens_again()
        self._listened = True

    def last_words(self) -> str:
        """Say nothing: an endpoint ends without a word."""
        return ""
