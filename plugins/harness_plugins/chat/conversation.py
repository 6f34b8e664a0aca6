"""One chat: what is typed, and what is done about it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

import anyio
from rich.console import Console

from harness_core.cli.kit import (
    Happening,
    Living,
    ScopeView,
    show_differences,
    show_happening,
    show_request,
)
from harness_core.cli.kit import Session as Harness
from harness_core.errors import did_you_mean
from harness_core.prompt import PromptAssembly, diff_assemblies
from harness_plugins.agents.api import Agent, Agents, StepStarted, TurnEnded, TurnStarted
from harness_plugins.session.api import Session

from .show import Show

__all__ = ["Conversation"]


class Conversation:
    """A chat with one agent."""

    def __init__(self, console: Console, harness: Harness, living: Living, agent: Agent) -> None:
        self.console = console
        self.harness = harness
        self.living = living
        self.agent = agent
        self.show = Show(console)
        self.is_over = False
        self.has_failed = False
        """Whether the last turn was one that failed."""
        self._told: str | None = None
        """The id of the session that was told."""
        self._turn: anyio.CancelScope | None = None
        self._last: PromptAssembly | None = None
        self._commands: dict[str, Callable[[], Awaitable[Any]]] = {
            "/prompt": self._prompt,
            "/explain": self._explain,
            "/diff": self._diff,
            "/reload": self._reload,
            "/help": self._help,
            "/quit": self._quit,
        }

    async def begin(self) -> None:
        """Say whom one talks to. A session that is to go on is opened, so that faults show now.

        A new one is made with the first message: a chat in which nobody says anything leaves none.
        """
        agent = self.agent
        if agent.session is None and agent.wanted_session is None:
            self.show.line(f"{agent.name}, a new session; /help lists commands", "dim")
            return
        session = await agent.open_session()
        self._told = session.id
        self.show.line(f"{agent.name}, session {session.id}; /help lists commands", "dim")

    def interrupt(self) -> bool:
        """End the turn that runs; return whether there was one."""
        if self._turn is None:
            return False
        self._turn.cancel()
        return True

    async def take(self, line: str) -> None:
        """Do what a line asks for. Nothing that a turn raises ends the chat."""
        text = line.strip()
        if not text:
            return
        if not text.startswith("/"):
            await self._say(line)
            return
        command = self._commands.get(text)
        if command is None:
            hint = did_you_mean(text, self._commands)
            self.show.line(f"there is no {text}{hint or ';'} /help lists what there is", "red")
            return
        try:
            await command()
        except Exception as error:  # a prompt that cannot be assembled: the next save may mend it
            self.show.line(f"{type(error).__name__}: {error}", "red")

    def _is_there(self) -> bool:
        """Look whether the agent is there: after a reload of its plugin, another one of its name.

        That one goes on with the same session.
        """
        if self.agent.is_live:
            return True
        root = self.harness.root
        agents: Agents | None = root.get("agents")
        again = agents.get(self.agent.name) if agents is not None else None
        if again is None:
            self.show.line(f"the agent {self.agent.name} is gone; the next save may bring it back")
            return False
        before = self.agent.session
        if before is not None and again.session is None:
            is_kept = root.get("session") is not None
            again.wanted_session = before.id if is_kept else Session(before.id, None, before.events)
        self.agent = again
        return True

    async def _say(self, text: str) -> None:
        if not self._is_there():
            return
        with anyio.CancelScope() as self._turn:
            try:
                async with aclosing(self.agent.run(text)) as events:
                    async for event in events:
                        if isinstance(event, TurnStarted):
                            self._tell_session(event.session)
                        if isinstance(event, StepStarted):
                            self._last = event.assembly
                        if isinstance(event, TurnEnded):
                            self.has_failed = event.result.is_error
                        self.show.event(event)
            except Exception as error:
                self.show.line(f"{type(error).__name__}: {error}", "red")
        if self._turn.cancelled_caught:
            self.show.line("the turn was cancelled", "yellow")
        self._turn = None

    def _tell_session(self, session: str) -> None:
        """Say which session it is, for `--resume`, unless that was said."""
        if session != self._told:
            self._told = session
            self.show.line(f"session {session}", "dim")

    async def _assemble(self) -> PromptAssembly:
        return await self._view().assemble()

    def _view(self) -> ScopeView:
        self._is_there()
        return ScopeView(self.agent.name, self.agent, self.agent.ctx)

    async def _prompt(self, explain: bool = False) -> None:
        assembly = await self._assemble()
        show_request(self.console, self._view(), assembly, explain=explain)

    async def _explain(self) -> None:
        await self._prompt(explain=True)

    async def _diff(self) -> None:
        """Show what changed since the prompt of the last step."""
        if self._last is None:
            self.show.line("nothing was sent yet: there is nothing to compare with", "yellow")
            return
        diff = diff_assemblies(self._last, await self._assemble())
        if not diff:
            self.show.line("the prompt is the one of the last step", "dim")
        show_differences(self.console, {self.agent.name: diff})

    async def _reload(self) -> None:
        def report(one: Happening) -> None:
            show_happening(self.console, one)

        if not await self.living.follow(report):
            self.show.line("nothing was saved since the last time", "dim")

    async def _help(self) -> None:
        self.console.print(_HELP)

    async def _quit(self) -> None:
        self.is_over = True


_HELP = """\
/prompt   the request as it would be sent now, and who wrote which part
/explain  the same with what is not there, and why
/diff     what has changed since the last step
/reload   take over what was saved since the last time: code, texts, harness.yaml
/quit     end the chat; Ctrl-C ends the turn that runs"""
