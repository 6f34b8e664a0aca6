"""Ending a process with all that it has started."""

from __future__ import annotations

import os
import signal
from pathlib import Path

__all__ = ["kill_tree"]


def kill_tree(process: int) -> None:
    """Kill a process that leads a group: its group, and what it started outside of that.

    What is found by its parents is found on Linux only; and what has left its parents, as a daemon
    does, and the group too, is not found.
    """
    started = _below(process)
    try:
        os.killpg(process, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass  # nobody is left in it
    for one in started:
        try:
            os.kill(one, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass  # it has ended by itself


def _below(process: int) -> list[int]:
    """Return the processes that were started by a process, or by those it started."""
    children: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name, in brackets, may hold anything; behind it stand the state and the parent.
            parent = int(status.read_text(errors="replace").rpartition(")")[2].split()[1])
        except (OSError, IndexError, ValueError):
            continue  # it has ended
        children.setdefault(parent, []).append(int(status.parent.name))
    found: list[int] = []
    waiting = [process]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found
