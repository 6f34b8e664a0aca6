"""Shadowing is replacement, and order is stable: over ties, shadows and restarts."""

from __future__ import annotations

import anyio.lowlevel
import pytest

from harness_core import Context, bind_scope_parent, create_scope
from harness_core.prompt import SystemPrompt, render_context_snapshot, render_prompt

from .tree import Key, live, names, texts

pytestmark = pytest.mark.asyncio


async def test_sections_stand_by_order_and_fractions_are_fine() -> None:
    """Negative before the persona, fractions between."""
    async with live(persona="0") as (_, sp):
        for order in (100, -5, 0.5, 1, -0.25, 10**30):
            sp.section(str(order), str(order), order=order)
        assert texts(await sp.assemble()) == ["-5", "-0.25", "0", "0.5", "1", "100", str(10**30)]


async def test_contexts_stand_by_order() -> None:
    """The same rule for the snapshot."""
    async with live() as (_, sp):
        for order in (3, 1, 2):
            sp.context(str(order), str(order), order=order)
        assert render_context_snapshot(await sp.assemble()).split("\n\n")[1:] == ["1", "2", "3"]


async def test_equal_orders_keep_registration_order() -> None:
    """Also in a scope, where the global ones come first."""
    async with live() as (root, sp):
        key = Key()
        scope = create_scope(root, key)
        scope.ctx.system_prompt.section("z", "z", order=1)
        for name in "cab":
            sp.section(name, name, order=1)
        scope.ctx.system_prompt.section("y", "y", order=1)
        assert texts(await sp.assemble()) == ["c", "a", "b"]
        assert texts(await sp.assemble(scope=key)) == ["c", "a", "b", "z", "y"]


async def test_a_shadow_of_the_same_order_stands_where_the_shadowed_one_stood() -> None:
    """Another order moves it."""
    async with live() as (root, sp):
        key = Key()
        scope = create_scope(root, key)
        for name in "abc":
            sp.section(name, name, order=1)
        effect = scope.ctx.system_prompt.section("b", "B", order=1)
        assert texts(await sp.assemble(scope=key)) == ["a", "B", "c"]
        await effect()
        scope.ctx.system_prompt.section("b", "B", order=2)
        assert texts(await sp.assemble(scope=key)) == ["a", "c", "B"]


@pytest.mark.parametrize("kind", ["section", "context", "variable"])
async def test_the_nearest_scope_wins_a_name_whole(kind: str) -> None:
    """What is shadowed is never evaluated; disposing the shadow brings it back."""
    called: list[str] = []

    def provider(name: str) -> object:
        return lambda: called.append(name) or name

    async with live() as (root, sp):
        parent, child = Key("parent"), Key("child")
        outer = create_scope(root, parent)
        inner = create_scope(root, child, parent=parent)
        options = {} if kind == "variable" else {"order": 1}
        effects = [
            getattr(service, kind)("x", provider(name), **options)
            for service, name in (
                (sp, "global"),
                (outer.ctx.system_prompt, "parent"),
                (inner.ctx.system_prompt, "child"),
            )
        ]

        async def seen(scope: Key | None) -> list[str]:
            called.clear()
            await sp.assemble(scope=scope)
            return called[:]

        assert await seen(child) == ["child"]
        assert await seen(parent) == ["parent"]
        assert await seen(None) == ["global"]
        await effects[2]()
        assert await seen(child) == ["parent"]
        await effects[1]()
        assert await seen(child) == ["global"]


async def test_a_shadow_need_not_be_of_the_same_making() -> None:
    """An empty text in the scope silences a section of the global layer."""
    async with live() as (root, sp):
        key = Key()
        sp.section("rules", "global rules", order=1)
        create_scope(root, key).ctx.system_prompt.section("rules", "", order=1)
        assert render_prompt(await sp.assemble(scope=key)) == ""


async def test_views_inherit_down_and_siblings_do_not_mix() -> None:
    """A child sees its ancestors' layers, nobody sees a sibling's or a descendant's."""
    async with live() as (root, sp):
        parent, one, two = Key("parent"), Key("one"), Key("two")
        create_scope(root, parent).ctx.system_prompt.section("p", "p", order=1)
        for key in (one, two):
            scope = create_scope(root, key, parent=parent)
            scope.ctx.system_prompt.section(key.name, key.name, order=2)
        assert texts(await sp.assemble(scope=one)) == ["p", "one"]
        assert texts(await sp.assemble(scope=two)) == ["p", "two"]
        assert texts(await sp.assemble(scope=parent)) == ["p"]
        assert texts(await sp.assemble()) == [""]


