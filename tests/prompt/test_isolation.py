"""Assemblies share no mutable state, and none sees a plugin half swapped."""

from __future__ import annotations

import asyncio
import copy
import gc
import weakref
from collections.abc import Awaitable, Callable

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from harness_core import Context, FiberState, create_scope
from harness_core.errors import ForeignThreadError
from harness_core.prompt import (
    AssembleContext,
    AssembledSection,
    PromptAssembly,
    ToolSchema,
    render_prompt,
)

from .tree import Key, live, names, texts

pytestmark = pytest.mark.asyncio

Next = Callable[[], Awaitable[PromptAssembly]]
ASSEMBLE = "system-prompt/assemble"


async def test_concurrent_assemblies_share_nothing() -> None:
    """Two scopes at once, interleaved at every await: each has only its own."""

    async def slow(context: AssembleContext) -> str:
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        return f"{context.who}"

    async def listen(assembly: PromptAssembly, context: AssembleContext, next: Next) -> object:
        assembly.sections.append(AssembledSection(f"from {context.who}", context.who))
        await anyio.lowlevel.checkpoint()
        assembly.variables[context.who] = context.who
        return await next()

    results: dict[int, PromptAssembly] = {}
    async with live() as (root, sp):
        keys = [Key(f"a{number}") for number in range(20)]
        for key in keys:
            create_scope(root, key).ctx.system_prompt.section("mine", key.name, order=2)
        sp.section("slow", slow, order=1)
        sp.variable("slow", slow)
        root.on(ASSEMBLE, listen)

        async def assemble(number: int) -> None:
            results[number] = await sp.assemble(scope=keys[number], who=f"w{number}")

        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(assemble, number)
        for number, assembly in results.items():
            who = f"w{number}"
            assert texts(assembly) == [who, f"a{number}", who]
            assert assembly.variables == {"slow": who, who: who}
        assert names((await sp.assemble(who="x")).sections) == ["slow", "from x"]


async def test_no_assembly_from_a_foreign_thread() -> None:
    """No provider runs there."""
    called: list[str] = []
    async with live() as (_, sp):
        sp.section("s", lambda: called.append("provider") or "x", order=1)
        with pytest.raises(ForeignThreadError):
            await anyio.to_thread.run_sync(lambda: asyncio.run(sp.assemble()))
        assert called == []


async def test_concurrent_assemblies_of_one_scope_are_equal() -> None:
    """And distinct in every list, dict and record."""
    async with live() as (_, sp):
        sp.section("s", "x", order=1)
        sp.context("c", "x", order=1)
        sp.variable("v", "x")
        sp.tools(lambda: tools)
        tools = [ToolSchema("t")]
        results: list[PromptAssembly] = []

        async def assemble() -> None:
            results.append(await sp.assemble())

        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(assemble)
        assert all(one == results[0] for one in results)
        for field in ("sections", "contexts", "tools", "variables"):
            assert len({id(getattr(one, field)) for one in results}) == 20
        for field in ("sections", "contexts"):
            assert len({id(part) for one in results for part in getattr(one, field)}) >= 20


async def test_changing_an_assembly_changes_neither_registry_nor_another_assembly() -> None:
    """L7, after the fact."""
    async with live(persona="P") as (_, sp):
        sp.section("s", "x", order=1)
        sp.section("all", "complete", order=2, complete=True)
        sp.context("c", "x", order=1)
        sp.variable("v", "x")
        sp.tools(lambda: [ToolSchema("t")])
        first = await sp.assemble()
        expected = copy.copy(await sp.assemble())
        for section in first.sections:
            section.text = "spoilt"
            section.name = "spoilt"
        first.contexts[0].text = "spoilt"
        first.variables["v"] = "spoilt"
        for parts in (first.sections, first.contexts, first.tools):
            parts.clear()
        assert await sp.assemble() == expected


