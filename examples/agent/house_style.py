"""How the manual is written. Save another rule while the chat runs, and say /reload."""

from harness_core import inject

RULE = "Write sentences of at most twelve words."


@inject("system_prompt")
def apply(ctx):
    """Say how to write."""
    ctx.system_prompt.section("house-style", RULE, order=10)
