"""What both type checkers must refuse; run by test_types.py, never imported.

Every line marked `# wrong` must be reported by each checker, and no other line.
"""

from __future__ import annotations

from harness_core import Context, Event, Service, create_scope
from harness_core.prompt import AssembledSection, SystemPrompt, ToolSchema, render_prompt


class Database(Service, key="database"):
    """A service."""

    def query(self, text: str) -> int:
        """Return a number."""
        return len(text)


async def wrong(ctx: Context, sp: SystemPrompt) -> None:
    """Misuse, one a line."""
    ctx[Database].query(5)  # wrong
    ctx[Database].missing()  # wrong
    ctx[int]  # wrong
    ctx.on()  # wrong
    ctx.on("ping", 5)  # wrong
    ctx.provide("clock")  # wrong
    ctx.effect(5)  # wrong
    create_scope(ctx)  # wrong
    sp.section("s", "x")  # wrong
    sp.section("s", 5, order=1)  # wrong
    sp.section("s", "x", order="1")  # wrong
    sp.section("s", lambda: 5, order=1)  # wrong
    sp.context("s", "x", order=1, complete=True)  # wrong
    sp.variable("v", 5)  # wrong
    sp.tools([])  # wrong
    render_prompt("x")  # wrong
    ToolSchema()  # wrong
    AssembledSection("s", 5)  # wrong
    Event("x", mode="shout")  # wrong
    await ctx.enter(5)  # wrong
