"""What the prompt shows: fed by the registry, the same bytes each turn, no tool, no guidance."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import attrs
import pytest
from harness_plugins.tools.api import Tool, Tools

from harness_core import Context, bind_scope_parent, create_scope
from harness_core.errors import ToolOrderError
from harness_core.prompt import PromptAssembly, SystemPrompt, diff_assemblies, render_prompt
from harness_core.testing import assert_no_residue

from .tree import plugin_of, told, tool, tree

pytestmark = pytest.mark.asyncio

RICH: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {
        "node": {"$ref": "#/$defs/Node"},
        "either": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}], "default": None},
        "when": {"type": "string", "format": "date-time", "description": "日本語 — ünïcode 🙂"},
        "old": {"type": ["string", "null"], "nullable": True, "x-vendor": {"deep": [1, 2.5]}},
    },
    "required": ["node"],
    "additionalProperties": False,
    "$defs": {
        "Node": {
            "type": "object",
            "properties": {"next": {"$ref": "#/$defs/Node"}, "kind": {"const": "node"}},
        }
    },
}


def bytes_of(assembly: PromptAssembly) -> bytes:
    """Return the tools as they go over the wire."""
    tools = [(one.name, one.description, one.parameters) for one in assembly.tools]
    return json.dumps(tools, ensure_ascii=False).encode()


async def test_schemas_pass_unchanged() -> None:
    """Field report tool_schema: `$defs` dropped, and `anyOf` with references refused."""
    async with tree() as root:
        given = copy.deepcopy(RICH)
        root.tools.register(Tool("rich", "Rich — é", given, run=lambda _: None))
        (shown,) = (await root.system_prompt.assemble()).tools
        assert shown.parameters == RICH
        assert json.dumps(shown.parameters) == json.dumps(RICH)
        assert (await root.tools.execute("rich", {"node": {"next": {}}}, scope=None)).status == "ok"


async def test_schemas_are_never_mutated() -> None:
    """Field report schema_mutation: neither the caller's dict, nor what others see of it."""
    async with tree() as root:
        given = copy.deepcopy(RICH)
        one = Tool("shared", "Shared.", given, run=lambda _: None)
        a, b = create_scope(root, "a"), create_scope(root, "b")
        a.ctx.tools.register(one)
        b.ctx.tools.register(one)

        async def edit(assembly: PromptAssembly, context: Any, next: Any) -> PromptAssembly:
            result: PromptAssembly = await next()
            result.tools[0] = attrs.evolve(result.tools[0], description="Edited.")
            with pytest.raises(TypeError, match="read-only"):
                result.tools[0].parameters["properties"]["node"].pop("$ref")
            return result

        a.ctx.on("system-prompt/assemble", edit)
        edited = await root.system_prompt.assemble(scope="a")
        assert edited.tools[0].description == "Edited."
        assert (await root.system_prompt.assemble(scope="b")).tools[0].description == "Shared."
        assert root.tools.schemas("a")[0].description == "Shared."
        await root.tools.execute("shared", {"node": {}}, scope="a")
        assert given == RICH
        given["properties"].clear()
        assert root.tools.schemas("a")[0].parameters == RICH


async def test_the_very_same_schema_objects_are_given_while_nothing_changes() -> None:
    """So that the assembler need not order them again; a change elsewhere changes nothing here."""
    async with tree() as root:
        for name in ("c", "a", "b"):
            root.tools.register(tool(name))
        a = create_scope(root, "a")
        first = root.tools.schemas("a")
        result = root.tools.registered_tools(type("C", (), {"scope": "a"})())
        assert all(x is y for x, y in zip(first, result.schemas, strict=True))
        create_scope(root, "b").ctx.tools.register(tool("elsewhere"))
        assert all(x is y for x, y in zip(first, root.tools.schemas("a"), strict=True))
        a.ctx.tools.register(tool("d"))
        assert all(x is y for x, y in zip(first, root.tools.schemas("a"), strict=False))
        assert [one.name for one in root.tools.schemas("a")] == ["a", "b", "c", "d"]


class Key:
    """A scope key that is told when it goes."""


async def test_a_scope_whose_key_has_the_identity_of_one_that_is_gone_sees_its_own() -> None:
    """Views are kept by identity, and identities are used again."""
    async with tree() as root:
        parent = create_scope(root, "parent")
        parent.ctx.tools.register(tool("inherited"))
        gone: set[int] = set()
        again = 0
        for _ in range(50):
            key = Key()
            assert root.tools.visible(key) == {}
            again += id(key) in gone
            bind_scope_parent(key, "parent")
            assert list(root.tools.visible(key)) == ["inherited"]
            gone.add(id(key))
            del key
        assert again


