"""How the context `tmux` says where this process is. Line by line, so that no text can leave it."""

from __future__ import annotations

from collections.abc import Sequence

from harness_plugins.workspace.api import one_line

from .panes import Pane

__all__ = ["describe", "quote"]

_LONGEST = 200


def describe(own: Pane, others: Sequence[Pane], most: int) -> str:
    """Return what is to be said about a pane and at most `most` of its neighbours."""
    where = f'Tmux session "{_name(own.session)}", window {own.window_index} "{_name(own.window)}"'
    lines = [f"{where}, pane {own.index} ({own.id}){_title(own)}"]
    if others and most:
        lines.append(f"Other panes of this window ({len(others)}):")
        lines += [f"  {_neighbour(pane)}" for pane in others[:most]]
        if len(others) > most:
            lines.append(f"  ... and {len(others) - most} more")
    return "\n".join(lines)


def quote(pane: Pane, lines: Sequence[str]) -> str:
    """Return the last lines of a pane, each behind a bar."""
    quoted = [f"  | {one_line(line, _LONGEST)}".rstrip() for line in lines]
    if not quoted:
        return f"Pane {pane.index} ({pane.id}) is empty."
    return "\n".join([f"Last lines of pane {pane.index} ({pane.id}):", *quoted])


def _neighbour(pane: Pane) -> str:
    state = "has ended" if pane.is_dead else f"runs {one_line(pane.command) or '(unknown)'}"
    return f"pane {pane.index} ({pane.id}) {state}{_title(pane)}"


def _title(pane: Pane) -> str:
    return f', titled "{_name(pane.title)}"' if pane.title else ""


def _name(text: str) -> str:
    return one_line(text).replace('"', "'")