async def test_a_scope_that_was_never_minted_sees_the_global_layer() -> None:
    """And no scope at all sees just that."""
    async with live() as (_, sp):
        sp.section("g", "g", order=1)
        assert texts(await sp.assemble(scope=Key())) == ["g"]


async def test_rebinding_a_parent_changes_the_next_assembly() -> None:
    """Plans follow the chain."""
    async with live() as (root, sp):
        one, two, child = Key("one"), Key("two"), Key("child")
        for key in (one, two):
            create_scope(root, key).ctx.system_prompt.section("s", key.name, order=1)
        binding = bind_scope_parent(child, one)
        assert texts(await sp.assemble(scope=child)) == ["one"]
        binding.rebind(two)
        assert texts(await sp.assemble(scope=child)) == ["two"]
        binding.rebind(None)
        assert texts(await sp.assemble(scope=child)) == [""]


async def test_a_disposed_parent_scope_leaves_the_rest_of_the_chain() -> None:
    """Assembling for a child, or for the disposed scope itself, sees what is left."""
    async with live() as (root, sp):
        top, middle, leaf = Key("top"), Key("middle"), Key("leaf")
        scopes = {}
        for key, parent in ((top, None), (middle, top), (leaf, middle)):
            scopes[key] = create_scope(root, key, parent=parent)
            scopes[key].ctx.system_prompt.section(key.name, key.name, order=1)
        await scopes[middle].dispose()
        assert texts(await sp.assemble(scope=leaf)) == ["top", "leaf"]
        assert texts(await sp.assemble(scope=middle)) == ["top"]
        await scopes[leaf].dispose()
        assert texts(await sp.assemble(scope=leaf)) == ["top"]


async def test_a_restarted_plugin_keeps_its_old_place() -> None:
    """Sections, contexts and variables, also of nested child plugins."""

    def child(ctx: Context, config: dict[str, str]) -> None:
        ctx.system_prompt.section(f"{config['id']}.child", config["id"] + "c", order=1)

    def plugin(ctx: Context, config: dict[str, str]) -> None:
        name = config["id"]
        ctx.system_prompt.section(name, name, order=1)
        ctx.system_prompt.context(name, name, order=1)
        ctx.system_prompt.variable(name, name)
        ctx.plugin(child, {"id": name})

    plugin.inject = ["system_prompt"]  # type: ignore[attr-defined]
    async with live() as (root, sp):
        fibers = [root.plugin(plugin, {"id": name}) for name in "abc"]
        before = await sp.assemble()
        assert names(before.sections) == ["a", "a.child", "b", "b.child", "c", "c.child"]
        for fiber in (fibers[0], fibers[1], fibers[1], lambda: fibers[1].children[0]):
            await (fiber() if callable(fiber) else fiber).restart()
            after = await sp.assemble()
            assert after == before
            assert list(after.variables) == list(before.variables)


async def test_what_is_registered_deeper_keeps_its_place_too() -> None:
    """Inside effects, sync and async, injected children and scopes of the plugin's own."""
    keys = {name: Key(name) for name in "ab"}

    async def plugin(ctx: Context, config: dict[str, str]) -> None:
        name = config["id"]

        def add(where: str) -> object:
            return lambda inner: inner.system_prompt.section(f"{name}.{where}", name, order=1)

        async def add_later(inner: Context) -> None:
            await anyio.lowlevel.checkpoint()
            add("async")(inner)  # type: ignore[operator]

        ctx.effect(add("effect"))  # type: ignore[arg-type]
        await ctx.effect(add_later)
        await ctx.inject(["system_prompt"], add("injected"))  # type: ignore[arg-type]
        add("scope")(create_scope(ctx, keys[name]).ctx)  # type: ignore[operator]
        for other in keys.values():
            create_scope(ctx, other).ctx.system_prompt.context(name, name, order=1)

    plugin.inject = ["system_prompt"]  # type: ignore[attr-defined]
    async with live() as (root, sp):
        first, second = [await root.plugin(plugin, {"id": name}) for name in "ab"]
        scopes = [None, *keys.values()]
        before = [await sp.assemble(scope=scope) for scope in scopes]
        assert names(before[0].sections) == [
            f"{name}.{where}" for name in "ab" for where in ("effect", "async", "injected")
        ]
        assert names(before[1].contexts) == ["a", "b"]
        for fiber in (first, second, first):
            await fiber.restart()
            assert [await sp.assemble(scope=scope) for scope in scopes] == before


