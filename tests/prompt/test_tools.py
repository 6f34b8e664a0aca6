"""Tool providers, the order of tools, and what is refused."""

from __future__ import annotations

import functools
import random
from typing import Any

import pytest

from harness_core import Context, create_scope
from harness_core.errors import ContributionError, ToolOrderError
from harness_core.prompt import (
    TOOL_ORDER_REST,
    AssembleContext,
    SystemPrompt,
    ToolProviderResult,
    ToolSchema,
)

from .tree import Key, live

pytestmark = pytest.mark.asyncio


def schemas(*names: str) -> list[ToolSchema]:
    """Return a schema for each name."""
    return [ToolSchema(name, f"does {name}") for name in names]


def nothing() -> list[ToolSchema]:
    """Provide no tool."""
    return []


async def order_of(sp: SystemPrompt, **fields: Any) -> list[str]:
    """Return the names of the assembled tools."""
    return [tool.name for tool in (await sp.assemble(**fields)).tools]


async def test_a_provider_returns_schemas_or_a_result_or_mappings() -> None:
    """A mapping becomes a `ToolSchema`; a generator of schemas is fine."""
    parameters = {"type": "object", "properties": {"x": {"type": "string"}}}
    async with live() as (_, sp):
        sp.tools(lambda: [{"name": "a", "description": "A", "parameters": parameters}])
        sp.tools(lambda: ToolProviderResult(schemas("b")))
        sp.tools(lambda: (schema for schema in schemas("c")))
        sp.tools(nothing)
        tools = (await sp.assemble()).tools
        assert tools == [ToolSchema("a", "A", parameters), *schemas("b", "c")]
        assert all(type(tool) is ToolSchema for tool in tools)


async def test_a_provider_may_be_async_and_take_the_context() -> None:
    """It sees the fields of the assembly."""

    async def provider(context: AssembleContext) -> list[ToolSchema]:
        return schemas(context.tool)

    async with live() as (_, sp):
        sp.tools(provider)
        assert await order_of(sp, tool="hammer") == ["hammer"]


async def test_all_providers_on_the_chain_contribute() -> None:
    """Tool providers do not shadow."""
    async with live() as (root, sp):
        parent, child = Key("parent"), Key("child")
        outer = create_scope(root, parent)
        inner = create_scope(root, child, parent=parent)
        sp.tools(lambda: schemas("g"))
        outer.ctx.system_prompt.tools(lambda: schemas("p"))
        inner.ctx.system_prompt.tools(lambda: schemas("c"))
        assert await order_of(sp, scope=child) == ["c", "g", "p"]
        assert await order_of(sp, scope=parent) == ["g", "p"]
        assert await order_of(sp) == ["g"]


async def test_without_a_tool_order_tools_stand_by_name() -> None:
    """In UTF-16 code-unit order, whatever the locale or the registration order."""
    names = ["ä", "z", "a_b", "a-b", "A", "a", "B", "a10", "a2"]
    seen = set()
    for seed in range(20):
        shuffled = names[:]
        random.Random(seed).shuffle(shuffled)
        async with live() as (_, sp):
            for name in shuffled:
                sp.tools(functools.partial(lambda name, context: schemas(name), name))
            seen.add(tuple(await order_of(sp)))
    assert seen == {("A", "B", "a", "a-b", "a10", "a2", "a_b", "z", "ä")}


async def test_code_units_differ_from_code_points_beyond_the_basic_plane() -> None:
    """A surrogate pair sorts before a private-use character."""
    beyond, private = "\U0001f600", "\ue000"
    assert sorted([beyond, private]) == [private, beyond]
    async with live() as (_, sp):
        sp.tools(lambda: schemas(private, beyond))
        assert await order_of(sp) == [beyond, private]


async def test_equal_names_keep_their_order() -> None:
    """The sort is stable: by provider, then as given."""
    async with live() as (_, sp):
        sp.tools(lambda: [ToolSchema("t", "one"), ToolSchema("t", "two")])
        sp.tools(lambda: [ToolSchema("t", "three")])
        tools = (await sp.assemble()).tools
        assert [tool.description for tool in tools] == ["one", "two", "three"]


async def test_a_tool_order_puts_listed_tools_in_place_and_the_rest_at_the_marker() -> None:
    """The others by name."""
    async with live(tool_order=["read", TOOL_ORDER_REST, "bash"]) as (_, sp):
        sp.tools(lambda: schemas("bash", "zap", "ask", "read"))
        assert await order_of(sp) == ["read", "ask", "zap", "bash"]


