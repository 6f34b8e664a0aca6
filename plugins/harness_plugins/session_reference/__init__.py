"""`session_reference`: what was said in another session, as runtime context.

    - name: session_reference
      config:
        enabled: true                         # false: nothing is registered
        session: 20260131-142501-5f3a9c01     # its id: `harness sessions CONFIG` lists them
        limit: 8000                           # characters of the whole text
        order: 60

The text is data (`literal`): each line is quoted, control characters are escapes, and the frame
around it cannot be closed from inside. It holds what was said and which tools were called with
which results, summaries included; not what the model thought, nor the other session's runtime
context. Where the limit does not suffice, the latest messages are kept and a notice counts the
others. It is read at each assembly, whoever has the session open; a session that is not there, or
cannot be read, is left out and reported.
"""

from __future__ import annotations

from typing import Any

import attrs

from harness_core import Context
from harness_core.prompt import SystemPrompt
from harness_plugins.session.api import Sessions, project

from .quote import LEAST, quote

__all__ = ["Config", "apply", "inject", "name"]

name = "session_reference"
inject = ["system_prompt", "session"]

_TIMEOUT = 5.0


def _check_limit(_: object, __: attrs.Attribute[Any], limit: int) -> None:
    if limit < LEAST:
        raise ValueError(f"limit is {limit}: expected {LEAST} characters or more")


@attrs.frozen
class Config:
    """Which session, and how many characters of it at most."""

    session: str
    limit: int = attrs.field(default=8000, validator=_check_limit)
    order: float = 60
    enabled: bool = True


def apply(ctx: Context, config: Config) -> None:
    """Register the context `session_reference:ID`."""
    if not config.enabled:
        return
    sessions = ctx[Sessions]
    made: dict[int, str] = {}  # the text, by the number of events that it was made of

    async def reference() -> str:
        count = (await sessions.info(config.session)).events
        if count not in made:
            history = project(await sessions.read(config.session))
            made.clear()
            made[count] = quote(config.session, history, config.limit)
        return made[count]

    ctx[SystemPrompt].context(
        f"session_reference:{config.session}",
        reference,
        order=config.order,
        literal=True,
        optional=True,
        timeout=_TIMEOUT,
    )
