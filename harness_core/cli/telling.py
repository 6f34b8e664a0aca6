"""What people are told of a change: a line, its faults, and what became of the prompt."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.text import Text

from ..loader import shown_path
from ..prompt import AssemblyDiff
from .living import Happening
from .safe import one_line, visible
from .trouble import Trouble

__all__ = ["show_differences", "show_happening"]

_STYLES = {"ready": "green", "reloaded": "green", "failed": "bold red", "stopped": "dim"}
_MARKS = {"added": "+", "removed": "-", "changed": "~", "moved": "↕"}


def show_happening(console: Console, one: Happening) -> None:
    """Print one thing that happened."""
    line = Text(one.event, style=_STYLES[one.event])
    if one.event == "ready":
        line.append(f"  {len(one.plugins)} plugins, {len(one.scopes)} scopes; waiting for saves")
    elif one.event != "stopped":
        line.append(f" {one_line(', '.join(one.plugins)) or 'nothing'}")
        line.append(f"  {one.seconds * 1000:.0f} ms", style="dim")
    console.print(line, soft_wrap=True)
    for change in one.plan.changes if one.plan is not None else ():
        if change.action != "keep":
            console.print(Text(f"  row: {one_line(str(change))}"), soft_wrap=True)
    for trouble in one.troubles:
        _show_trouble(console, trouble)
    if one.diffs and not any(one.diffs.values()) and one.event == "reloaded":
        console.print(Text("  no prompt changed", style="dim"))
    show_differences(console, one.diffs)
    for path in one.stale:
        stale = Text(f"  stale: {one_line(path)} runs an older version of its code", "yellow")
        console.print(stale, soft_wrap=True)


def _show_trouble(console: Console, trouble: Trouble) -> None:
    line = Text("  error: ", style="bold red")
    if trouble.file is not None:
        place = shown_path(trouble.file) if "/" in trouble.file else trouble.file
        where = f"{place}:{trouble.line}" if trouble.line is not None else place
        line.append(f"{one_line(where)}: ", style="bold")
    line.append(visible(trouble.message))
    console.print(line, soft_wrap=True)
    for code in trouble.excerpt.splitlines():
        style = "bold" if code.startswith(">") else "dim"
        console.print(Text(f"    {visible(code)}", style=style), soft_wrap=True)


def show_differences(console: Console, diffs: Mapping[str, AssemblyDiff]) -> None:
    """Print what changed in each scope's request, and how much of it a prompt cache can reuse."""
    for name, diff in diffs.items():
        if not diff:
            continue
        line = Text(f"  {one_line(name)}", style="bold")
        line.append(
            f"  the first {diff.same_prefix} of {diff.after_length} characters are the same "
            f"({diff.reusable:.0%} of the prompt cache)",
            style="dim",
        )
        console.print(line, soft_wrap=True)
        for change in diff.changes:
            mark = _MARKS.get(change.change, "~")
            console.print(Text(f"    {mark} {one_line(str(change))}"), soft_wrap=True)
