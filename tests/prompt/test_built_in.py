"""What the service itself contributes, and its config."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from harness_core import Context, create_scope
from harness_core.errors import ConfigError, ToolOrderError
from harness_core.prompt import (
    PERSONA_ORDER,
    PERSONA_SECTION,
    TOOL_ORDER_REST,
    SystemPrompt,
    render_context_snapshot,
    render_prompt,
)

from .tree import Key, live

pytestmark = pytest.mark.asyncio


async def test_the_constants() -> None:
    """They are part of the contract."""
    assert (PERSONA_SECTION, PERSONA_ORDER) == ("deployment:persona", 0)
    assert TOOL_ORDER_REST == "<unlisted-tools>"
    assert SystemPrompt.key == "system_prompt"


async def test_identity_first_then_persona_both_global() -> None:
    """Orders -100 and 0; the persona is what is configured."""
    async with Context() as root:
        await root.plugin(SystemPrompt, persona="You help.")
        assembly = await root.system_prompt.assemble()
        assert [(one.name, one.origin.order, one.origin.scope) for one in assembly.sections] == [
            ("harness:identity", -100, None),
            (PERSONA_SECTION, 0, None),
        ]
        assert render_prompt(assembly) == (
            "You are an AI agent powered by DeepSeek Harness.\n\nYou help."
        )


async def test_the_persona_is_empty_by_default() -> None:
    """It stands there, and is dropped when rendered."""
    async with Context() as root:
        await root.plugin(SystemPrompt)
        assembly = await root.system_prompt.assemble()
        assert [one.text for one in assembly.sections][1:] == [""]
        assert render_prompt(assembly) == "You are an AI agent powered by DeepSeek Harness."


async def test_the_identity_can_be_left_out() -> None:
    """`include_harness_identity=False`."""
    async with live(persona="P") as (_, sp):
        assert render_prompt(await sp.assemble()) == "P"


async def test_runtime_context_can_be_left_out() -> None:
    """`include_runtime_context=False` suppresses all of it, everywhere."""
    called: list[str] = []
    async with live(include_runtime_context=False) as (root, sp):
        key = Key()
        scope = create_scope(root, key)
        sp.context("a", lambda: called.append("a") or "x", order=1)
        scope.ctx.system_prompt.context("b", lambda: called.append("b") or "x", order=1)
        for assembly in (await sp.assemble(), await sp.assemble(scope=key)):
            assert assembly.contexts == []
            assert render_context_snapshot(assembly) == ""
        assert called == []


async def test_the_persona_refers_to_variables_and_is_shadowed_per_scope() -> None:
    """An agent's persona replaces the deployment's."""
    async with live(persona="Hello {{who}}") as (root, sp):
        sp.variable("who", "world")
        key = Key()
        create_scope(root, key).ctx.system_prompt.section(
            PERSONA_SECTION, "Bye {{who}}", order=PERSONA_ORDER
        )
        assert render_prompt(await sp.assemble()) == "Hello world"
        assert render_prompt(await sp.assemble(scope=key)) == "Bye world"


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"personna": "x"}, "did you mean 'persona'"),
        ({"persona": 5}, "persona: expected str"),
        ({"include_harness_identity": "no"}, "include_harness_identity: expected bool"),
        ({"tool_order": "bash"}, "tool_order"),
    ],
    ids=["unknown", "persona", "identity", "tool_order"],
)
async def test_a_wrong_config_is_refused_at_load(config: dict[str, Any], said: str) -> None:
    """With the path; no service appears."""
    async with Context() as root:
        with pytest.raises(ConfigError, match=said):
            await root.plugin(SystemPrompt, config)
        assert root.get("system_prompt") is None


@pytest.mark.parametrize(
    ("order", "names"),
    [(["bash"], []), ([], []), (["a", TOOL_ORDER_REST, "a"], ["a"])],
    ids=["no marker", "empty", "twice"],
)
async def test_a_tool_order_without_one_rest_marker_or_with_doubles_is_refused_at_load(
    order: list[str], names: list[str]
) -> None:
    """Before anything is registered."""
    async with Context() as root:
        with pytest.raises(ToolOrderError) as caught:
            await root.plugin(SystemPrompt, tool_order=order)
        assert caught.value.names == names
        assert names or TOOL_ORDER_REST in str(caught.value)
        assert root.get("system_prompt") is None
        assert root.fiber.children[0].effects() == []


async def test_the_marker_twice_is_refused_at_load() -> None:
    """Exactly once."""
    async with Context() as root:
        with pytest.raises(ToolOrderError) as caught:
            await root.plugin(SystemPrompt, tool_order=[TOOL_ORDER_REST, TOOL_ORDER_REST])
        assert caught.value.names == [TOOL_ORDER_REST]


@pytest.mark.parametrize("first", ["service", "registration"])
async def test_the_storage_goes_with_the_last_of_service_and_registrations(first: str) -> None:
    """L2: what outlives a restart is dropped when nothing of it is left."""
    async with Context() as root:
        fiber = root.plugin(SystemPrompt)
        storage = weakref.ref(root[SystemPrompt].layers)
        effect = root.system_prompt.section("s", "x", order=1)
        if first == "registration":
            await effect()
        await fiber.dispose()
        gc.collect()
        if first == "service":
            assert storage() is not None
            await effect()
            del effect
            gc.collect()
        else:
            del effect
            gc.collect()
        assert storage() is None


async def test_mounting_leaves_nothing_after_disposal() -> None:
    """L2 for the service itself."""
    async with Context() as root:
        before = root.kernel.bus.listeners()
        fiber = root.plugin(SystemPrompt, persona="x")
        await fiber.dispose()
        assert root.kernel.bus.listeners() == before
        assert root.kernel.services.keys() == []
        assert root.fiber.effects() == []
