"""The HTTP client that both SDKs speak through, with deadlines for the bytes of a reply.

Imported when an adapter is loaded, not before: it loads `httpx2`, the library under both SDKs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx2

from .fault import Fault
from .settings import Timeouts

__all__ = ["network_fault", "new_http_client", "timeouts_for"]

_BEGAN = "harness_began"


def timeouts_for(timeouts: Timeouts) -> httpx2.Timeout:
    """Return what the HTTP library itself watches: the connection, and the response's head."""
    return httpx2.Timeout(
        connect=timeouts.connect,
        read=timeouts.first_byte,
        write=timeouts.between_bytes,
        pool=timeouts.connect,
    )


def new_http_client(timeouts: Timeouts) -> httpx2.AsyncClient:
    """Return a client that raises ReadTimeout when the bytes of a response are late."""

    async def note_the_time(request: httpx2.Request) -> None:
        limits = timeouts_for(timeouts).as_dict()
        now = anyio.current_time()
        request.extensions = {**request.extensions, _BEGAN: now, "timeout": limits}

    async def watch(response: httpx2.Response) -> None:
        # The library's limit was for the head: it reads it anew before each part of the body.
        response.request.extensions["timeout"]["read"] = None
        began: float = response.request.extensions[_BEGAN]
        if isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _Watched(response.stream, response.request, timeouts, began)

    return httpx2.AsyncClient(
        timeout=timeouts_for(timeouts),
        # As many as both SDKs allow: each running reply has one.
        limits=httpx2.Limits(max_connections=1000, max_keepalive_connections=100),
        follow_redirects=True,
        event_hooks={"request": [note_the_time], "response": [watch]},
    )


class _Watched(httpx2.AsyncByteStream):
    """The bytes of a response, each of them in time.

    Any byte counts, also a comment that only says that the server is still there.
    """

    def __init__(
        self,
        inner: httpx2.AsyncByteStream,
        request: httpx2.Request,
        timeouts: Timeouts,
        began: float,
    ) -> None:
        self._inner = inner
        self._request = request
        self._timeouts = timeouts
        self._began = began

    async def __aiter__(self) -> AsyncIterator[bytes]:
        parts = aiter(self._inner)
        limit = self._timeouts.first_byte
        deadline = self._began + limit
        while True:
            late = f"the reply did not begin within {limit:g} s"
            if deadline != self._began + self._timeouts.first_byte:
                late = f"the reply stopped for {limit:g} s"
            part: bytes | None = None
            # No `yield` in here: a scope must be left where it was entered.
            with anyio.CancelScope(deadline=deadline) as scope:
                part = await anext(parts, None)
            if scope.cancelled_caught:
                raise httpx2.ReadTimeout(late, request=self._request)
            if part is None:
                return
            yield part
            limit = self._timeouts.between_bytes
            deadline = anyio.current_time() + limit

    async def aclose(self) -> None:
        await self._inner.aclose()


def network_fault(error: BaseException, address: str) -> Fault | None:
    """Return the facts if a network error is behind what was raised."""
    found: Any = error
    while found is not None and not isinstance(found, httpx2.HTTPError):
        found = found.__cause__
    if found is None:
        return None
    said = str(found) or type(found).__name__
    match found:
        case httpx2.ConnectTimeout() | httpx2.PoolTimeout():
            return Fault(f"no connection to {address} in time", "timed-out")
        case httpx2.TimeoutException():
            detail = str(found) or "no answer in time"
            return Fault(f"{detail} ({address})", "timed-out")
        case httpx2.ConnectError() | httpx2.ProxyError():
            return Fault(f"no connection to {address}: {said}", "disconnected")
        case httpx2.NetworkError() | httpx2.RemoteProtocolError():
            return Fault(
                f"the connection to {address} ended before the reply: {said}", "disconnected"
            )
        case _:
            return Fault(f"no reply can be read from {address} ({said})", "protocol")
