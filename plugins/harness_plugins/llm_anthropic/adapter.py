"""The adapter itself: the `anthropic` SDK between a request and its reader."""

from __future__ import annotations

import re
from typing import Any, cast

from harness_plugins.llm.api import ModelRequest
from harness_plugins.llm.remote.api import EventReader, Key, RemoteAdapter

from .config import Config
from .reader import MessageReader
from .request import body_of, names_of

__all__ = ["AnthropicAdapter"]


class AnthropicAdapter(RemoteAdapter):
    """The Messages API, streamed."""

    default_key = "ANTHROPIC_API_KEY"

    def sdk(self) -> Any:
        """Return the module `anthropic`."""
        import anthropic

        return anthropic

    def body_of(self, request: ModelRequest) -> dict[str, Any]:
        """Return the arguments of `messages.create`."""
        names = names_of(request.tools, self.provider)
        return body_of(request, cast("Config", self.config), names)

    def reader_of(self, request: ModelRequest) -> EventReader:
        """Return a reader for one reply."""
        return MessageReader(self.provider, names_of(request.tools, self.provider))

    def explained(self, message: str, request: ModelRequest) -> str:
        """Return a message that counts tools with their names."""

        def named(match: re.Match[str]) -> str:
            index = int(match[1])
            tools = request.tools
            return f'{match[0]} ("{tools[index].name}")' if index < len(tools) else match[0]

        return re.sub(r"\btools\.(\d+)\b", named, message)

    async def open(self, body: dict[str, Any], key: Key | None, http: Any) -> Any:
        """Ask; return the SDK's stream. The client is made for this request, and so is its key."""
        import anthropic

        headers: dict[str, Any] = {} if key is not None else {"Authorization": anthropic.Omit()}
        client = anthropic.AsyncAnthropic(
            api_key=key.value if key is not None else "none",
            base_url=self.config.base_url,
            max_retries=0,
            timeout=self.http_timeouts(),
            default_headers={**headers, **self.config.headers},
            http_client=http,
            open_telemetry=False,  # what is asked goes to the provider and nowhere else
        )
        create: Any = client.messages.create
        return await create(**body)
