"""Reports about tools: their order, their schemas, and texts about tools that are not there."""

from __future__ import annotations

import asyncio
import copy
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from harness_core import create_scope
from harness_core.errors import ContributionError, InvariantError
from harness_core.prompt import (
    PromptAssembly,
    SystemPrompt,
    ToolProviderResult,
    ToolSchema,
    diff_assemblies,
    invariant,
    render_context_snapshot,
)
from tests.prompt.tree import ASSEMBLE, Key, Next, injecting, live, rendered

from .reports import Kind, Scenario

pytestmark = pytest.mark.asyncio


def tools(*names: str) -> list[ToolSchema]:
    """Return a schema for each name."""
    return [ToolSchema(name, f"does {name}", {"type": "object"}) for name in names]


def giving(schemas: list[ToolSchema]) -> Callable[[], list[ToolSchema]]:
    """Return a provider of just these."""
    return lambda: schemas


async def serialised(sp: SystemPrompt) -> str:
    """Return the tools as a request carries them."""
    return json.dumps(
        [[one.name, one.description, one.parameters] for one in (await sp.assemble()).tools]
    )


ordering = Kind()


@ordering.report("langchain-ai/deepagents#2497")
async def _listing_order() -> None:
    """A provider that lists the same tools in another order each time."""
    current = tools("zeta", "alpha", "mu")
    async with live() as (_, sp):
        sp.tools(lambda: current)
        first = await serialised(sp)
        current = tools("mu", "zeta", "alpha")
        assert await serialised(sp) == first


@ordering.report("librefang/librefang#3765")
async def _a_provider_that_comes_back() -> None:
    """Removing and adding one of two gives the list from before."""
    async with live() as (_, sp):
        effect = sp.tools(lambda: tools("b", "d"))
        sp.tools(lambda: tools("a", "c"))
        first = await serialised(sp)
        await effect()
        assert await serialised(sp) != first
        sp.tools(lambda: tools("b", "d"))
        assert await serialised(sp) == first


@ordering.report("QwenLM/qwen-code#6338")
async def _shuffled_registration() -> None:
    """Fifty orders of discovery, one serialisation."""
    seen = set()
    for seed in range(50):
        names = [f"tool_{number}" for number in range(12)]
        random.Random(seed).shuffle(names)
        async with live() as (_, sp):
            for start in range(0, 12, 3):
                sp.tools(giving(tools(*names[start : start + 3])))
            seen.add(await serialised(sp))
    assert len(seen) == 1


