"""A turn whose process is killed: what it said to have begun is there, and the next one goes on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from harness_plugins import agents as agents_plugin
from harness_plugins import session as session_plugin
from harness_plugins.agents.api import Agent
from harness_plugins.agents.loop import send
from harness_plugins.tools.api import Tools

from harness_core import Context
from harness_core.prompt import SystemPrompt

from .tree import Model, check_conversation, tool, wants

pytestmark = pytest.mark.asyncio

ROOT = Path(__file__).resolve().parents[3]


def run_and_kill(directory: Path, first: int, events: int) -> list[int]:
    """Run turns in a process, kill it at an event; return the numbers of what was acknowledged."""
    command = [sys.executable, "-m", "tests.plugins.loop.endless", str(directory), str(first)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(events)]
        process.kill()
        lines += process.stdout.readlines()
    words = [line.split() for line in lines]
    return [int(one[1]) for one in words if len(one) == 2 and one[0] == "TurnStarted"]


async def open_agent(root: Context, directory: Path) -> Agent:
    """Return the agent whose log is kept."""
    await root.plugin(SystemPrompt)
    await root.plugin(session_plugin, directory=str(directory))
    await root.plugin(agents_plugin)
    await root.plugin(Model("Next.").plugin)
    agent: Agent = await root.agents.create("a", session="one")
    return agent


async def test_a_killed_process_loses_nothing_that_it_acknowledged(tmp_path: Path) -> None:
    async with Context() as root:
        await root.plugin(session_plugin, directory=str(tmp_path))
        await root.session.create("one")
    acknowledged: list[int] = []
    # At the first word, between two tools, in the second turn.
    for events in (1, 5, 17):
        acknowledged += run_and_kill(tmp_path, len(acknowledged), events)
        async with Context() as root:
            agent = await open_agent(root, tmp_path)
            number = len(acknowledged)
            assert (await send(agent, f"Message {number}.")).text == "Next."
            acknowledged.append(number)
            assert agent.session is not None
            messages = agent.session.history.messages
            check_conversation(messages)
            said = [one.text for one in messages if one.role == "user" and "Message" in one.text]
            # The last of the killed process may have been written and not yet acknowledged.
            assert set(said) >= {f"Message {one}." for one in acknowledged}
    assert len(acknowledged) >= 7


async def test_a_keeper_of_sessions_that_is_restarted_during_a_turn_is_followed(
    tmp_path: Path,
) -> None:
    async with Context() as root:
        await root.plugin(SystemPrompt)
        await root.plugin(Tools)
        keeper = await root.plugin(session_plugin, directory=str(tmp_path))
        await root.plugin(agents_plugin)
        model = Model(wants("restart"), "Next.")
        await root.plugin(model.plugin)
        agent = await root.agents.create("a")

        async def restart(_: object) -> str:
            await keeper.restart()
            return "restarted"

        root.tools.register(tool("restart", restart))
        before = await agent.open_session()
        assert (await send(agent, "Go.")).text == "Next."
        assert agent.session is not None
        assert agent.session is not before
        assert agent.session.id == before.id
        assert not before.is_open
        check_conversation(agent.session.history.messages)
        assert [one.role for one in agent.session.history.messages] == [
            "user",
            "assistant",
            "tool",
            "assistant",
        ]
        assert agent.session.events[-1].data["reason"] == "done"