async def test_unknown_names_in_the_order_are_all_listed_with_the_known_ones() -> None:
    """`ToolOrderError(names, known)`, at assembly."""
    async with live(tool_order=["basch", TOOL_ORDER_REST, "read", "rm"]) as (_, sp):
        sp.tools(lambda: schemas("read", "bash"))
        with pytest.raises(ToolOrderError) as caught:
            await sp.assemble()
        assert caught.value.names == ["basch", "rm"]
        assert caught.value.known == ["bash", "read"]
        assert 'unknown tools "basch", "rm"' in str(caught.value)
        assert "known tools: bash, read" in str(caught.value)
        assert 'did you mean "bash"' in str(caught.value)


async def test_an_order_without_any_provider_knows_nothing() -> None:
    """The fault is found there, too."""
    async with live(tool_order=["bash", TOOL_ORDER_REST]) as (_, sp):
        with pytest.raises(ToolOrderError) as caught:
            await sp.assemble()
        assert (caught.value.names, caught.value.known) == (["bash"], [])


async def test_a_listed_tool_that_is_hidden_is_just_absent() -> None:
    """`known_names` is the universe before restriction."""
    async with live(tool_order=["bash", TOOL_ORDER_REST]) as (_, sp):
        sp.tools(lambda: ToolProviderResult(schemas("read"), known_names=["bash", "read"]))
        assert await order_of(sp) == ["read"]


async def test_known_names_replace_the_names_of_the_schemas() -> None:
    """A name that is shown and not known is unknown to the order."""
    async with live(tool_order=["read", TOOL_ORDER_REST]) as (_, sp):
        sp.tools(lambda: ToolProviderResult(schemas("read"), known_names=[]))
        with pytest.raises(ToolOrderError) as caught:
            await sp.assemble()
        assert caught.value.names == ["read"]


async def test_the_reserved_name_is_refused_at_assembly() -> None:
    """With and without an order."""
    for config in ({}, {"tool_order": [TOOL_ORDER_REST]}):
        async with live(**config) as (_, sp):
            sp.tools(lambda: schemas(TOOL_ORDER_REST))
            with pytest.raises(ToolOrderError) as caught:
                await sp.assemble()
            assert caught.value.names == [TOOL_ORDER_REST]
            assert "reserved" in str(caught.value)


@pytest.mark.parametrize(
    "wrong",
    [None, "bash", 5, {"name": "bash"}, [5], ["bash"], [{}], [{"name": "a", "x": 1}]],
    ids=repr,
)
async def test_a_wrong_result_is_refused_with_what_was_expected(wrong: Any) -> None:
    """`ContributionError` with the plugin; the tree is as before."""
    async with live() as (_, sp):
        effect = sp.tools(lambda: wrong)
        with pytest.raises(ContributionError) as caught:
            await sp.assemble()
        assert "expected" in str(caught.value) or "keys" in str(caught.value)
        assert 'plugin "root"' in "\n".join(caught.value.__notes__)
        await effect()
        assert await order_of(sp) == []


@pytest.mark.parametrize("schema", [{"name": 5}, {"name": "a", "description": None}], ids=repr)
async def test_name_and_description_are_texts(schema: Any) -> None:
    """A schema in a wrong shape is loud."""
    async with live() as (_, sp):
        sp.tools(lambda: [schema])
        with pytest.raises(ContributionError, match="as str"):
            await sp.assemble()


async def test_changing_a_listed_order_needs_no_new_providers() -> None:
    """An updated `tool_order` counts at the next assembly."""
    async with Context() as root:
        fiber = root.plugin(SystemPrompt, tool_order=["b", TOOL_ORDER_REST])
        root.system_prompt.tools(lambda: schemas("a", "b"))
        assert await order_of(root.system_prompt) == ["b", "a"]
        await fiber.update({"tool_order": [TOOL_ORDER_REST, "a"]})
        assert await order_of(root.system_prompt) == ["b", "a"]
        await fiber.update({})
        assert await order_of(root.system_prompt) == ["a", "b"]


async def test_providers_that_change_their_minds_are_believed() -> None:
    """The same objects in another order, fewer, more, or replaced: each next assembly is right."""
    a, b, other = ToolSchema("a"), ToolSchema("b"), ToolSchema("b", "changed")
    current: list[ToolSchema] = []
    async with live() as (_, sp):
        sp.tools(lambda: current)
        for now in ([a, b], [b, a], [a], [], [a, other], [a, b]):
            current[:] = now
            tools = (await sp.assemble()).tools
            assert tools == sorted(now, key=lambda tool: tool.name)
