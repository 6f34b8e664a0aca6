"""What the model reads of a run: what was printed, and the value of the last line, or the error."""

from __future__ import annotations

from harness_plugins.tools.api import ToolResult

from .output import Output
from .worker import Ended

__all__ = ["answer", "timed_out"]

_NOTHING = "(the code printed nothing, and its last line has no value)"


def answer(ended: Ended, printed: Output, most: int) -> ToolResult:
    """Return the result of a run; at most about `most` characters of text."""
    problem = ended.error if ended.fault is None else f"the process was lost: {ended.fault}"
    if problem is not None:
        return ToolResult(_together(printed, _readable(problem), most), "failed")
    if ended.text is None:
        return ToolResult(_printed(printed, most) or _NOTHING)
    value = _readable(_cut(ended.text, ended.size, most, "the value"))
    text = _together(printed, f"=> {value}" if printed.size else value, most)
    return ToolResult(text, value=ended.value)


def timed_out(printed: Output, seconds: float, most: int) -> ToolResult:
    """Return the result of a run that took too long."""
    said = f"the code took longer than {seconds:g} s, and its process was ended"
    return ToolResult(_together(printed, said, most), "timed-out")


def _together(printed: Output, last: str, most: int) -> str:
    said = _printed(printed, max(most - len(last), most // 4))
    if said and not said.endswith("\n"):
        said += "\n"
    return said + last


def _printed(printed: Output, most: int) -> str:
    text = printed.text
    return _cut(text, len(text) + printed.dropped, most, "the output")


def _cut(text: str, size: int, most: int, what: str) -> str:
    if len(text) <= most and len(text) == size:
        return text
    shown = text[:most]
    return f"{shown}\n[{what} was truncated: the first {len(shown)} of {size} characters are shown]"


def _readable(text: str) -> str:
    """Return a text without what no other program could read: halves of characters."""
    return text.encode("utf-8", "backslashreplace").decode()
