"""`presets`: compositions that agents join. The service `presets`.

    - name: presets
      config:
        presets:
          coder:
            persona: You write code.
            plugins:
              - name: ./rules.py
          reviewer:
            file: ./reviewer.yaml     # a mapping with persona and plugins

A preset is mounted once, under a scope of its own, when the first agent joins it, and goes when
the last one leaves. Agents that have joined see what it contributes: the chain is agent, preset,
global layer.
"""

from __future__ import annotations

from harness_core import Context

from .composition import PresetConfig
from .service import Presets, PresetsConfig

__all__ = ["Config", "PresetConfig", "Presets", "apply", "inject", "name", "provides"]

name = "presets"
inject = ["system_prompt"]
provides = ["presets"]
Config = PresetsConfig


def apply(ctx: Context, config: PresetsConfig) -> None:
    """Publish the service; nothing is mounted before somebody joins."""
    ctx.provide("presets", Presets(ctx, config))
