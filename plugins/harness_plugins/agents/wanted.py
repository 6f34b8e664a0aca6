"""Wanted: what an agent is to be, before it is one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import attrs

from harness_plugins.session.api import Session

from .errors import AgentError
from .loop import Limits

__all__ = ["Setup", "ToolFilter", "Wanted"]

Setup: TypeAlias = Callable[..., Any]
"""Called with the agent's context, like the body of an effect: sync or async."""

ToolFilter: TypeAlias = "list[str] | tuple[str, ...] | Mapping[str, list[str]]"
"""The names of the inherited tools that are left; or `{"allow": [...], "deny": [...]}`."""


@attrs.frozen
class Wanted:
    """What an agent is to be."""

    name: str
    preset: str | None = None
    model: str | None = None
    provider: str | None = None
    cwd: str | Path | None = None
    persona: str | None = None
    tools: ToolFilter | None = None
    session: str | Session | None = attrs.field(default=None, repr=False)
    limits: Limits | None = None

    def check(self) -> None:
        """Raise AgentError for a setting of another type; Python does not look at annotations."""
        for setting, kinds, expected in _TYPES:
            value = getattr(self, setting)
            if value is not None and not isinstance(value, kinds):
                raise AgentError(
                    f'agent "{self.name}": {setting} is {expected}, got {value!r} '
                    f"({type(value).__name__})"
                )


_TYPES: tuple[tuple[str, tuple[type, ...], str], ...] = (
    ("preset", (str,), "the name of a preset"),
    ("model", (str,), "a text"),
    ("provider", (str,), "a text"),
    ("cwd", (str, Path), "a path"),
    ("persona", (str,), "a text"),
    ("session", (str, Session), "the id of a session, or an open Session"),
    ("limits", (Limits,), "a Limits"),
)
