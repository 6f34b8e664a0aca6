"""An agent that moves below another: what it sees, who hears it, whom it goes with."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from harness_plugins.agents.api import Agent, AgentError

from harness_core import Context, FiberState, scope_chain_of, scope_of, scope_target
from harness_core.errors import InactiveFiberError
from harness_core.testing import assert_no_residue

from .tree import line, rule, told, tree

pytestmark = pytest.mark.asyncio


async def grown(root: Context) -> tuple[Agent, Agent, Agent, Agent]:
    """Return a, its sub-agent b with a sub-agent c, and d beside a."""
    a = await root.agents.create("a", setup=rule("Of a.", 1))
    b = await a.create("b", setup=rule("Of b.", 2))
    c = await b.create("c", setup=rule("Of c.", 3))
    d = await root.agents.create("d", setup=rule("Of d.", 1))
    return a, b, c, d


async def test_a_sub_agent_sees_what_stands_above_it_and_goes_with_it() -> None:
    """Sub-agents end before their parents, the youngest first."""
    async with tree() as root, assert_no_residue(root):
        a, b, c, d = await grown(root)
        assert (line(c), c.depth, a.height) == (["c", "b", "a"], 2, 2)
        assert scope_chain_of(c) == [c, b, a]
        assert await told(root, c) == "Of a.\n\nOf b.\n\nOf c."
        await a.dispose()
        assert list(root.agents) == ["d"]
        await d.dispose()


async def test_sub_agents_end_before_their_parents() -> None:
    """The youngest first, each waited for."""
    journal: list[str] = []

    def slow(ctx: Context) -> Any:
        async def undo() -> None:
            await anyio.lowlevel.checkpoint()
            journal.append(str(scope_of(ctx)))

        return undo

    async with tree() as root:
        a = await root.agents.create("a", setup=slow)
        b = await root.agents.create("b", parent=a, setup=slow)
        await b.create("c", setup=slow)
        await a.create("d", setup=slow)
        await a.dispose()
        assert journal == ["d", "c", "b", "a"]


async def test_an_agent_moves_with_its_sub_agents() -> None:
    """What they see, whom they go with and who hears them follows."""
    async with tree() as root, assert_no_residue(root):
        a, b, c, d = await grown(root)
        heard: list[str] = []
        for agent in (a, d):
            agent.ctx.on("ping", lambda agent=agent: heard.append(agent.name))
        await b.reparent("d")
        assert (line(c), b.parent, d.children, a.children) == (["c", "b", "d"], d, (b,), ())
        assert await told(root, c) == "Of d.\n\nOf b.\n\nOf c."
        root.emit("ping", target=scope_target(None, c))
        assert heard == ["d"]
        await a.dispose()
        assert c.is_live
        await d.dispose()
        assert not c.is_live
        assert list(root.agents) == []


async def test_an_agent_may_move_out_from_under_all() -> None:
    """It is then its creator's alone."""
    async with tree() as root, assert_no_residue(root):
        a, b, c, d = await grown(root)
        await b.reparent(None)
        assert (line(c), b.depth) == (["c", "b"], 0)
        assert await told(root, c) == "Of b.\n\nOf c."
        await a.dispose()
        assert b.is_live
        await b.reparent(d)
        await d.dispose()
        assert list(root.agents) == []


async def test_a_circle_is_refused_and_changes_nothing() -> None:
    """Neither below itself nor below what stands below it."""
    async with tree() as root:
        a, b, c, _ = await grown(root)
        for below in (a, b, c):
            with pytest.raises(AgentError, match='"a" cannot stand below'):
                await a.reparent(below)
        assert line(c) == ["c", "b", "a"]
        assert a.children == (b,)


async def test_the_greatest_depth_holds_for_creating_and_for_moving() -> None:
    """The sub-agents that move along count."""
    async with tree(max_depth=2) as root:
        _, b, c, d = await grown(root)
        with pytest.raises(AgentError, match="that is depth 3, and the greatest depth is 2"):
            await c.create("too deep")
        e = await d.create("e")
        with pytest.raises(AgentError, match="that is depth 3"):
            await b.reparent(e)
        await b.reparent(d)
        assert c.depth == 2


async def test_nobody_moves_below_an_agent_that_is_gone_or_itself_gone() -> None:
    """Both are told so."""
    async with tree() as root:
        a, b, c, d = await grown(root)
        await d.dispose()
        with pytest.raises(InactiveFiberError):
            await b.reparent(d)
        assert line(c) == ["c", "b", "a"]
        await b.dispose()
        with pytest.raises(InactiveFiberError):
            await b.reparent(None)
        assert a.children == ()


async def test_a_sub_agent_is_gone_from_the_moment_that_its_parent_begins_to_go() -> None:
    """Though its own end comes later."""
    async with tree() as root:
        a, b, _, _ = await grown(root)
        inside, go_on = anyio.Event(), anyio.Event()

        async def undo() -> None:
            inside.set()
            await go_on.wait()

        a.ctx.effect(lambda: undo)
        gone = a.dispose()
        await inside.wait()
        assert b.fiber.state is FiberState.ACTIVE
        assert not b.is_live
        assert list(root.agents) == ["d"]
        with pytest.raises(InactiveFiberError):
            await b.reparent("d")
        await root.agents.create("b")
        go_on.set()
        await gone
        assert list(root.agents) == ["d", "b"]


async def test_a_move_that_is_cancelled_has_not_happened() -> None:
    """Whoever is told that it was cancelled finds everything as it was."""
    async with tree() as root:
        _, b, c, d = await grown(root)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await b.reparent(d)
        assert scope.cancelled_caught
        assert line(c) == ["c", "b", "a"]


async def test_an_agent_that_was_moved_holds_nothing_of_its_old_parent() -> None:
    """The old parent can be collected while the agent lives."""
    async with tree() as root:
        a, b, c, d = await grown(root)
        await b.reparent(d)
        await a.dispose()
        gone = weakref.ref(a)
        del a
        gc.collect()
        assert gone() is None
        assert c.is_live


async def test_agents_that_are_gone_can_be_collected() -> None:
    """With their contexts, and with that of whoever created them."""
    async with tree() as root:

        async def team(ctx: Context) -> None:
            top = await ctx.agents.create("top")
            await (await top.create("sub")).create("below")

        team.inject = ["agents"]  # type: ignore[attr-defined]
        fiber = await root.plugin(team)
        agents = [root.agents[name] for name in ("top", "sub", "below")]
        gone = [weakref.ref(one) for one in [fiber.ctx, *agents, *(one.ctx for one in agents)]]
        del agents
        await fiber.dispose()
        del fiber
        for _ in range(5):  # the link of a sub-agent goes with it, and only then its parent can
            gc.collect()
        assert [one() for one in gone] == [None] * 7


async def test_an_assembly_that_began_before_a_move_ends_as_it_began() -> None:
    """Law L7: it works on the registry as it stood."""
    async with tree() as root:
        a, b, _, d = await grown(root)
        inside, go_on = anyio.Event(), anyio.Event()

        @b.ctx.system_prompt.section("slow", order=50)
        async def _() -> str:
            inside.set()
            await go_on.wait()
            return "Slow."

        texts: list[str] = []

        async def assemble() -> None:
            texts.append(await told(root, b))

        async with anyio.create_task_group() as group:
            group.start_soon(assemble)
            await inside.wait()
            await b.reparent(d)
            go_on.set()
        assert texts == ["Of a.\n\nOf b.\n\nSlow."]
        assert await told(root, b) == "Of d.\n\nOf b.\n\nSlow."
        assert a.is_live
