"""Random forests of agents against a model that is nothing but sets.

Agents are created, moved, switched and disposed while assemblies are under way, held open by an
event. A child sees its ancestors' contributions, an ancestor's listeners hear it, siblings never
meet; an assembly ends as it began; and at the end nothing is left.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import anyio.lowlevel
import attrs
import harness_plugins.agents
import harness_plugins.presets
import pytest
from harness_plugins.agents.api import Agent, AgentError
from harness_plugins.tools.api import Tools
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from harness_core import Context, Fiber
from harness_core.prompt import PromptAssembly, SystemPrompt
from harness_core.testing import ResidueCheck, TreeHost, assert_no_residue

from .tree import tool

NAMES = tuple("abcdef")
PRESETS = ("p", "q")
MAX_DEPTH = 3

names = st.sampled_from(NAMES)
above = st.sampled_from((None, *NAMES))
presets = st.sampled_from((None, *PRESETS))


@attrs.define(eq=False)
class Node:
    """What the model knows of one agent."""

    name: str
    parent: Node | None
    preset: str | None
    is_live: bool = True

    def chain(self) -> list[Node]:
        """Return the agents whose scopes it sees, itself first."""
        if self.preset is not None or self.parent is None:
            return [self]
        return [self, *self.parent.chain()]

    def seen(self) -> set[str]:
        """Return what it sees."""
        chain = self.chain()
        preset = chain[-1].preset
        return {node.name for node in chain} | ({preset} if preset else set())

    def heard(self) -> set[str]:
        """Return who hears it."""
        return {node.name for node in self.chain() if node.is_live}

    def line(self) -> list[Node]:
        """Return the agents whose lifetimes it lies in, itself first."""
        return [self, *(self.parent.line() if self.parent is not None else ())]


@attrs.define(eq=False)
class Held:
    """An assembly that is under way."""

    node: Node
    expected: set[str]
    task: asyncio.Task[PromptAssembly]
    gate: anyio.Event
    heard: list[str]


def inside(step: Callable[..., Coroutine[Any, Any, None]]) -> Any:
    """Run a rule inside the tree's loop."""

    @functools.wraps(step)
    def run(self: Machine, **drawn: Any) -> None:
        self.loop.run_until_complete(step(self, **drawn))

    return run


async def hold(context: Any) -> str:
    """Wait for the event that an assembly was given, if it was given one."""
    gate = context.fields.get("gate")
    if gate is not None:
        await gate.wait()
    return ""


def furnish(ctx: Context) -> None:
    """Give an agent one of each: a section, a tool, a listener."""
    agent: Agent = ctx.tag  # type: ignore[assignment]
    ctx.system_prompt.section(f"of {agent}", agent.name, order=1)
    ctx.tools.register(tool(agent.name))

    async def listen(_: object, context: Any, rest: Any) -> Any:
        context.heard.append(agent.name)
        return await rest()

    ctx.on("system-prompt/assemble", listen)


