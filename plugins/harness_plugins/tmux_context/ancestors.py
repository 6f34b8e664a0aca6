"""Which processes a process descends from: from /proc, or from `ps` where there is none."""

from __future__ import annotations

import os

from harness_plugins.workspace.api import run_program

__all__ = ["ancestors_of"]

_LIMIT = 10_000_000
_HAS_PROC = os.path.exists("/proc/self/stat")


async def ancestors_of(pid: int) -> set[int]:
    """Return the process itself, its parent, and so on up; only itself if that is not known."""
    parents = None if _HAS_PROC else await _ask_ps()
    found: set[int] = set()
    while pid > 0 and pid not in found:
        found.add(pid)
        pid = _parent(pid) if parents is None else parents.get(pid, 0)
    return found


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            stat = file.read()
    except OSError:  # gone, or hidden from us
        return 0
    # pid (name) state parent ...: the name may hold blanks and brackets
    fields = stat.rpartition(b")")[2].split()
    return int(fields[1])


async def _ask_ps() -> dict[int, int]:
    outcome = await run_program(["ps", "-A", "-o", "pid=,ppid="], limit=_LIMIT)
    if outcome is None or outcome.code != 0:
        return {}
    pairs = (line.split() for line in outcome.output.decode("ascii", "replace").splitlines())
    return {int(pair[0]): int(pair[1]) for pair in pairs if len(pair) == 2}
