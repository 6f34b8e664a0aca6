"""A keeper of sessions that is restarted while an agent speaks: all is kept."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from harness_plugins import agents as agents_plugin
from harness_plugins import session as session_plugin
from harness_plugins.agents.loop import send
from harness_plugins.tools.api import Tools

from harness_core import Context, Fiber
from harness_core.prompt import SystemPrompt

from .tree import Model, Script, check_conversation, tool, wants

pytestmark = pytest.mark.asyncio


@asynccontextmanager
async def kept(directory: Path, *script: Script) -> AsyncIterator[tuple[Context, Fiber]]:
    """Open a tree whose sessions are kept."""
    async with Context() as root:
        await root.plugin(SystemPrompt)
        await root.plugin(Tools)
        keeper = await root.plugin(session_plugin, directory=str(directory))
        await root.plugin(agents_plugin)
        await root.plugin(Model(*script).plugin)
        yield root, keeper


async def test_a_turn_that_is_ended_with_its_agent_is_written_by_the_next_keeper_too(
    tmp_path: Path,
) -> None:
    """The session that was opened again goes after the turn, as the first one would."""
    async with kept(tmp_path, wants("restart", "wait")) as (root, keeper):
        waiting = anyio.Event()

        async def wait(_: object) -> None:
            waiting.set()
            await anyio.sleep_forever()

        async def restart(_: object) -> str:
            await keeper.restart()
            return "restarted"

        root.tools.register(tool("restart", restart))
        root.tools.register(tool("wait", wait))
        agent = await root.agents.create("a")
        kept_as = (await agent.open_session()).id
        results: list[str] = []

        async def turn() -> None:
            results.append((await send(agent, "Go.")).reason)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(turn)
            await waiting.wait()
            await agent.dispose()
        assert results == ["disposed"]
        log = await root.session.read(kept_as)
        assert log[-1].kind == "turn-ended"
        again = await root.session.open(kept_as)
        assert not again.history.unanswered
        check_conversation(again.history.messages)


async def test_a_first_turn_waits_for_a_keeper_that_is_between_two_versions(
    tmp_path: Path,
) -> None:
    """Else it would be kept in memory, and gone with the process."""
    async with kept(tmp_path, "Yes.") as (root, keeper):
        await keeper.dispose()
        beginning, begun = anyio.Event(), anyio.Event()
        begun.set()

        async def slow(ctx: Context) -> None:
            beginning.set()
            await begun.wait()
            await ctx.plugin(session_plugin, directory=str(tmp_path))

        slow_keeper = await root.plugin(slow)
        beginning, begun = anyio.Event(), anyio.Event()
        agent = await root.agents.create("a")
        reasons: list[str] = []

        async def turn() -> None:
            reasons.append((await send(agent, "Go.")).reason)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(slow_keeper.restart)
            await beginning.wait()
            tasks.start_soon(turn)
            await anyio.wait_all_tasks_blocked()
            assert agent.session is None
            begun.set()
        assert reasons == ["done"]
        (found,) = await root.session.list("a")
        assert found.messages == 2