class Machine(RuleBasedStateMachine):
    """The tree, and the model of it."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.host = TreeHost()
        self.nodes: dict[str, Node] = {}
        self.agents: dict[str, Agent] = {}
        self.held: list[Held] = []
        self.residue: ResidueCheck | None = None

    @initialize()
    @inside
    async def open(self) -> None:
        """Open a tree without agents."""
        root = self.root = await self.host.start()
        self.prompt: Fiber = await root.plugin(SystemPrompt, include_harness_identity=False)
        await root.plugin(Tools)
        root.system_prompt.section("hold", hold, order=99)
        config = {"presets": {name: {"persona": name} for name in PRESETS}}
        self.presets: Fiber = await root.plugin(harness_plugins.presets, config)
        self.service: Fiber = await root.plugin(harness_plugins.agents, {"max_depth": MAX_DEPTH})
        self.residue = assert_no_residue(root)
        self.residue.__enter__()

    def fits(self, parent: Node | None, moved: Node | None = None) -> bool:
        """Whether an agent, or one that moves, may stand below `parent`."""
        if parent is None:
            return True
        if moved in parent.line():
            return False
        height = max(
            (len(node.line()) - len(moved.line()) for node in self.below(moved)) if moved else (0,)
        )
        return len(parent.line()) + height <= MAX_DEPTH

    def below(self, above: Node) -> list[Node]:
        """Return a node and what stands below it."""
        return [node for node in self.nodes.values() if above in node.line()]

    # Agents

    @rule(name=names, parent=above, preset=presets, within=st.booleans())
    @inside
    async def create(self, name: str, parent: str | None, preset: str | None, within: bool) -> None:
        """Create one, from the root or through its parent."""
        node = self.nodes.get(parent or "")
        top = self.agents[node.name] if node is not None else None
        if name in self.nodes or not self.fits(node):
            with pytest.raises(AgentError):
                await self.root.agents.create(name, parent=top, preset=preset, setup=furnish)
            return
        if top is not None and within:
            agent = await top.create(name, preset=preset, setup=furnish)
        else:
            agent = await self.root.agents.create(name, parent=top, preset=preset, setup=furnish)
        self.nodes[name] = Node(name, node, preset)
        self.agents[name] = agent

    @rule(name=names, parent=above, preset=presets, cancels=st.booleans())
    @inside
    async def fail(self, name: str, parent: str | None, preset: str | None, cancels: bool) -> None:
        """Create one whose set-up fails, or is cancelled: nothing happens."""

        async def setup(ctx: Context) -> None:
            furnish(ctx)
            await anyio.lowlevel.checkpoint()
            if cancels:
                scope.cancel()
                await anyio.sleep_forever()
            raise ZeroDivisionError

        node = self.nodes.get(parent or "")
        if name in self.nodes or not self.fits(node):
            return
        with anyio.CancelScope() as scope:
            with pytest.raises(BaseException):  # noqa: B017, PT011 (a cancellation is no Exception)
                await self.root.agents.create(
                    name, parent=node.name if node else None, preset=preset, setup=setup
                )
            await anyio.lowlevel.checkpoint_if_cancelled()

    @precondition(lambda self: self.nodes)
    @rule(data=st.data(), parent=above)
    @inside
    async def move(self, data: st.DataObject, parent: str | None) -> None:
        """Move one below another, if it may stand there."""
        name = data.draw(st.sampled_from(sorted(self.nodes)))
        node, target = self.nodes[name], self.nodes.get(parent or "")
        to = self.agents[target.name] if target is not None else None
        if target is not node.parent and not self.fits(target, node):
            with pytest.raises(AgentError):
                await self.agents[name].reparent(to)
            return
        await self.agents[name].reparent(to)
        node.parent = target

    @precondition(lambda self: self.nodes)
    @rule(data=st.data(), preset=presets)
    @inside
    async def switch(self, data: st.DataObject, preset: str | None) -> None:
        """Join another preset, or none."""
        name = data.draw(st.sampled_from(sorted(self.nodes)))
        await self.agents[name].switch_preset(preset)
        self.nodes[name].preset = preset

    @precondition(lambda self: self.nodes)
    @rule(data=st.data())
    @inside
    async def dispose(self, data: st.DataObject) -> None:
        """Dispose one, and with it what stands below it."""
        name = data.draw(st.sampled_from(sorted(self.nodes)))
        below = self.below(self.nodes[name])
        await self.agents[name].dispose()
        for node in below:
            node.is_live = False
            del self.nodes[node.name], self.agents[node.name]

    @rule(which=st.sampled_from(("presets", "service", "prompt")))
    @inside
    async def restart(self, which: str) -> None:
        """Restart a service: no agent is any the worse for it, and no assembly."""
        await getattr(self, which).restart()

    # Assemblies

    @precondition(lambda self: self.nodes and len(self.held) < 4)
    @rule(data=st.data())
    @inside
    async def begin(self, data: st.DataObject) -> None:
        """Begin an assembly that does not come to its end."""
        name = data.draw(st.sampled_from(sorted(self.nodes)))
        gate, heard = anyio.Event(), list[str]()
        prompt: SystemPrompt = self.root.system_prompt
        node = self.nodes[name]
        work = prompt.assemble(scope=self.agents[name], gate=gate, heard=heard)
        task = asyncio.ensure_future(work)
        await asyncio.sleep(0)
        assert not task.done()
        self.held.append(Held(node, node.seen(), task, gate, heard))

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    @inside
    async def end(self, data: st.DataObject) -> None:
        """Let one come to its end."""
        await self.release(self.held.pop(data.draw(st.integers(0, len(self.held) - 1))))

    async def release(self, held: Held) -> None:
        hearing = held.node.heard()
        held.gate.set()
        assembly = await held.task
        assert {one.text for one in assembly.sections if one.text} == held.expected
        assert set(held.heard) == hearing
        assert len(held.heard) == len(hearing)

    # The law

    @invariant()
    @inside
    async def everybody_sees_the_ancestors_and_nobody_else(self) -> None:
        """In the prompt, in the tools, by the listeners, in the service."""
        if self.residue is None:
            return
        assert set(self.root.agents) == set(self.nodes)
        for name, node in self.nodes.items():
            agent, heard = self.agents[name], list[str]()
            assembly = await self.root.system_prompt.assemble(scope=agent, heard=heard)
            seen = node.seen()
            assert {one.text for one in assembly.sections if one.text} == seen
            assert {one.name for one in assembly.tools} == seen - set(PRESETS)
            assert set(heard) == node.heard()
            assert agent.depth == len(node.line()) - 1
            assert {child.name for child in agent.children} == {
                one.name for one in self.nodes.values() if one.parent is node
            }

    def teardown(self) -> None:
        """Dispose everybody and close the tree."""
        self.loop.run_until_complete(self.close())
        self.loop.close()

    async def close(self) -> None:
        if self.residue is not None:
            for agent in list(self.agents.values()):
                await agent.dispose()
            for node in self.nodes.values():
                node.is_live = False
            for held in self.held:
                await self.release(held)
            await anyio.lowlevel.checkpoint()
            self.residue.__exit__(None, None, None)
        await self.host.stop()


Machine.TestCase.settings = settings(
    max_examples=40,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestForest = Machine.TestCase
