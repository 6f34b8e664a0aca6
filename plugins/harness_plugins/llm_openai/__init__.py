"""`llm_openai`: models behind the chat completions of OpenAI, DeepSeek, vLLM, Ollama and others.

    - name: llm_openai
      config:
        provider: deepseek              # default openai; the service is llm_<provider>
        model: deepseek-chat            # where a request names none
        base_url: https://api.deepseek.com
        key_env: DEEPSEEK_API_KEY       # default OPENAI_API_KEY; "" sends no key
        key_file: secrets/deepseek      # instead of key_env
        timeout: {connect: 10, first_byte: 300, between_bytes: 120}   # seconds
        max_tokens: 4096                # of a reply, where a request says nothing
        options: {top_p: 0.9}           # further fields of each request
        headers: {x-team: blue}
        return_thinking: false          # give a turn's reasoning_content back within that turn

Through the official `openai` SDK, which is loaded with this plugin. Mount it once for each
provider. The key is read anew for each request.
"""

from __future__ import annotations

from harness_core import Context
from harness_plugins.llm.api import loading_extra, publish_adapter

from .config import Config

__all__ = ["Config", "apply", "name"]

name = "llm_openai"


async def apply(ctx: Context, config: Config) -> None:
    """Publish the adapter as `llm_<provider>`."""
    loader = ctx.get("loader")
    directory = str(loader.directory) if loader is not None else ""
    with loading_extra(name, "openai"):
        from .adapter import OpenAIAdapter

        # Entered in here too: that imports the SDK.
        adapter = await ctx.enter(OpenAIAdapter.of(config, directory))
    publish_adapter(ctx, adapter)
