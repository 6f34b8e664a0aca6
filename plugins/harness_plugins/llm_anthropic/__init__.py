"""`llm_anthropic`: models behind the Messages API of Anthropic.

    - name: llm_anthropic
      config:
        provider: anthropic             # the service is llm_<provider>
        model: claude-sonnet-4-5        # where a request names none
        base_url: https://gateway.example.org
        key_env: ANTHROPIC_API_KEY      # the default; "" sends no key
        key_file: secrets/anthropic     # instead of key_env
        timeout: {connect: 10, first_byte: 300, between_bytes: 120}   # seconds
        max_tokens: 8192                # of a reply, where a request says nothing
        cache: 5m                       # how long prompts are kept: off, 5m, 1h
        options: {top_k: 5}             # further fields of each request
        headers: {anthropic-beta: some-feature}

Through the official `anthropic` SDK, which is loaded with this plugin. What later requests repeat
is marked for the provider's cache: the tools, the stable part of the system text, and the
messages. The key is read anew for each request.
"""

from __future__ import annotations

from harness_core import Context
from harness_plugins.llm.api import loading_extra, publish_adapter

from .config import Config

__all__ = ["Config", "apply", "name"]

name = "llm_anthropic"


async def apply(ctx: Context, config: Config) -> None:
    """Publish the adapter as `llm_<provider>`."""
    loader = ctx.get("loader")
    directory = str(loader.directory) if loader is not None else ""
    with loading_extra(name, "anthropic"):
        from .adapter import AnthropicAdapter

        # Entered in here too: that imports the SDK.
        adapter = await ctx.enter(AnthropicAdapter.of(config, directory))
    publish_adapter(ctx, adapter)
