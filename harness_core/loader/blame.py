"""Where an error of a plugin comes from: the line of the plugin's own code, for messages."""

from __future__ import annotations

import os
import sysconfig
import traceback

import anyio

from .places import shown_path

__all__ = ["is_plugin_code", "raised_at"]

_NOT_THEIRS = tuple(
    os.path.join(path, "")
    for path in (
        os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
        os.path.dirname(os.path.abspath(anyio.__file__)),
    )
)
_STDLIB = os.path.join(sysconfig.get_path("stdlib"), "")


def raised_at(error: BaseException) -> str | None:
    """Return `file:line` of the innermost code that is a plugin's own, or None.

    For a syntax error that is the faulty line itself.
    """
    if isinstance(error, SyntaxError) and error.filename:
        column = f":{error.offset}" if error.offset else ""
        return f"{shown_path(error.filename)}:{error.lineno}{column}"
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if is_plugin_code(frame.filename):
            return f"{shown_path(frame.filename)}:{frame.lineno}"
    return None


def is_plugin_code(file: str) -> bool:
    """Whether a file may be a plugin's: none of this package, of anyio or of Python itself."""
    if file.startswith("<") or file.startswith(_NOT_THEIRS):
        return False
    return not file.startswith(_STDLIB) or "site-packages" in file
