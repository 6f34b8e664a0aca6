"""The settings of `llm_scripted`."""

from __future__ import annotations

from typing import Any, Literal

import attrs

__all__ = ["Config"]


@attrs.frozen
class Config:
    """Where the script is; see the plugin's docstring."""

    file: str | None = None
    turns: list[Any] | None = None
    at_end: Literal["error", "repeat"] | None = None
    pace: float | None = None
    provider: str = attrs.field(default="scripted", validator=attrs.validators.min_len(1))
    model: str = "scripted"

    def __attrs_post_init__(self) -> None:
        if (self.file is None) == (self.turns is None):
            raise ValueError("expected either file or turns")
        if self.pace is not None and self.pace < 0:
            raise ValueError(f"pace is {self.pace}: expected 0 or more seconds")
