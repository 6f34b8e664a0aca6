"""Creating an agent is all or nothing, and nobody sees one that is not complete."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from harness_plugins.agents.api import Agent, AgentError, UnknownAgentError
from harness_plugins.tools.api import RestrictionError, Tools

from harness_core import Context, create_scope, scope_chain_of, scope_of
from harness_core.errors import InactiveFiberError, InvalidNameError, PluginError
from harness_core.testing import Checkpoints, assert_no_residue, count_checkpoints

from .tree import rule, told, tool, tools_of, tree

pytestmark = pytest.mark.asyncio


async def test_an_agent_owns_a_scope_whose_key_is_the_agent() -> None:
    """What is registered through its context is seen by it alone, and goes with it."""
    async with tree() as root:
        async with assert_no_residue(root):
            agent = await root.agents.create("a", persona="You are a.", setup=rule("Be kind."))
            assert (agent.name, agent.parent, agent.depth) == ("a", None, 0)
            assert scope_of(agent.ctx) is agent
            assert scope_chain_of(agent) == [agent]
            assert root.agents["a"] is agent
            agent.ctx.system_prompt.section("late", "Be brief.", order=20)
            assert await told(root, agent) == "You are a.\n\nBe kind.\n\nBe brief."
            assert await told(root) == ""
            await agent.dispose()
            assert "a" not in root.agents
            assert not agent.is_live
        assert await told(root, agent) == ""


async def test_an_agent_goes_with_whoever_created_it() -> None:
    """A service acts for its caller."""
    async with tree() as root:

        async def team(ctx: Context) -> None:
            await ctx.agents.create("mate")

        team.inject = ["agents"]  # type: ignore[attr-defined]
        async with assert_no_residue(root):
            fiber = await root.plugin(team)
            mate = root.agents["mate"]
            assert mate.fiber.parent is fiber
            await fiber.restart()
            assert root.agents["mate"] is not mate
            await fiber.dispose()
            assert list(root.agents) == []


async def test_agents_of_the_root_survive_a_restart_of_the_service() -> None:
    """Those whom the manifest declares are made anew; those of plugins that inject it too."""
    async with tree(agents={"declared": {"persona": "D."}}) as root:
        kept = await root.agents.create("kept", persona="K.")
        declared = root.agents["declared"]
        (fiber,) = [one for one in root.fiber.children if one.name == "agents"]
        await fiber.restart()
        assert root.agents["kept"] is kept
        assert root.agents["declared"] is not declared
        assert await told(root, kept) == "K."
        await fiber.dispose()
        assert kept.is_live
        assert root.kernel.services.peek("agents", None) is not None
        await kept.dispose()
        assert await told(root, kept) == ""
        assert root.kernel.services.peek("agents", None) is None


async def test_nobody_sees_an_agent_before_its_set_up_is_done() -> None:
    """Not by name, not in iteration, not as a child of its parent."""
    async with tree() as root:
        top = await root.agents.create("top")
        inside, go_on = anyio.Event(), anyio.Event()

        async def setup(ctx: Context) -> None:
            ctx.system_prompt.section("rule", "Rule.", order=1)
            assert str(scope_of(ctx)) == "sub"
            inside.set()
            await go_on.wait()

        async with anyio.create_task_group() as group:
            group.start_soon(lambda: top.create("sub", setup=setup))
            await inside.wait()
            assert list(root.agents) == ["top"]
            assert root.agents.get("sub") is None
            assert top.children == ()
            with pytest.raises(AgentError, match='there is an agent "sub" already'):
                await root.agents.create("sub")
            go_on.set()
        assert list(root.agents) == ["top", "sub"]
        assert top.children == (root.agents["sub"],)
        assert await told(root, root.agents["sub"]) == "Rule."


async def test_a_set_up_is_like_the_body_of_an_effect() -> None:
    """It may return a disposer, yield some, or be a context manager."""
    journal: list[str] = []

    def yields(ctx: Context) -> Any:
        yield lambda: journal.append("first")
        yield lambda: journal.append("second")

    async with tree() as root:
        agent = await root.agents.create("a", setup=yields)
        await agent.dispose()
        assert journal == ["second", "first"]
        agent = await root.agents.create("b", setup=lambda: journal.append("without context"))
        assert journal[-1] == "without context"


FAULTS: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "a blank name": ({"name": " "}, InvalidNameError, "not blank"),
    "the name of the global layer": ({"name": "global"}, InvalidNameError, 'not "global"'),
    "a name that is no text": ({"name": 5}, InvalidNameError, "invalid agent name 5"),
    "a name that is taken": ({"name": "top"}, AgentError, 'an agent "top" already (fiber root/'),
    "a parent that does not exist": (
        {"parent": "topp"}, UnknownAgentError, 'no agent "topp"; agents: top; did you mean "top"',
    ),
    "a preset without presets": ({"preset": "coder"}, PluginError, "mount the plugin presets"),
    "a persona that is no text": ({"persona": 5}, AgentError, "persona is a text, got 5"),
    "a model that is no text": ({"model": 5}, AgentError, "model is a text, got 5"),
    "a directory that is none": ({"cwd": b"/"}, AgentError, "cwd is a path, got b'/'"),
    "limits that are none": ({"limits": {"max_steps": 3}}, AgentError, "limits is a Limits, got"),
    "a session that is none": ({"session": 5}, AgentError, "or an open Session, got 5 (int)"),
    "a preset that is no name": ({"preset": 5}, AgentError, "preset is the name of a preset"),
    "an unknown tool": ({"tools": ["bsh"]}, RestrictionError, 'did you mean "bash"'),
    "a filter that is a text": ({"tools": "bash"}, AgentError, "expected a list of tool names"),
    "a filter that holds no names": ({"tools": [5]}, AgentError, "expected tool names, got 5"),
    "a filter without names": ({"tools": {}}, AgentError, "give allow, deny or both"),
    "a filter of another kind": (
        {"tools": {"alow": ["bash"]}}, AgentError, 'unknown key "alow", did you mean "allow"',
    ),
    "a set-up that is none": ({"setup": "now"}, AgentError, "setup is called"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_is_an_error_and_leaves_nothing(fault: str) -> None:
    """Nothing of the agent is left, and the name is free."""
    arguments, kind, said = FAULTS[fault]
    async with tree() as root:
        root.tools.register(tool("bash"))
        await root.agents.create("top")
        async with assert_no_residue(root):
            with pytest.raises(kind) as caught:
                await root.agents.create(**{"name": "a", **arguments})
            assert said in str(caught.value)
        assert list(root.agents) == ["top"]
        await root.agents.create("a")


async def test_a_tool_filter_without_tools_is_an_error() -> None:
    """There is nothing that it could filter."""
    async with tree() as root:
        (fiber,) = [one for one in root.fiber.children if one.plugin is Tools]
        await fiber.dispose()
        async with assert_no_residue(root):
            with pytest.raises(AgentError, match="needs the plugin tools"):
                await root.agents.create("a", tools=["bash"])


async def awaits(ctx: Context) -> None:
    """Register, wait, register, wait."""
    ctx.system_prompt.section("one", "One.", order=1)
    await anyio.lowlevel.checkpoint()
    ctx.system_prompt.section("two", "Two.", order=2)
    await anyio.lowlevel.checkpoint()


def create(root: Context, setup: Callable[[Context], Any] = awaits) -> Any:
    return root.agents.create("a", parent="top", model="m", persona="P.", setup=setup)


async def test_a_failure_at_any_await_leaves_nothing() -> None:
    """The error reaches the caller; the name is free again."""
    async with tree() as root:
        await root.agents.create("top")
        count = await count_checkpoints(create(root))
        await root.agents["a"].dispose()
        assert count >= 1
        for at in range(1, count + 1):
            async with assert_no_residue(root):
                with pytest.raises(ZeroDivisionError):
                    await Checkpoints(
                        create(root), lambda n, at=at: ZeroDivisionError() if n == at else None
                    )
                assert list(root.agents) == ["top"]


@pytest.mark.parametrize("at", [1, 2, 3])
async def test_a_set_up_that_raises_leaves_nothing(at: int) -> None:
    """Before its first await, between two, and after the last."""

    async def setup(ctx: Context) -> None:
        for number in (1, 2, 3):
            ctx.system_prompt.section(f"section {number}", "x", order=number)
            if number == at:
                raise ZeroDivisionError(number)
            await anyio.lowlevel.checkpoint()

    async with tree() as root:
        await root.agents.create("top")
        async with assert_no_residue(root):
            with pytest.raises(ZeroDivisionError) as caught:
                await create(root, setup)
            assert "setup" in "".join(caught.value.__notes__)
        assert root.agents["top"].children == ()


@pytest.mark.parametrize("at", [1, 2])
async def test_a_creation_that_is_cancelled_leaves_nothing(at: int) -> None:
    """The set-up is cancelled and over before the caller goes on."""
    journal: list[str] = []

    async with tree() as root:
        await root.agents.create("top")

        async def setup(ctx: Context) -> None:
            try:
                for number in (1, 2):
                    ctx.system_prompt.section(f"section {number}", "x", order=number)
                    if number == at:
                        scope.cancel()
                    await anyio.lowlevel.checkpoint()
            finally:
                journal.append("over")

        async with assert_no_residue(root):
            with anyio.CancelScope() as scope:
                await create(root, setup)
            assert scope.cancelled_caught
            assert journal == ["over"]
        assert list(root.agents) == ["top"]


async def test_a_parent_that_goes_during_the_set_up_takes_the_agent_along() -> None:
    """The caller is told; the set-up is over, and nothing is left."""
    async with tree() as root, assert_no_residue(root):
        top = await root.agents.create("top")
        inside = anyio.Event()

        async def setup(ctx: Context) -> None:
            inside.set()
            await anyio.sleep_forever()

        async with anyio.create_task_group() as group:

            async def make() -> None:
                with pytest.raises(InactiveFiberError):
                    await top.create("sub", setup=setup)

            group.start_soon(make)
            await inside.wait()
            await top.dispose()
        assert list(root.agents) == []
        with pytest.raises(InactiveFiberError):
            await top.create("sub")


async def test_a_set_up_that_ends_its_own_agent_has_made_none() -> None:
    """The caller gets an error rather than an agent that is gone."""
    async with tree() as root, assert_no_residue(root):
        with pytest.raises(InactiveFiberError):
            await root.agents.create("a", setup=lambda ctx: void(ctx.fiber.dispose()))
        assert list(root.agents) == []


def void(_: object) -> None:
    """Take a value that a set-up must not return."""


async def test_variables_are_of_the_agent() -> None:
    """A bare assembly has none of them; a sub-agent has its parent's, unless it has its own."""
    async with tree() as root:
        agent = await root.agents.create("a", model="m-1", provider="p", cwd=Path("/srv"))
        bare = await root.system_prompt.assemble()
        assert bare.variables == {}
        own = await root.system_prompt.assemble(scope=agent)
        assert own.variables == {"model": "m-1", "provider": "p", "cwd": "/srv"}
        sub = await agent.create("b", model="m-2")
        below = await root.system_prompt.assemble(scope=sub)
        assert below.variables == {"model": "m-2", "provider": "p", "cwd": "/srv"}
        assert (sub.model, sub.provider, sub.cwd) == ("m-2", "p", "/srv")
        plain = await root.agents.create("c")
        assert (await root.system_prompt.assemble(scope=plain)).variables == {}


