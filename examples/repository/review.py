"""What a reviewer has of its own: a checklist, no tools that change files, no git context."""

from __future__ import annotations

from harness_core import Context
from harness_core.prompt import SystemPrompt

name = "review"
inject = ["system_prompt", "editing"]

CHECKLIST = """\
For each change, look for:
- behaviour that no test covers;
- an error whose message does not say what would have been right;
- a name that says something else than the code does."""


def apply(ctx: Context) -> None:
    """Contribute the checklist, and leave out what a reviewer must not have."""
    prompt = ctx[SystemPrompt]
    prompt.section("review:checklist", CHECKLIST, order=30)
    prompt.section(
        "conventions",
        "Judge a change by the conventions of the code around it, not by your own.",
        order=10,
    )
    prompt.suppress_runtime_context("git")
    ctx.editing.forbid()
