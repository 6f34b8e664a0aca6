"""Where a text that cannot be rendered was written: in a file that was read, or in code."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..errors import PromptRenderError
from ..loader import shown_path
from ..prompt import PromptAssembly
from .payload import written_at

__all__ = ["written_text"]


def written_text(
    error: PromptRenderError, assembly: PromptAssembly, texts: Mapping[Path, str]
) -> str | None:
    """Return the place of what cannot be rendered, as `file:line:column` or `file:line`.

    `texts` are the files that plugins have read. If none holds the text, the place is that of its
    registration, in a plugin's own code.
    """
    items = assembly.sections if error.owner_kind == "section" else assembly.contexts
    item = next((one for one in items if one.name == error.owner_name), None)
    if item is None:
        return None
    found = _in_file(error, item.text, texts)
    if found is None and item.origin is not None:
        found = written_at(item.origin.file, item.origin.line)
    return found


def _in_file(error: PromptRenderError, text: str, texts: Mapping[Path, str]) -> str | None:
    core = text.strip()
    if error.offset is None or not core:
        return None
    for file, content in texts.items():
        start = content.find(core)
        if start >= 0:
            offset = start + error.offset - text.find(core)
            line = content.count("\n", 0, offset) + 1
            column = offset - content.rfind("\n", 0, offset)
            return f"{shown_path(str(file))}:{line}:{column}"
    return None