@ordering.report("macanderson/stella#1875")
async def _across_processes() -> None:
    """Several sources are sorted as one, whatever the hash seed of the process."""
    program = """
import asyncio
from harness_core import Context
from harness_core.prompt import SystemPrompt

def provider(names):
    return lambda: [{"name": name} for name in names]

async def main():
    async with Context() as root:
        await root.plugin(SystemPrompt)
        for names in ({"zap", "ask", "mu"}, {"bash", "yes"}):
            root.system_prompt.tools(provider(names))
        print([tool.name for tool in (await root.system_prompt.assemble()).tools])

asyncio.run(main())
"""

    def run(seed: str) -> str:
        environment = {
            **os.environ,
            "PYTHONHASHSEED": seed,
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        return subprocess.run(
            [sys.executable, "-c", program],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    outputs = await asyncio.gather(*(asyncio.to_thread(run, seed) for seed in "013"))
    assert set(outputs) == {"['ask', 'bash', 'mu', 'yes', 'zap']\n"}


@ordering.report("ltmoerdani/opencode-copilot-chat#212")
async def _no_locale() -> None:
    """Code units, not the rules of a language."""
    async with live() as (_, sp):
        sp.tools(lambda: tools("ä", "z", "a_b", "a-b", "A"))
        assert [one.name for one in (await sp.assemble()).tools] == ["A", "a-b", "a_b", "z", "ä"]


@ordering.report("matrixorigin/Astra#210")
async def _same_name_other_content() -> None:
    """The difference names the tool and the field."""
    description = ["agents: a"]
    async with live() as (_, sp):
        sp.tools(lambda: [ToolSchema("task", description[0])])
        before = await sp.assemble()
        description[0] = "agents: a,b"
        (change,) = diff_assemblies(before, await sp.assemble()).changes
        assert (change.kind, change.name, change.change) == ("tool", "task", "changed")
        assert change.detail == "description"


@ordering.each()
async def test_the_same_tools_are_the_same_bytes(scenario: Scenario) -> None:
    """Whatever order they were found in."""
    await scenario()


lists = Kind()


@lists.report("openai/codex#33266", "anthropics/claude-code#79826")
async def _lists_are_asked_each_time() -> None:
    """Added, removed and changed tools are in the next assembly."""
    current = tools("a", "b")
    async with live() as (_, sp):
        sp.tools(lambda: current)
        assert (await sp.assemble()).tools == tools("a", "b")
        current = tools("b", "c")
        assert (await sp.assemble()).tools == tools("b", "c")
        current = [ToolSchema("b", "another", {"type": "object", "properties": {}})]
        assert (await sp.assemble()).tools == current


@lists.report("maximhq/bifrost#6885")
async def _a_change_can_be_told() -> None:
    """Whoever caches assemblies hears of every registration and removal."""
    async with live() as (root, sp):
        heard: list[str] = []
        root.on("system-prompt/change", lambda: heard.append("change"))
        effect = sp.tools(lambda: tools("a"))
        await effect()
        assert len(heard) == 2
        assert (await sp.assemble()).tools == []


@lists.each()
async def test_no_list_of_tools_is_stale(scenario: Scenario) -> None:
    """Providers are called for every assembly."""
    await scenario()


hidden = Kind()


@hidden.report("google-gemini/gemini-cli#13597")
async def _a_section_bound_to_its_tool() -> None:
    """A disabled tool takes its guidance along."""
    restricted = [False]
    async with live() as (_, sp):
        sp.tools(
            lambda: ToolProviderResult([] if restricted[0] else tools("glob"), known_names=["glob"])
        )
        sp.section("tool:glob", "Prefer glob.", order=110, requires_tools=["glob"])
        assert await rendered(sp) == "Prefer glob."
        restricted[0] = True
        assert await rendered(sp) == ""


@hidden.report("github/copilot-cli#4596")
async def _an_allow_list() -> None:
    """One tool is left; three pieces of guidance go."""
    async with live() as (_, sp):
        sp.tools(lambda: ToolProviderResult(tools("read"), known_names=["read", "a", "b", "c"]))
        for number, name in enumerate("abc"):
            sp.section(f"tool:{name}", f"use {name}", order=100 + number, requires_tools=[name])
        assembly = await sp.assemble()
        assert await rendered(sp) == ""
        statuses = {one.name: one.status for one in assembly.explain() if one.kind == "section"}
        assert [statuses[f"tool:{name}"] for name in "abc"] == ["tool-hidden"] * 3


@hidden.report("yjh051108/dsh-routing-suite#63")
async def _contexts_too() -> None:
    """A runtime context about a tool is bound the same way."""
    async with live() as (_, sp):
        sp.tools(lambda: tools("x"))
        sp.context("phase", "call y", order=1, requires_tools=["y"])
        assert render_context_snapshot(await sp.assemble()) == ""


@hidden.each()
async def test_guidance_goes_with_its_tool(scenario: Scenario) -> None:
    """No text recommends what the request does not offer."""
    await scenario()


duplicates = Kind()


@duplicates.report("openai/openai-agents-python#464")
async def _two_servers() -> None:
    """The same name from two providers is a fault that names the tool and both origins."""
    async with live() as (root, sp):

        @injecting
        def github(ctx: Any) -> None:
            ctx.system_prompt.tools(lambda: tools("create_issue"))

        @injecting
        def linear(ctx: Any) -> None:
            ctx.system_prompt.tools(lambda: tools("create_issue"))

        root.plugin(github)
        root.plugin(linear)
        assembly = await sp.assemble()
        assert [one.origin.plugin for one in assembly.tools if one.origin] == ["github", "linear"]
        await root.plugin(invariant)
        with pytest.raises(InvariantError, match="create_issue"):
            await sp.assemble()


@duplicates.report("microsoft/agent-framework#4864")
async def _a_shared_list() -> None:
    """Five assemblies, one copy each, and the provider's list as it was."""
    mine = tools("a")
    async with live() as (_, sp):
        sp.tools(lambda: mine)
        for _ in range(5):
            assembly = await sp.assemble()
            assert [one.name for one in assembly.tools] == ["a"]
            assembly.tools.append(ToolSchema("b"))
        assert mine == tools("a")


@duplicates.each()
async def test_a_tool_appears_once_or_the_fault_is_named(scenario: Scenario) -> None:
    """Never silently twice."""
    await scenario()


REFERENCES: dict[str, Any] = {
    "type": "object",
    "$defs": {"node": {"properties": {"next": {"$ref": "#/$defs/node"}}}},
    "properties": {"root": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
    "additionalProperties": False,
}

shapes = Kind()


@shapes.report(
    "open-webui/computer#87", "CommandCodeAI/command-code#566", "google-gemini/gemini-cli#13326"
)
async def _every_keyword_is_kept() -> None:
    """References, definitions, unions and closed objects."""
    async with live() as (_, sp):
        sp.tools(lambda: [ToolSchema("t", "", REFERENCES)])
        (tool,) = (await sp.assemble()).tools
        assert tool.parameters == REFERENCES
        assert json.dumps(tool.parameters) == json.dumps(REFERENCES)


@shapes.report("lire1131/dsh-undo-savepoint#20")
async def _a_wrong_shape_is_loud() -> None:
    """No tool is dropped with a warning."""
    async with live() as (_, sp):
        sp.tools(lambda: [{"name": "undo", "inputSchema": {}}])
        with pytest.raises(ContributionError, match="name, description and parameters"):
            await sp.assemble()


@shapes.each()
async def test_a_schema_arrives_as_it_was_given_or_is_refused(scenario: Scenario) -> None:
    """Nothing is lost in between."""
    await scenario()


mutation = Kind()


@mutation.report("run-llama/llama_index#22146")
async def _per_agent_changes() -> None:
    """One tool object, two agents, a listener of one of them."""

    async def edit(assembly: PromptAssembly, context: object, next: Next) -> PromptAssembly:
        assembly.tools[0] = attrs.evolve(assembly.tools[0], description="for A")
        return await next()

    async with live() as (root, sp):
        a, b = Key("a"), Key("b")
        scope = create_scope(root, a)
        create_scope(root, b)
        shared = tools("t")
        sp.tools(lambda: shared)
        effect = scope.ctx.on(ASSEMBLE, edit)
        assert (await sp.assemble(scope=a)).tools[0].description == "for A"
        assert (await sp.assemble(scope=b)).tools == tools("t")
        await effect()
        assert (await sp.assemble(scope=a)).tools == tools("t")


@mutation.report("ComposioHQ/composio#3632", "openai/openai-agents-python#3382")
async def _an_adapter_that_strips() -> None:
    """An adapter takes a deep copy and strips that; the caller's own dict is untouched."""
    mine = {"properties": {"a": {"default": 1}}}
    original = copy.deepcopy(mine)
    async with live() as (_, sp):
        sp.tools(lambda: [ToolSchema("one", "", mine), ToolSchema("two", "", mine)])
        one, two = (await sp.assemble()).tools
        with pytest.raises(TypeError):
            del one.parameters["properties"]["a"]["default"]
        stripped: Any = copy.deepcopy(one.parameters)
        del stripped["properties"]["a"]["default"]
        assert two.parameters == original
        assert mine == original


@mutation.each()
async def test_nobody_can_change_anothers_schema(scenario: Scenario) -> None:
    """Deeply read-only, copied where they are taken."""
    await scenario()
