"""The section: how code is run, and the signatures of exactly the tools that this scope's code
may call."""

from __future__ import annotations

from collections.abc import Mapping

from harness_plugins.tools.api import Tool

from .signatures import Signatures

__all__ = ["ORDER", "RUN_CODE", "SECTION", "section_text"]

SECTION = "code_mode"
RUN_CODE = "run_code"
ORDER = 190
"""Behind the guidance of single tools: what changes most stands last, for the prompt cache."""

_CODE = "Tools are called from Python code: `run_code` runs it."
_BOTH = "Tools can be called one by one, or from Python code, which `run_code` runs."
_HOW = (
    "In the code each tool is an async function: `await` it, or several at once with "
    "`asyncio.gather`. `= ...` marks an argument that may be left out. A call that fails raises "
    "ToolError. What the code prints, and the value of its last line, is the result. Nothing else "
    "is kept: each run starts anew."
)
_NONE = "At present there is no tool that the code could call."


def section_text(tools: Mapping[str, Tool], mode: str, signatures: Signatures) -> str:
    """Return the text for the tools that code may call."""
    head = f"{_BOTH if mode == 'both' else _CODE} {_HOW}"
    if not tools:
        return f"{head}\n\n{_NONE}"
    return f"{head}\n\n```python\n{signatures.text(tools)}\n```"
