"""A process and all that came from it: who they are, and how they are made to go.

The process leads a group of its own, so a signal to the group reaches its children and
grandchildren at once, also after it is gone itself. Those that left the group (browsers do) are
known, where the system shows processes under `/proc`, by a mark in their environment, which they
have inherited, and by their parents.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import anyio
import attrs
from anyio.abc import Process

__all__ = ["Family", "end_family"]

_PROC = "/proc"
_FIRST_PAUSE = 0.005
_LONGEST_PAUSE = 0.05


@attrs.frozen
class _Member:
    """One process, told from a later one of the same number by when it began."""

    pid: int
    began: str


class Family:
    """The process `pid`, its group, and who has inherited `mark`: a variable and its value."""

    def __init__(self, pid: int, mark: str) -> None:
        self.pid = pid
        self._mark = mark.encode()
        self._known: set[_Member] = set()
        self._strangers: set[_Member] = set()

    def look(self) -> set[int]:
        """Return the numbers of those that live, and remember them."""
        found = _processes()
        if found is None:
            return self._group_as_signals_tell()
        family = {
            pid
            for pid, (began, _, group) in found.items()
            if group == self.pid or self._knows(_Member(pid, began))
        }
        size = -1
        while size != len(family):  # until nobody has a parent in it and is not in it
            size = len(family)
            family |= {pid for pid, (_, parent, _) in found.items() if parent in family}
        self._known |= {_Member(pid, found[pid][0]) for pid in family}
        return family

    def _knows(self, member: _Member) -> bool:
        """Whether a process is known, or marked; that does not change in its life."""
        if member in self._known:
            return True
        if member in self._strangers:
            return False
        try:
            with open(f"{_PROC}/{member.pid}/environ", "rb") as file:
                variables = file.read()
        except OSError:
            return False  # somebody else's, or gone
        if self._mark in variables.split(b"\0"):
            return True
        if variables:  # without any, it is just about to become another program
            self._strangers.add(member)
        return False

    def _group_as_signals_tell(self) -> set[int]:
        try:
            os.killpg(self.pid, 0)
        except ProcessLookupError:
            return set()
        except PermissionError:
            pass
        return {self.pid}

    def send(self, number: signal.Signals, told: set[int]) -> bool:
        """Send a signal to those who live and were not `told` before; return whether any live."""
        living = self.look()
        if not told:
            _kill(os.killpg, self.pid, number)  # all at once: nobody can fork meanwhile
        for pid in living - told:
            _kill(os.kill, pid, number)
        told |= living
        return bool(living)


def _kill(how: Callable[[int, int], None], whom: int, number: signal.Signals) -> None:
    try:
        how(whom, number)
    except (ProcessLookupError, PermissionError):
        pass  # gone meanwhile, or somebody else's by now


def _processes() -> dict[int, tuple[str, int, int]] | None:
    """Return begin, parent and group of all processes but those that have ended.

    None where the system does not say.
    """
    found: dict[int, tuple[str, int, int]] = {}
    try:
        entries = os.listdir(_PROC)
    except OSError:
        return None
    for entry in entries:
        if not entry.isdecimal():
            continue
        try:
            with open(f"{_PROC}/{entry}/stat", encoding="utf-8", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        state, parent, group, began = fields[0], fields[1], fields[2], fields[19]
        if state not in ("Z", "X"):
            found[int(entry)] = (began, int(parent), int(group))
    return found or None


async def _until(is_so: Callable[[], bool], seconds: float) -> bool:
    """Wait for what nothing tells of, by looking again and again; return whether it came."""
    deadline = anyio.current_time() + seconds
    pause = _FIRST_PAUSE
    while not is_so():
        if anyio.current_time() >= deadline:
            return False
        await anyio.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)
    return True


async def end_family(process: Process, family: Family, patience: float) -> None:
    """End a process and its family: its input ends; then they are asked to go; then they are made.

    Each step is given `patience` seconds. To be called where no cancellation comes through.
    """
    family.look()  # who has no mark is known by a parent that lives
    assert process.stdin is not None
    try:
        await process.stdin.aclose()
    except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass  # it has gone before
    await _until(lambda: process.returncode is not None, patience)
    for number in (signal.SIGTERM, signal.SIGKILL):
        told: set[int] = set()

        def is_over(number: signal.Signals = number, told: set[int] = told) -> bool:
            return not family.send(number, told) and process.returncode is not None

        if process.returncode is not None and not family.look():
            return
        await _until(is_over, patience)
