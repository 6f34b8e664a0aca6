"""The settings of `llm_openai`."""

from __future__ import annotations

import attrs

from harness_plugins.llm.remote.api import RemoteConfig

__all__ = ["Config"]


@attrs.frozen
class Config(RemoteConfig):
    """Where the model is and how it is asked; see the plugin's docstring."""

    provider: str = attrs.field(default="openai", validator=attrs.validators.min_len(1))
    return_thinking: bool = False
