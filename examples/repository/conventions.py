"""Rules for every agent, and the tools that every agent has."""

from __future__ import annotations

from harness_core import Context
from harness_core.prompt import SystemPrompt, ToolSchema

name = "conventions"
inject = ["system_prompt"]

PATH = {"type": "string", "description": "Path below the repository's root."}

TOOLS = [
    ToolSchema(
        "read_file",
        "Read a text file.",
        {"type": "object", "properties": {"path": PATH}, "required": ["path"]},
    ),
    ToolSchema(
        "search_text",
        "Find lines that match a regular expression.",
        {
            "type": "object",
            "properties": {"pattern": {"type": "string"}, "path": PATH},
            "required": ["pattern"],
        },
    ),
]


def apply(ctx: Context) -> None:
    """Contribute a section for everybody, guidance that goes with a tool, and two tools."""
    prompt = ctx[SystemPrompt]
    prompt.section(
        "conventions",
        "Keep to the conventions that you find. Say so when you are not sure.",
        order=10,
    )
    prompt.section(
        "guidance:search",
        "Use `search_text` before you open a file with `read_file`.",
        order=110,
        requires_tools=("search_text", "read_file"),
    )
    prompt.tools(lambda: TOOLS)