async def test_what_a_listener_keeps_is_not_what_is_returned() -> None:
    """A listener that keeps its assembly cannot spoil it later, nor the caller the listener's."""
    kept: list[PromptAssembly] = []

    async def listen(assembly: PromptAssembly, context: object, next: Next) -> object:
        kept.append(assembly)
        return await next()

    async with live() as (root, sp):
        sp.section("s", "x", order=1)
        root.on(ASSEMBLE, listen)
        assembly = await sp.assemble()
        kept[0].sections.clear()
        kept[0].variables["new"] = "x"
        assert names(assembly.sections) == ["s"]
        assert assembly.variables == {}


async def test_an_assembly_waits_while_a_plugin_is_swapped() -> None:
    """L8: none sees the restarting plugin missing."""
    go = anyio.Event()
    first = [True]

    async def plugin(ctx: Context) -> None:
        ctx.system_prompt.section("s", "x", order=1)
        if not first[0]:
            await go.wait()

    plugin.inject = ["system_prompt"]  # type: ignore[attr-defined]
    results: list[str] = []
    async with live() as (root, sp):
        fiber = await root.plugin(plugin)
        first[0] = False

        async def assemble() -> None:
            results.append(render_prompt(await sp.assemble()))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fiber.restart)
            await anyio.wait_all_tasks_blocked()
            assert fiber.state is FiberState.LOADING
            tasks.start_soon(assemble)
            await anyio.wait_all_tasks_blocked()
            assert results == []
            go.set()
        assert results == ["x"]


async def test_an_assembly_waits_while_a_config_update_swaps() -> None:
    """The same gate for updates, also when the new body fails and the old comes back."""

    async def plugin(ctx: Context, config: dict[str, str]) -> None:
        ctx.system_prompt.section("s", config["text"], order=1)
        await anyio.lowlevel.checkpoint()
        if config["text"] == "bad":
            raise LookupError("planned")

    plugin.inject = ["system_prompt"]  # type: ignore[attr-defined]
    results: list[str] = []
    async with live() as (root, sp):
        fiber = await root.plugin(plugin, {"text": "old"})

        async def assemble() -> None:
            while len(results) < 20:
                results.append(render_prompt(await sp.assemble()))
                await anyio.lowlevel.checkpoint()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(assemble)
            await fiber.update({"text": "new"})
            with pytest.raises(LookupError):
                await fiber.update({"text": "bad"})
        assert set(results) <= {"old", "new"}
        assert results[-1] == "new"


async def test_assembling_for_many_passing_keys_keeps_few_of_them_alive() -> None:
    """Also for keys that cannot be weakly referenced, which a plan has to hold."""

    class Big: ...

    async with live() as (_, sp):
        references: list[weakref.ref[Big]] = []
        for _ in range(3000):
            key = [Big()]
            references.append(weakref.ref(key[0]))
            await sp.assemble(scope=key)
        del key
        gc.collect()
        assert sum(one() is not None for one in references) < 1500


async def test_a_disposed_plugin_leaves_no_residue_in_the_prompt() -> None:
    """L2: the next assembly is as if it had never been loaded, and its objects are free."""

    class Big: ...

    async def visit(root: Context) -> weakref.ref[Big]:
        big = Big()

        async def listen(assembly: PromptAssembly, context: object, next: Next) -> object:
            assembly.sections.append(AssembledSection("l", repr(big)))
            return await next()

        def plugin(ctx: Context) -> None:
            sp = ctx.system_prompt
            sp.section("s", lambda: repr(big), order=1)
            sp.context("c", lambda: repr(big), order=1)
            sp.variable("v", lambda: repr(big))
            sp.tools(lambda: [ToolSchema("t", repr(big))])
            ctx.on(ASSEMBLE, listen)
            create_scope(ctx, big).ctx.system_prompt.section("s", lambda: repr(big), order=1)

        plugin.inject = ["system_prompt"]  # type: ignore[attr-defined]
        fiber = root.plugin(plugin)
        assembly = await root.system_prompt.assemble(scope=big)
        assert names(assembly.sections) == ["s", "l"]
        await fiber.dispose()
        return weakref.ref(big)

    async with live() as (root, sp):
        before = await sp.assemble()
        effects = root.fiber.effects()
        gone = await visit(root)
        assert await sp.assemble() == before
        assert root.fiber.effects() == effects
        assert ASSEMBLE not in root.kernel.bus.listeners()
        gc.collect()
        assert gone() is None