async def test_a_working_directory_of_an_agent_shadows_that_of_all() -> None:
    """Only where it has one."""
    async with tree() as root:
        root.system_prompt.variable("cwd", "/everywhere")
        here = await root.agents.create("here", cwd="/here")
        plain = await root.agents.create("plain")
        assert (await root.system_prompt.assemble(scope=here)).variables["cwd"] == "/here"
        assert (await root.system_prompt.assemble(scope=plain)).variables["cwd"] == "/everywhere"


async def test_a_tool_filter_is_of_the_agent_and_those_below_it() -> None:
    """Names are an allow list; a mapping may allow and deny. Its own tools pass."""
    async with tree() as root:
        for name in ("bash", "edit", "read"):
            root.tools.register(tool(name))
        some = await root.agents.create(
            "some", tools=["read"], setup=lambda ctx: void(ctx.tools.register(tool("own")))
        )
        sub = await some.create("sub")
        rest = await root.agents.create("rest", tools={"deny": ["bash"]})
        none = await root.agents.create("none", tools=[])
        assert await tools_of(root, some) == ["own", "read"]
        assert await tools_of(root, sub) == ["own", "read"]
        assert await tools_of(root, rest) == ["edit", "read"]
        assert await tools_of(root, none) == []
        assert await tools_of(root) == ["bash", "edit", "read"]


