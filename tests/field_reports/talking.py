"""A live tree with agents that talk to a model, which is paid for and so the only fake here."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import harness_plugins.agents
import harness_plugins.session
from anyio.lowlevel import checkpoint
from harness_plugins.llm.api import (
    Message,
    ModelEvent,
    ModelRequest,
    Reply,
    ToolRequest,
    Usage,
    publish_adapter,
)
from harness_plugins.tools.api import Tools

from harness_core import Context
from harness_core.prompt import SystemPrompt


class Model:
    """Keeps every request; replies what its script says, and then "Yes."."""

    provider = "test"
    model = "m-1"

    def __init__(self, *script: Any) -> None:
        self.script = list(script)
        self.requests: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Reply once: a text, tool requests, or an error."""
        self.requests.append(request)
        said = self.script.pop(0) if self.script else "Yes."
        await checkpoint()
        if isinstance(said, Exception):
            raise said
        if isinstance(said, str):
            yield Reply(Message("assistant", said), usage=Usage(10, 2))
        else:
            yield Reply(Message("assistant", requests=said), "tools", usage=Usage(10, 2))

    def sent(self, number: int = -1) -> list[str]:
        """Return the texts of the messages of a request."""
        return [message.text for message in self.requests[number].messages]


def wants(name: str, arguments: str = "{}") -> list[ToolRequest]:
    """Return a request for a tool."""
    return [ToolRequest(f"id-{name}", name, arguments)]


@asynccontextmanager
async def talking(
    *script: Any, sessions: Path | None = None, persona: str = "", **config: Any
) -> AsyncIterator[tuple[Context, Model]]:
    """Open a tree with prompt, tools, agents and a model; `sessions` is where they are kept."""
    async with Context() as root:
        await root.plugin(SystemPrompt, include_harness_identity=False, persona=persona)
        await root.plugin(Tools)
        if sessions is not None:
            await root.plugin(harness_plugins.session, {"directory": str(sessions)})
        await root.plugin(harness_plugins.agents, config)
        model = Model(*script)
        publish_adapter(root, model)
        yield root, model
