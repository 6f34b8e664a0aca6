"""Reports about agents beside and below each other: leaked prompts, stale directories, copies."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from harness_plugins import git_context, instructions, workspace
from harness_plugins.agents.api import Agent, assemble_context_for, delegate_tool
from harness_plugins.tools.api import Tool

from harness_core import Context
from harness_core.prompt import render_context_snapshot, render_prompt
from harness_core.testing import assert_no_residue

from .reports import Kind, Scenario
from .talking import talking, wants

pytestmark = pytest.mark.asyncio


def memory_of(name: str) -> Any:
    """Return a set-up that gives an agent a slow memory, a rule and a tool of its own."""

    def setup(ctx: Context) -> None:
        async def recall() -> str:
            await anyio.lowlevel.checkpoint()
            return f"memory of {name}"

        ctx.system_prompt.section("rule", f"rule of {name}", order=10)
        ctx.system_prompt.context("memory", recall, order=1)
        ctx.tools.register(Tool(f"tool_{name}", name, {"type": "object"}, run=lambda _: name))

    return setup


leaks = Kind()


@leaks.report(
    "CopilotKit/CopilotKit#5659: turns",
    "google/adk-go#1137: turns",
    "anomalyco/opencode#4622: turns",
    "plur-ai/plur#918: turns",
)
async def _at_the_same_time(directory: Path) -> None:
    """A parent, its child and strangers, three turns each: all are told only what is theirs."""
    async with talking(sessions=directory) as (root, model):
        agents: list[Agent] = []
        for number in range(6):
            name = f"a{number}"
            parent = agents[0] if number == 1 else None
            agents.append(await root.agents.create(name, parent=parent, setup=memory_of(name)))

        async def talk(agent: Agent) -> None:
            for _ in range(3):
                assert (await agent.send(f"I speak to {agent.name}.")).reason == "done"

        async with anyio.create_task_group() as tasks:
            for agent in agents:
                tasks.start_soon(talk, agent)
        assert len(model.requests) == 18
        for request in model.requests:
            name = request.agent
            seen = f"{request.system} {' '.join(one.text for one in request.messages)}"
            tools = [one.name for one in request.tools]
            assert [f"rule of {one.name}" for one in agents if f"of {one.name}" in seen] == [
                f"rule of {name}"
            ]
            assert {word for word in seen.split() if word.endswith(".") and word[0] == "a"} == {
                f"{name}."
            }
            assert tools == (["tool_a0", "tool_a1"] if name == "a1" else [f"tool_{name}"])


@leaks.report("anomalyco/opencode#4622: delegation")
async def _while_the_parent_is_in_its_turn(directory: Path) -> None:
    """A task that is delegated is told the child's persona, and goes back to the parent's."""
    task = '{"task": "Count.", "preset": null}'
    script = [wants("delegate", task), "Three.", "It is three."]
    async with talking(*script) as (root, model):
        root.tools.register(delegate_tool())
        agent = await root.agents.create("lead", persona="You lead.", setup=memory_of("lead"))
        result = await agent.send("How many?")
        assert result.text == "It is three."
        asked = [one.agent for one in model.requests]
        assert [asked[0], asked[2]] == ["lead", "lead"]
        assert asked[1] != "lead"
        assert "Count." in model.sent(1)[0]
        assert "How many?" not in "".join(model.sent(1))
        assert model.requests[0].system == model.requests[2].system
        assert model.requests[2].messages[: len(model.requests[0].messages)] == (
            model.requests[0].messages
        )
        assert list(root.agents) == ["lead"]


@leaks.each()
async def test_agents_that_work_at_once_do_not_meet(scenario: Scenario, tmp_path: Path) -> None:
    """Neither in what they are told nor in what they remember."""
    await scenario(tmp_path)


inheritance = Kind()


@inheritance.report("gotgenes/pi-packages#640: agents", "tintinweb/pi-subagents#250: agents")
async def _a_child_in_another_directory(directory: Path) -> None:
    """Its prompt, its instructions and its repository are those of its own directory."""
    for name in ("parent", "child"):
        await anyio.run_process(["git", "init", "-qb", f"of-{name}", str(directory / name)])
        (directory / name / "AGENTS.md").write_text(f"rules of the {name}\n")
    async with talking() as (root, _):
        for plugin in (workspace, instructions, git_context):
            await root.plugin(plugin)
        root.system_prompt.section("where", "You work in {{cwd}}.", order=1)
        parent = await root.agents.create("parent", cwd=directory / "parent")
        child = await parent.create("child", cwd=directory / "child")
        for agent in (child, parent):
            assembly = await root.system_prompt.assemble(assemble_context_for(agent))
            text = f"{render_prompt(assembly)}\n{render_context_snapshot(assembly)}"
            other = "parent" if agent is child else "child"
            assert f"You work in {directory / agent.name}." in text
            assert f"rules of the {agent.name}" in text
            assert f"Git branch: of-{agent.name}, no commits yet" in text
            assert str(directory / other) not in text
            assert f"of the {other}" not in text
            assert f"of-{other}" not in text


@inheritance.report("markusylisiurunen/tau#162: agents")
async def _whose_persona(directory: Path) -> None:
    """Its own, else the nearest above; an empty one is a choice."""
    async with talking(persona="deployment") as (root, _):

        async def told(agent: Agent) -> str:
            return render_prompt(await root.system_prompt.assemble(assemble_context_for(agent)))

        plain = await root.agents.create("plain")
        lead = await root.agents.create("lead", persona="You lead.")
        heir = await lead.create("heir")
        own = await lead.create("own", persona="You review.")
        none = await lead.create("none", persona="")
        told_them = [await told(one) for one in (plain, lead, heir, own, none)]
        assert told_them == ["deployment", "You lead.", "You lead.", "You review.", ""]


@inheritance.each()
async def test_a_sub_agent_inherits_what_it_has_not_itself(
    scenario: Scenario, tmp_path: Path
) -> None:
    """And nothing that contradicts it."""
    await scenario(tmp_path)


copies = Kind()


@copies.report("anthropics/claude-code#24115: agents", "microsoft/agent-framework#4864: agents")
async def _a_hundred_children(directory: Path) -> None:
    """Made, asked and disposed: listeners are called once each, tools stand there once."""
    heard: list[str] = []
    async with talking() as (root, model):

        @root.on("system-prompt/assemble")
        async def listen(assembly: Any, context: Any, next: Any) -> Any:
            heard.append(context.agent.name)
            return await next()

        root.tools.register(Tool("look", "Look.", {"type": "object"}, run=lambda _: "ok"))
        lead = await root.agents.create("lead")
        await lead.open_session()
        gone: list[weakref.ref[Agent]] = []
        async with assert_no_residue(root):
            for number in range(100):
                child = await lead.create(f"child {number}", setup=memory_of(str(number)))
                await child.send("Go.")
                gone.append(weakref.ref(child))
                await child.dispose()
            del child
        assert heard == [f"child {number}" for number in range(100)]
        await lead.send("Go.")
        assert [one.name for one in model.requests[-1].tools] == ["look"]
        assert model.requests[-1].system == ""
        model.requests.clear()
        gc.collect()
        assert [one for one in gone if one() is not None] == []


@copies.each()
async def test_agents_that_have_gone_leave_nothing(scenario: Scenario, tmp_path: Path) -> None:
    """No listener, no tool, no text, no object."""
    await scenario(tmp_path)