async def test_known_names_are_those_before_restriction() -> None:
    """So `tool_order` may list a tool that is hidden here, and not one that nobody has."""
    async with Context() as root:
        order = ["grep", "<unlisted-tools>", "bash"]
        await root.plugin(SystemPrompt, tool_order=order)
        await root.plugin(Tools)
        root.tools.register(tool("bash"))
        with pytest.raises(ToolOrderError, match="grep"):
            await root.system_prompt.assemble()
        root.tools.register(tool("grep"))
        scope = create_scope(root, "agent")
        scope.ctx.tools.register(tool("own"))
        assert await told(root, "agent") == ["grep", "own", "bash"]
        scope.ctx.tools.restrict(deny=["grep"])
        assert await told(root, "agent") == ["own", "bash"]
        assert root.tools.known_names("agent") == ("bash", "grep", "own")
        explained = (await root.system_prompt.assemble(scope="agent")).explain()
        assert [one.name for one in explained if one.status == "restricted"] == ["grep"]


async def test_list_changed_shows_in_the_next_assembly_and_fires_one_change_each() -> None:
    """Field report list_changed: additions, removals and changes of one name, never stale."""
    async with tree() as root:
        journal: list[str] = []
        root.on("system-prompt/change", lambda: journal.append("change"))
        one = root.tools.register(tool("a"))
        root.tools.register(tool("b"))
        assert await told(root) == ["a", "b"]
        assert len(journal) == 2
        await one()
        assert await told(root) == ["b"]
        root.tools.register(Tool("a", "Another.", run=lambda _: None))
        assert (await root.system_prompt.assemble()).tools[0].description == "Another."
        assert len(journal) == 4
        scope = create_scope(root, "agent")
        limit = scope.ctx.tools.restrict(deny=["a"])
        await limit()
        assert len(journal) == 6
        with pytest.raises(Exception, match="already"):
            root.tools.register(tool("a"))
        assert len(journal) == 6


async def test_tool_order_is_the_same_whatever_the_order_of_registration() -> None:
    """Field reports tool_order_cache: the same visible set is the same bytes."""
    names = ["zeta", "alpha", "mu", "ä", "z", "a_b", "a-b", "A", "\U0001f642", "\uffee"]
    seen: set[bytes] = set()
    shuffle = random.Random(7)
    for _ in range(50):
        shuffle.shuffle(names)
        async with tree() as root:
            for name in names:
                root.tools.register(tool(name))
            seen.add(bytes_of(await root.system_prompt.assemble()))
            seen.add(bytes_of(await root.system_prompt.assemble()))
    assert len(seen) == 1


async def test_tool_order_is_the_same_after_a_reload() -> None:
    """Field report tool_order_cache: a provider that goes and comes back changes nothing."""
    async with tree() as root:
        a = await root.plugin(plugin_of("a", tool("x1"), tool("m1")))
        await root.plugin(plugin_of("b", tool("n2"), tool("a2")))
        before = bytes_of(await root.system_prompt.assemble())
        await a.restart()
        assert bytes_of(await root.system_prompt.assemble()) == before


async def test_a_changed_description_is_told_by_the_diff() -> None:
    """Field report tool_order_cache: unchanged names with changed schemas."""
    async with tree() as root:
        effect = root.tools.register(Tool("agents", "agents: a", run=lambda _: None))
        before = await root.system_prompt.assemble()
        await effect()
        root.tools.register(Tool("agents", "agents: a,b", run=lambda _: None))
        difference = diff_assemblies(before, await root.system_prompt.assemble())
        assert any("agents" in str(change) for change in difference.changes)


async def test_hidden_tool_guidance_leaves_the_prompt_with_its_tool() -> None:
    """Field reports hidden_tool_guidance: `requires_tools` asks the same question."""
    async with tree() as root, assert_no_residue(root):
        effects = [root.tools.register(tool(name)) for name in ("glob", "bash")]
        effects.append(
            root.system_prompt.section(
                "tool:glob", "Find files with glob.", order=110, requires_tools=["glob"]
            )
        )
        scope = create_scope(root, "agent")
        assembly = await root.system_prompt.assemble(scope="agent")
        assert render_prompt(assembly) == "Find files with glob."
        limit = scope.ctx.tools.restrict(allow=["bash"])
        assembly = await root.system_prompt.assemble(scope="agent")
        assert render_prompt(assembly) == ""
        assert [one.name for one in assembly.tools] == ["bash"]
        assert render_prompt(await root.system_prompt.assemble()) == "Find files with glob."
        await limit()
        assembly = await root.system_prompt.assemble(scope="agent")
        assert render_prompt(assembly) == "Find files with glob."
        await scope.dispose()
        for effect in effects:
            await effect()


async def test_five_assemblies_show_one_copy_each() -> None:
    """Field report duplicate_tools: a shared list that grows with each call."""
    async with tree() as root:
        root.tools.register(tool("once"))
        for _ in range(5):
            assembly = await root.system_prompt.assemble()
            assert [one.name for one in assembly.tools] == ["once"]
            assembly.tools.append(assembly.tools[0])
