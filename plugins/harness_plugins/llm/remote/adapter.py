"""An adapter over HTTP: one request is one attempt, and everything ends with the fiber.

A reply is read step by step; each step stands in a cancel scope of its own, so that unloading the
plugin can end it, wherever its reader is. Errors are made outside of `except` blocks and have no
cause: the exceptions of an SDK hold the request, and that holds the key.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import aclosing
from types import TracebackType
from typing import Any, ClassVar, Self
from urllib.parse import urlsplit

import anyio
import attrs

from ..calls import Calls
from ..errors import ModelError
from ..stream import ModelEvent, ModelRequest
from .fault import Fault
from .faults import fault_of, refused_request
from .keys import Key, KeySource, key_source
from .reader import EventReader
from .settings import RemoteConfig, reserved_options
from .unicode import carried_data, carried_event

__all__ = ["RemoteAdapter"]

_END: Any = object()
_CLOSING = 5.0
"""Seconds that a connection may take to close."""


class RemoteAdapter(ABC):
    """A ModelAdapter in front of an official SDK. Enter it with `ctx.enter`, then publish it."""

    default_key: ClassVar[str]
    """The environment variable that usually holds the key."""

    def __init__(self, config: RemoteConfig, key: KeySource) -> None:
        self.provider = config.provider
        self.model = config.model
        self.config = config
        self._key = key
        self._calls = Calls(config.provider)
        self._http: Any = None

    @classmethod
    def of(cls, config: RemoteConfig, directory: str) -> Self:
        """Return an adapter; a relative `key_file` starts at `directory`."""
        return cls(config, key_source(config, cls.default_key, directory))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.provider} {self.model!r}>"

    # For each provider

    @abstractmethod
    def sdk(self) -> Any:
        """Return the SDK's module."""

    @abstractmethod
    def body_of(self, request: ModelRequest) -> dict[str, Any]:
        """Return the arguments of the SDK's call; raise ModelError for what cannot be said."""

    @abstractmethod
    def reader_of(self, request: ModelRequest) -> EventReader:
        """Return a reader for one reply."""

    def http_timeouts(self) -> Any:
        """Return what the HTTP library watches, for the SDK's client."""
        from .transport import timeouts_for

        return timeouts_for(self.config.timeout)

    @abstractmethod
    async def open(self, body: dict[str, Any], key: Key | None, http: Any) -> Any:
        """Ask; return the SDK's stream. The key is not to be kept."""

    def explained(self, message: str, request: ModelRequest) -> str:
        """Return what the provider says of a request with the names that things have here."""
        del request
        return message

    # For everybody

    async def __aenter__(self) -> Self:
        from .transport import new_http_client

        self.sdk()  # imported now, so that the first request need not
        self._http = new_http_client(self.config.timeout)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        http, self._http = self._http, None
        self._calls.close()
        # Replies that nobody is waiting for right now lose their connection here.
        await http.aclose()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Ask the model: see ModelAdapter."""
        self._check(request)
        key: Key | None = None
        with self._calls.step():
            key = await self._key.read()
        async with aclosing(self._events(request, key)) as events:
            while (event := await self._step(events, request, key)) is not None:
                yield event

    def _check(self, request: ModelRequest) -> None:
        reserved = reserved_options(request.options)
        if reserved:
            named = ", ".join(reserved)
            raise refused_request(f"the request's options hold {named}", self.provider)
        if not request.model and not self.model:
            raise refused_request(
                "no model is named: name one in the request, or as `model` in the config",
                self.provider,
            )

    async def _step(
        self, events: AsyncGenerator[ModelEvent, None], request: ModelRequest, key: Key | None
    ) -> ModelEvent | None:
        fault: Fault | None = None
        try:
            with self._calls.step():
                return await anext(events, None)
        except ModelError:
            raise
        except Exception as error:  # whatever an SDK, or what is under it, raises
            fault = fault_of(self.sdk(), error, self._address())
        self._calls.check()  # the fault may be that the connection was closed by us
        assert fault is not None, "a step ends quietly only where the adapter is closed"
        explained = attrs.evolve(fault, message=self.explained(fault.message, request))
        raise explained.error(self.provider, key)

    async def _events(
        self, request: ModelRequest, key: Key | None
    ) -> AsyncGenerator[ModelEvent, None]:
        body: dict[str, Any] = carried_data(self.body_of(request))
        reader = self.reader_of(request)
        stream = await self.open(body, key, self._http)
        try:
            while (item := await _next_item(stream, reader)) is not _END:
                for event in reader.feed(item):
                    yield carried_event(event)
            if not reader.is_complete:
                raise self._cut_off(stream)
        finally:
            await _close(stream)
        yield carried_event(reader.reply(stream.response.headers))

    def _cut_off(self, stream: Any) -> ModelError:
        kind: str = stream.response.headers.get("content-type", "")
        if kind.startswith("text/event-stream"):
            fault = Fault(f"{self._address()} ended the reply before it was whole", "disconnected")
        else:
            fault = Fault(f"{self._address()} sent no stream, but {kind or 'nothing'}", "protocol")
        return fault.error(self.provider, None)

    def _address(self) -> str:
        url = self.config.base_url
        return urlsplit(url).netloc if url is not None else f"the API of {self.provider}"


async def _next_item(stream: Any, reader: EventReader) -> Any:
    try:
        return await anext(stream, _END)
    except Exception:
        if reader.is_complete:
            return _END  # the reply is whole, only the end of the connection went wrong
        raise


async def _close(stream: Any) -> None:
    """Close the connection, then let the generators within the SDK come to their end.

    They are many, one in the other, and none closes the next: left where they are, the event loop
    would have to finish each in a task of its own.
    """
    with anyio.CancelScope(shield=True, deadline=anyio.current_time() + _CLOSING):
        try:
            await stream.close()
            while True:
                await anext(stream)
        except Exception:  # StopAsyncIteration, or that the connection is closed
            pass
