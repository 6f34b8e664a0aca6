"""The command `harness chat`."""

from __future__ import annotations

import signal
import sys
from contextlib import aclosing
from typing import Any

import anyio
import click

from harness_core import Context
from harness_core.cli.kit import (
    Application,
    Fault,
    Faulty,
    Living,
    Session,
    Settings,
    common,
    open_session,
    report_errors,
    run_in_frame,
    stop_at_faults,
    warn,
)
from harness_core.errors import did_you_mean
from harness_plugins.agents.api import Agent, Agents
from harness_plugins.session.api import SessionError, Sessions

from .conversation import Conversation
from .lines import read_lines

__all__ = ["chat"]

DEFAULT_NAME = "main"
"""The name of the agent that is made where the file declares none."""


@click.command(
    epilog="Exit codes: 0 it was ended, 1 faults, a pipe's last turn too, 2 a wrong call."
)
@common
@click.option("--agent", metavar="NAME", help="Talk to this agent; by default, to the first one.")
@click.option("--resume", metavar="ID", help="Go on with this session.")
def chat(
    config: str,
    agent: str | None,
    resume: str | None,
    debug: bool,
    patience: float,
    disable: tuple[str, ...],
) -> None:
    """Talk to an agent of CONFIG. Each line of the input is a message; /help lists commands."""

    async def action(app: Application) -> int:
        living: list[Living] = []

        def prepare(root: Context, loader: Any) -> None:
            living.append(Living(root, loader))

        async with open_session(app, prepare) as harness:
            stop_at_faults(harness)
            report_errors(harness.root, app, unless=lambda: living[0].is_at_work)
            warn(app, harness, [])
            await living[0].start(harness)
            chosen = await _choose(harness, agent, resume)
            conversation = Conversation(app.output(), harness, living[0], chosen)
            await _talk(conversation)
        # Where a program has typed, another program reads what came of it.
        return 1 if conversation.has_failed and not sys.stdin.isatty() else 0

    run_in_frame(Settings(config, debug, patience, disable), action)


async def _choose(harness: Session, name: str | None, resume: str | None) -> Agent:
    agents: Agents | None = harness.root.get("agents")
    if agents is None:
        raise Faulty([Fault("no row provides the service agents: add `- name: agents`")])
    names = list(agents)
    if name is None and not names:
        return await agents.create(DEFAULT_NAME, session=resume)
    if name is None:
        name = await _owner(harness, resume, names) or names[0]
    chosen = agents.get(name)
    if chosen is None:
        hint = did_you_mean(name, names)
        listed = ", ".join(names) or "(none)"
        raise click.UsageError(f'there is no agent "{name}" (there are: {listed}){hint}')
    if resume is not None:
        chosen.wanted_session = resume
    return chosen


async def _owner(harness: Session, resume: str | None, names: list[str]) -> str | None:
    """Return the agent that a session is of, if it is one of these."""
    sessions: Sessions | None = harness.root.get("session")
    if sessions is None or resume is None:
        return None
    try:
        owner = (await sessions.info(resume)).agent
    except SessionError as error:
        raise Faulty([Fault(str(error))]) from error
    return owner if owner in names else None


async def _talk(conversation: Conversation) -> None:
    """Take line after line, until the end of the input or a signal outside of a turn."""
    try:
        await conversation.begin()
    except SessionError as error:  # of --resume: there is none, or somebody else has it
        raise Faulty([Fault(str(error))]) from error
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_watch_signals, conversation, tasks.cancel_scope)
        async with aclosing(read_lines(sys.stdin.fileno())) as lines:
            _invite(conversation)
            async for line in lines:
                await conversation.take(line)
                if conversation.is_over:
                    break
                _invite(conversation)
        tasks.cancel_scope.cancel()


def _invite(conversation: Conversation) -> None:
    if conversation.console.is_terminal and sys.stdin.isatty():
        conversation.console.print("> ", end="", style="bold")
        conversation.console.file.flush()


async def _watch_signals(conversation: Conversation, chat: anyio.CancelScope) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for number in signals:
            if number == signal.SIGTERM or not conversation.interrupt():
                chat.cancel()
