"""Tools that change things, and the guidance that goes with them.

Mounted in an agent's scope, it offers the tools to that agent and to the agents below it. One of
those may give them up with `ctx.editing.forbid()`; the guidance then goes too, because it
requires the tools.
"""

from __future__ import annotations

from harness_core import Context, Effect, Service, scope_of
from harness_core.prompt import AssembleContext, SystemPrompt, ToolProviderResult, ToolSchema

PATH = {"type": "string", "description": "Path below the repository's root."}
TEXT = {"type": "string"}

TOOLS = [
    ToolSchema(
        "edit_file",
        "Replace one text in a file by another.",
        {
            "type": "object",
            "properties": {"path": PATH, "old": TEXT, "new": TEXT},
            "required": ["path", "old", "new"],
        },
    ),
    ToolSchema(
        "run_tests",
        "Run the tests, all of them or those whose names match.",
        {"type": "object", "properties": {"match": TEXT}},
    ),
]


class Editing(Service, key="editing"):
    """Offers the tools, except to scopes that gave them up."""

    inject = ("system_prompt",)

    def __init__(self, ctx: Context) -> None:
        self._forbidden: list[object] = []
        prompt = ctx[SystemPrompt]
        prompt.tools(self._tools)
        prompt.section(
            "guidance:editing",
            "Change as little as you can with `edit_file`, then call `run_tests`.",
            order=120,
            requires_tools=("edit_file", "run_tests"),
        )

    def forbid(self) -> Effect:
        """Hide the tools in the caller's scope for as long as the caller lives."""
        scope = scope_of(self.ctx)
        self._forbidden.append(scope)
        return self.ctx.effect(
            lambda: lambda: self._forbidden.remove(scope), label="editing forbidden"
        )

    def _tools(self, context: AssembleContext) -> ToolProviderResult:
        hidden = any(scope is context.scope for scope in self._forbidden)
        return ToolProviderResult([] if hidden else TOOLS, [tool.name for tool in TOOLS])