async def test_an_updated_plugin_keeps_its_old_place() -> None:
    """A config update by restart moves nothing."""

    def plugin(ctx: Context, config: dict[str, str]) -> None:
        ctx.system_prompt.section(config["id"], config["text"], order=1)

    plugin.inject = ["system_prompt"]  # type: ignore[attr-defined]
    async with live() as (root, sp):
        fibers = [root.plugin(plugin, {"id": name, "text": name}) for name in "abc"]
        await fibers[0].update({"id": "a", "text": "A"})
        assert texts(await sp.assemble()) == ["A", "b", "c"]


async def test_a_restarted_shadow_keeps_its_place_in_the_scope() -> None:
    """Names that only the scope has keep their order among themselves."""

    def plugin(ctx: Context, config: dict[str, str]) -> None:
        ctx.system_prompt.section(config["id"], config["id"], order=1)

    plugin.inject = ["system_prompt"]  # type: ignore[attr-defined]
    async with live() as (root, sp):
        key = Key()
        scope = create_scope(root, key)
        fibers = [scope.ctx.plugin(plugin, {"id": name}) for name in "abc"]
        await fibers[0].restart()
        assert texts(await sp.assemble(scope=key)) == ["a", "b", "c"]


async def test_listeners_of_a_restarted_plugin_keep_their_place() -> None:
    """The waterfall runs in the order it ran before."""
    journal: list[str] = []

    def plugin(ctx: Context, config: dict[str, str]) -> None:
        async def listen(assembly: object, context: object, next: object) -> object:
            journal.append(config["id"])
            return await next()  # type: ignore[operator]

        ctx.on("system-prompt/assemble", listen)

    async with live() as (root, sp):
        fibers = [root.plugin(plugin, {"id": name}) for name in "abc"]
        await fibers[0].restart()
        await sp.assemble()
        assert journal == ["a", "b", "c"]


async def test_registrations_of_the_root_survive_a_restart_of_the_service() -> None:
    """Sections, contexts, variables, tools, suppressors and listeners; byte for byte."""
    async with Context() as root:
        fiber = root.plugin(SystemPrompt, persona="P")
        sp = root[SystemPrompt]
        scope_key = Key()
        scope = create_scope(root, scope_key)
        sp.section("s", "s {{v}}", order=0)
        sp.context("c", "c", order=1)
        sp.variable("v", "value")
        sp.tools(lambda: [{"name": "t"}])
        scope.ctx.system_prompt.section("s", "scoped", order=0)
        scope.ctx.system_prompt.suppress_runtime_context("c")
        before = [await root.system_prompt.assemble(scope=key) for key in (None, scope_key)]
        await fiber.restart()
        after = [await root.system_prompt.assemble(scope=key) for key in (None, scope_key)]
        assert after == before
        assert render_prompt(after[0]).endswith("P\n\ns value")


async def test_registrations_of_consumers_are_made_again_when_the_service_restarts() -> None:
    """They inject it, so they restart with it, and stand where they stood."""

    def plugin(ctx: Context, config: dict[str, str]) -> None:
        ctx.system_prompt.section(config["id"], config["id"], order=1)

    plugin.inject = ["system_prompt"]  # type: ignore[attr-defined]
    async with Context() as root:
        fiber = root.plugin(SystemPrompt)
        for name in "abc":
            root.plugin(plugin, {"id": name})
        before = await root.system_prompt.assemble()
        await fiber.restart()
        for child in root.fiber.children:
            await child.wait_active()
        assert await root.system_prompt.assemble() == before


async def test_the_effect_of_a_root_registration_still_works_after_a_restart() -> None:
    """Its owner can take it back from the new instance."""
    async with Context() as root:
        fiber = root.plugin(SystemPrompt)
        effect = root.system_prompt.section("s", "s", order=1)
        await fiber.restart()
        await effect()
        assert names((await root.system_prompt.assemble()).sections) == ["harness:identity"]
