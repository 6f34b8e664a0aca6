"""`tools`: what the model may call, per agent scope. The service `tools`.

    - name: tools
      config:
        timeout: 300          # seconds; of a tool that has none of its own
        max_output: 50000     # characters of a result

Plugins register tools and restrict what a scope inherits; whoever runs the model executes calls.
What the prompt says, what a lookup finds and what a call can do come from one answer, for each
scope, at each moment. Registrations belong to whoever made them and outlive a restart of this
plugin. What other plugins may import is in `harness_plugins.tools.api`.
"""

from __future__ import annotations

from harness_core import Context

from .api import Tools, ToolsConfig

__all__ = ["Config", "Tools", "apply", "inject", "name", "provides"]

name = "tools"
inject = ["system_prompt"]
provides = ["tools"]
Config = ToolsConfig


def apply(ctx: Context, config: ToolsConfig) -> None:
    """Publish the service."""
    ctx.plugin(Tools, config)
