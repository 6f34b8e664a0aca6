"""The adapter itself: the `openai` SDK between a request and its reader."""

from __future__ import annotations

import os
from typing import Any, cast
from urllib.parse import urlsplit

from harness_plugins.llm.api import ModelRequest
from harness_plugins.llm.remote.api import EventReader, Key, RemoteAdapter, ToolNames

from .config import Config
from .reader import ChunkReader
from .request import body_of, names_of

__all__ = ["OpenAIAdapter"]


class OpenAIAdapter(RemoteAdapter):
    """Chat completions, streamed."""

    default_key = "OPENAI_API_KEY"

    def sdk(self) -> Any:
        """Return the module `openai`."""
        import openai

        return openai

    def body_of(self, request: ModelRequest) -> dict[str, Any]:
        """Return the arguments of `chat.completions.create`."""
        config = cast("Config", self.config)
        return body_of(request, config, self._names(request), is_openai=self._is_openai())

    def reader_of(self, request: ModelRequest) -> EventReader:
        """Return a reader for one reply."""
        return ChunkReader(self.provider, self._names(request))

    async def open(self, body: dict[str, Any], key: Key | None, http: Any) -> Any:
        """Ask; return the SDK's stream. The client is made for this request, and so is its key."""
        import openai

        headers: dict[str, Any] = {}
        if self.config.base_url is not None:
            # What the environment says of OpenAI is nothing that others should be told.
            headers |= {"OpenAI-Organization": openai.Omit(), "OpenAI-Project": openai.Omit()}
        client = openai.AsyncOpenAI(
            api_key=key.value if key is not None else "none",
            base_url=self.config.base_url,
            max_retries=0,
            timeout=self.http_timeouts(),
            default_headers={**headers, **self.config.headers},
            http_client=http,
        )
        create: Any = client.chat.completions.create
        # Of the client's own headers, this one cannot be left out.
        keyless = {"extra_headers": {"Authorization": openai.Omit()}} if key is None else {}
        return await create(**body, **keyless)

    def _names(self, request: ModelRequest) -> ToolNames:
        return names_of(request.tools, self.provider)

    def _is_openai(self) -> bool:
        url = self.config.base_url or os.environ.get("OPENAI_BASE_URL")
        return not url or urlsplit(url).hostname == "api.openai.com"
