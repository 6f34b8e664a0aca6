"""Short ways to write sessions in tests, and what Hypothesis makes of them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from harness_plugins import session as plugin
from harness_plugins.llm.api import Message, ToolRequest
from harness_plugins.session.api import Session
from hypothesis import strategies as st

from harness_core import Context

__all__ = ["answer", "ask", "assistant", "filled", "store", "texts", "user"]

texts = st.text(st.characters(), max_size=20) | st.sampled_from(
    ["\0", "\ud800", "a\udfffb", "\u2028", "\x85", "😀", "\r\n", "\\u0000", '"', "\\"]
)
"""Every text that Python can hold, surrogates and NUL included, but for pairs of surrogates."""


def user(text: str = "question") -> Message:
    """What a user says."""
    return Message("user", text)


def assistant(text: str = "answer") -> Message:
    """What the model says."""
    return Message("assistant", text)


def ask(*ids: str) -> Message:
    """A reply that wants tools to be called."""
    return Message("assistant", requests=tuple(ToolRequest(one, "bash") for one in ids))


def answer(id: str) -> Message:
    """The result of a call."""
    return Message("tool", f"result of {id}", call_id=id)


async def filled(*messages: Message, session: Session | None = None) -> Session:
    """A session with these messages; in memory unless one is given."""
    session = session or Session("s")
    for message in messages:
        await session.add(message)
    return session


@asynccontextmanager
async def store(settings: dict[str, Any]) -> AsyncGenerator[Context]:
    """A tree with the plugin mounted: one process's view of a store."""
    async with Context() as root:
        await root.plugin(plugin, settings)
        yield root
