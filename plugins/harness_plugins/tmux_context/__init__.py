"""`tmux_context`: the tmux pane that the harness runs in, and its neighbours, as runtime context.

    - name: tmux_context
      config:
        enabled: true       # false: nothing is registered
        panes: 10           # how many neighbours are listed; 0: none
        capture: "%4"       # default: none; a pane of this window, by id ("%4") or index ("1")
        lines: 20           # the last lines of that pane
        timeout: 2.0        # seconds
        order: 60

It is silent unless the process is really inside the pane that TMUX and TMUX_PANE name: the server
has to know the pane, and its process has to be an ancestor of this one. The variables alone are
inherited by services, jobs and editors that have long left it. Whatever takes longer than
`timeout` is left out of that assembly and reported.

Names, titles, commands and captured lines are other people's text: data (`literal`), on one line
each, with control characters as escapes, and cut. Captured lines stand each behind a bar. Nothing
is captured unless `capture` names a pane; the own one is refused, since it shows the conversation.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import attrs

from harness_core import Context
from harness_core.prompt import SystemPrompt

from .panes import Pane, Tmux, own_window
from .wording import describe, quote

__all__ = ["Config", "apply", "inject", "name"]

name = "tmux_context"
inject = ["system_prompt"]

_MOST_LINES = 500


def _check_number(_: object, attribute: attrs.Attribute[Any], value: float) -> None:
    if value < 0 or (attribute.name == "timeout" and value == 0):
        raise ValueError(f"{attribute.name} is {value}: expected a number above 0")


def _check_lines(_: object, __: object, lines: int) -> None:
    if not 1 <= lines <= _MOST_LINES:
        raise ValueError(f"lines is {lines}: expected 1 to {_MOST_LINES}")


def _check_capture(_: object, __: object, capture: str | None) -> None:
    if capture is not None and not capture.removeprefix("%").isdecimal():
        raise ValueError(
            f"capture is {capture!r}: expected a pane's id, such as '%4', or its index, such as '1'"
        )


@attrs.frozen
class Config:
    """How much to show; `timeout` in seconds; no `capture` means that no pane is read."""

    enabled: bool = True
    panes: int = attrs.field(default=10, validator=_check_number)
    capture: str | None = attrs.field(default=None, validator=_check_capture)
    lines: int = attrs.field(default=20, validator=_check_lines)
    timeout: float = attrs.field(default=2.0, validator=_check_number)
    order: float = 60


def apply(ctx: Context, config: Config) -> None:
    """Register the context `tmux`."""
    if not config.enabled:
        return

    async def tmux() -> str:
        found = Tmux.of(os.environ)
        window = await own_window(found) if found is not None else None
        if found is None or window is None:
            return ""
        own, others = window
        text = describe(own, others, config.panes)
        if config.capture is not None:
            text += "\n" + await _captured(found, own, others, config)
        return text

    ctx[SystemPrompt].context(
        "tmux", tmux, order=config.order, literal=True, optional=True, timeout=config.timeout
    )


async def _captured(tmux: Tmux, own: Pane, others: Sequence[Pane], config: Config) -> str:
    wanted = config.capture
    if wanted in (own.id, own.index):
        return f"Pane {wanted} is not shown: it is this one."
    pane = next((pane for pane in others if wanted in (pane.id, pane.index)), None)
    if pane is None:
        return f"Pane {wanted} is not shown: there is no such pane in this window."
    start = f"-{config.lines}"
    outcome = await tmux.run("capture-pane", "-p", "-J", "-t", pane.id, "-S", start)
    if outcome is None or not outcome.is_good:
        return f"Pane {wanted} is not shown: tmux refuses."
    lines = outcome.output.decode("utf-8", "backslashreplace").rstrip().split("\n")
    return quote(pane, lines[-config.lines :] if lines != [""] else [])
