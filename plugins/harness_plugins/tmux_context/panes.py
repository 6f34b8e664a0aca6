"""Asking tmux about the pane that this process is in, and its neighbours."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

import attrs

from harness_plugins.workspace.api import Outcome, run_program

from .ancestors import ancestors_of

__all__ = ["Pane", "Tmux", "own_window"]

_LIMIT = 200_000
_SEPARATOR = "\x1f"
_FIELDS = (
    "pane_id",
    "pane_pid",
    "pane_index",
    "pane_dead",
    "host",
    "session_name",
    "window_index",
    "window_name",
    "pane_title",
    "pane_current_command",  # last: tmux does not clean what a process calls itself
)
_FORMAT = _SEPARATOR.join(f"#{{{field}}}" for field in _FIELDS)


@attrs.frozen
class Pane:
    """One pane, as tmux describes it. Names, titles and commands are other people's text."""

    id: str
    pid: int
    index: str
    is_dead: bool
    session: str
    window_index: str
    window: str
    title: str
    """Empty if it is the name of the machine, which it is until somebody sets it."""
    command: str


class Tmux:
    """The tmux server that the environment names, and the pane that it says we are in."""

    def __init__(self, socket: str, pane: str) -> None:
        self.socket = socket
        self.pane = pane

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Tmux | None:
        """Return what TMUX and TMUX_PANE name; None if they are not set, or make no sense."""
        socket, *rest = environment.get("TMUX", "").rsplit(",", 2)
        pane = environment.get("TMUX_PANE", "")
        if not socket or len(rest) != 2 or not pane.startswith("%") or not pane[1:].isdecimal():
            return None
        return cls(socket, pane)

    async def run(self, *arguments: str, limit: int = _LIMIT) -> Outcome | None:
        """Return what tmux answers; None if it is missing. It never starts a server."""
        # With TMUX set, it gives titles as they are, whatever the locale.
        return await run_program(["tmux", "-S", self.socket, *arguments], limit=limit)

    async def panes(self) -> list[Pane]:
        """Return the panes of our window; none if there is no such server, pane, or tmux."""
        outcome = await self.run("list-panes", "-t", self.pane, "-F", _FORMAT)
        if outcome is None or outcome.code != 0:
            return []
        lines = outcome.output.decode("utf-8", "backslashreplace").split("\n")
        return [pane for line in lines if (pane := _pane(line)) is not None]


async def own_window(tmux: Tmux) -> tuple[Pane, list[Pane]] | None:
    """Return our pane and the others of its window; None if we are not really in that pane.

    The environment alone proves nothing: it is inherited by what has long left the pane. The
    server must know the pane, and the pane's process must be one that this process descends from.
    """
    panes = await tmux.panes()
    own = next((pane for pane in panes if pane.id == tmux.pane), None)
    if own is None or own.is_dead or own.pid not in await ancestors_of(os.getpid()):
        return None
    return own, _others(panes, own)


def _others(panes: Iterable[Pane], own: Pane) -> list[Pane]:
    return [pane for pane in panes if pane.id != own.id]


def _pane(line: str) -> Pane | None:
    values = line.split(_SEPARATOR, len(_FIELDS) - 1)
    if len(values) != len(_FIELDS):
        return None  # the rest of a command's name that holds a line end
    pane, pid, index, dead, host, session, window_index, window, title, command = values
    if not pid.isdecimal():
        return None
    return Pane(
        pane,
        int(pid),
        index,
        dead == "1",
        session,
        window_index,
        window,
        "" if title == host else title,
        command,
    )