async def test_a_set_up_may_use_what_the_caller_may() -> None:
    """An agent below another acts for whoever created it, and not for its parent's creator."""
    async with tree() as root:
        await root.agents.create("top")
        root.provide("color", "red")
        seen: list[object] = []

        async def painter(ctx: Context) -> None:
            await ctx.agents.create("sub", parent="top", setup=lambda c: void(seen.append(c.color)))

        painter.inject = ["agents", "color"]  # type: ignore[attr-defined]
        await root.plugin(painter)
        assert seen == ["red"]


async def test_an_agent_of_a_plugin_within_another_agent_goes_with_both() -> None:
    """Its creator and its parent each take it along."""
    async with tree() as root:
        top = await root.agents.create("top")

        async def inner(ctx: Context) -> None:
            await ctx.agents.create("sub", parent=scope_of(ctx))

        inner.inject = ["agents"]  # type: ignore[attr-defined]
        fiber = top.ctx.plugin(inner)
        await fiber
        sub = root.agents["sub"]
        assert sub.parent is top
        await fiber.dispose()
        assert list(root.agents) == ["top"]
        assert top.is_live
        await top.ctx.plugin(inner)
        await top.dispose()
        assert list(root.agents) == []


async def test_lookup_says_what_there_is() -> None:
    """By name, by `in`, by `get`, by scope; strangers are told what is near."""
    async with tree() as root:
        assert repr(root.agents) == "<Agents (none)>"
        agent = await root.agents.create("reviewer")
        assert root.agents.get("reviewer") is agent
        assert root.agents.scope("reviewer") is agent.scope
        assert len(root.agents) == 1
        assert repr(root.agents) == "<Agents reviewer>"
        assert 5 not in root.agents
        with pytest.raises(LookupError, match='did you mean "reviewer"'):
            root.agents.scope("reviewr")
        assert (str(agent), repr(agent)) == ("reviewer", 'Agent("reviewer")')


async def test_a_scope_that_is_no_agent_is_none() -> None:
    """A parent is an agent, or the name of one."""
    async with tree() as root:
        scope = create_scope(root, object())
        with pytest.raises(AgentError, match="is no agent"):
            await root.agents.create("a", parent=scope.key)
        other: Agent
        async with tree() as elsewhere:
            other = await elsewhere.agents.create("other")
            with pytest.raises(AgentError, match="of another tree"):
                await root.agents.create("a", parent=other)
