"""`llm_scripted`: a model whose replies are written down, for demos and tests.

    - name: llm_scripted
      config:
        file: replies.yaml      # a relative path starts at the manifest
        turns: []               # instead of a file: the same turns, here
        at_end: error           # when no turn is left: error, or repeat from the first
        pace: 0.02              # seconds between pieces
        provider: scripted      # the service is llm_<provider>
        model: scripted

A file holds a list of turns, or a mapping with `turns`, `at_end` and `pace`:

    - when: {user: weather}           # all optional: user, system, agent, model
      thinking: I have to look it up.
      tools: [{name: forecast, arguments: {city: Oslo}}]
    - when: {user: weather}
      text: It is 20 degrees.         # streamed word by word; or `pieces: [...]`
      delay: 0.5                      # seconds before the first piece
      usage: {input: 100, output: 9, cached: 80, cache_written: 0}
    - text: I know nothing of that.
      error: {kind: overloaded, times: 2}     # fails twice, then replies

Which turn replies follows from the messages of the request alone, so a resumed or forked
conversation goes on where it was, and the same request has the same reply.
"""

from __future__ import annotations

from harness_core import Context
from harness_plugins.llm.api import publish_adapter

from .config import Config

__all__ = ["Config", "apply", "name"]

name = "llm_scripted"


async def apply(ctx: Context, config: Config) -> None:
    """Publish the adapter as `llm_<provider>`; restart when its file changes."""
    from .adapter import ScriptedAdapter
    from .read import script_of

    adapter = await ctx.enter(
        ScriptedAdapter(config.provider, config.model, script_of(ctx, config))
    )
    publish_adapter(ctx, adapter)
