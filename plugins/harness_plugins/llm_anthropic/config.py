"""The settings of `llm_anthropic`."""

from __future__ import annotations

from typing import Literal

import attrs

from harness_plugins.llm.remote.api import RemoteConfig

__all__ = ["Config"]


@attrs.frozen
class Config(RemoteConfig):
    """Where the model is and how it is asked; see the plugin's docstring."""

    provider: str = attrs.field(default="anthropic", validator=attrs.validators.min_len(1))
    cache: Literal["off", "5m", "1h"] = attrs.field(
        default="5m", validator=attrs.validators.in_(("off", "5m", "1h"))
    )
