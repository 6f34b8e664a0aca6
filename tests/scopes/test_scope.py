"""Scopes: minted keys, tags that are inherited, lifetimes that end with the scope."""

from __future__ import annotations

import gc
import weakref

import anyio
import anyio.lowlevel
import pytest

from harness_core import (
    Context,
    FiberState,
    Scope,
    bind_scope_parent,
    create_scope,
    scope_chain_of,
    scope_of,
    scope_parent_of,
)
from harness_core.errors import InactiveFiberError, ScopeError

pytestmark = pytest.mark.asyncio


class Key:
    """A scope key."""


async def test_a_scope_has_a_tagged_context() -> None:
    """`scope_of(scope.ctx)` is the key; the outer context is untouched."""
    async with Context() as root:
        key = Key()
        scope = create_scope(root, key)
        assert isinstance(scope, Scope)
        assert scope.key is key
        assert scope_of(scope.ctx) is key
        assert scope_of(root) is None


@pytest.mark.parametrize("key", ["agent", 7, (1, 2), frozenset()], ids=repr)
async def test_any_object_is_a_key(key: object) -> None:
    """Also one that cannot be weakly referenced."""
    async with Context() as root:
        assert scope_of(create_scope(root, key).ctx) is key


async def test_an_unhashable_object_is_a_key() -> None:
    """Identity needs no hash."""
    key: list[int] = []
    async with Context() as root:
        child: dict[str, int] = {}
        assert scope_of(create_scope(root, key).ctx) is key
        create_scope(root, child, parent=key)
        assert scope_chain_of(child) == [child, key]


async def test_none_is_no_key() -> None:
    """It stands for the global layer."""
    async with Context() as root:
        with pytest.raises(ScopeError, match="None"):
            create_scope(root, None)
        assert root.fiber.children == ()


async def test_the_tag_is_inherited_and_the_nearest_wins() -> None:
    """By derived contexts and mounted plugins; a scope in a scope has its own."""
    seen: list[object] = []
    async with Context() as root:
        outer, inner = Key(), Key()
        scope = create_scope(root, outer)

        def plugin(ctx: Context) -> None:
            seen.append(scope_of(ctx))
            seen.append(scope_of(ctx.isolate("clock")))
            seen.append(scope_of(ctx.intercept("clock", {})))
            nested = create_scope(ctx, inner)
            seen.append(scope_of(nested.ctx))
            nested.ctx.plugin(lambda deep: seen.append(scope_of(deep)))

        scope.ctx.plugin(plugin)
        assert seen == [outer, outer, outer, inner, inner]


async def test_what_is_registered_through_a_scope_dies_with_it() -> None:
    """Newest first, plugins and effects alike, awaited."""
    journal: list[str] = []
    async with Context() as root:
        scope = create_scope(root, Key())

        def plugin(ctx: Context) -> object:
            async def undo() -> None:
                await anyio.lowlevel.checkpoint()
                journal.append("plugin gone")

            return undo

        scope.ctx.effect(lambda: lambda: journal.append("effect undone"))
        fiber = scope.ctx.plugin(plugin)
        await scope.dispose()
        assert journal == ["plugin gone", "effect undone"]
        assert fiber.state is FiberState.DISPOSED
        assert root.fiber.effects() == []
        with pytest.raises(InactiveFiberError):
            scope.ctx.on("ping", lambda: None)


async def test_disposing_a_scope_is_shared_and_waits_for_quiet() -> None:
    """Any number of callers; each returns when everything is over."""
    journal: list[str] = []
    go = anyio.Event()

    async def work() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await go.wait()
            journal.append("work ended")

    async with Context() as root:
        scope = create_scope(root, Key())
        scope.ctx.start_soon(work)
        await anyio.wait_all_tasks_blocked()

        async def dispose() -> None:
            await scope.dispose()
            journal.append("disposed")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(dispose)
            tasks.start_soon(dispose)
            await anyio.wait_all_tasks_blocked()
            assert journal == []
            go.set()
        assert journal == ["work ended", "disposed", "disposed"]
        await scope.dispose()


async def test_a_scope_belongs_to_the_fiber_that_minted_it() -> None:
    """It goes with that fiber."""
    scopes: list[Scope] = []
    async with Context() as root:
        fiber = root.plugin(lambda ctx: scopes.append(create_scope(ctx, Key())))
        await fiber.dispose()
        assert scopes[0].ctx.fiber.state is FiberState.DISPOSED
        with pytest.raises(InactiveFiberError):
            create_scope(fiber.ctx, Key())


async def test_create_scope_with_a_parent_binds_the_chain() -> None:
    """Nearest first, the key itself first."""
    async with Context() as root:
        top, middle, leaf = Key(), Key(), Key()
        create_scope(root, top)
        create_scope(root, middle, parent=top)
        create_scope(root, leaf, parent=middle)
        assert scope_chain_of(leaf) == [leaf, middle, top]
        assert scope_parent_of(leaf) is middle
        assert scope_parent_of(top) is None
        assert scope_chain_of(top) == [top]


async def test_a_key_is_bound_once() -> None:
    """Binding it again is an error, by whatever way; nothing changes."""
    async with Context() as root:
        one, two, child = Key(), Key(), Key()
        bind_scope_parent(child, one)
        with pytest.raises(ScopeError, match="already bound"):
            bind_scope_parent(child, two)
        with pytest.raises(ScopeError, match="already bound"):
            create_scope(root, child, parent=two)
        assert scope_parent_of(child) is one
        assert root.fiber.children == ()


async def test_only_the_binding_rebinds() -> None:
    """The chain moves as a whole."""
    one, two, child, grandchild = Key(), Key(), Key(), Key()
    binding = bind_scope_parent(child, one)
    bind_scope_parent(grandchild, child)
    assert binding.parent is one
    binding.rebind(two)
    assert binding.parent is two
    assert scope_chain_of(grandchild) == [grandchild, child, two]
    binding.rebind(None)
    assert scope_chain_of(child) == [child]


async def test_a_cycle_is_refused_and_changes_nothing() -> None:
    """Direct, to itself, or by rebinding."""
    top, middle, leaf = Key(), Key(), Key()
    binding = bind_scope_parent(middle, top)
    bind_scope_parent(leaf, middle)
    with pytest.raises(ScopeError, match="cycle"):
        bind_scope_parent(top, leaf)
    with pytest.raises(ScopeError, match="cycle"):
        bind_scope_parent(top, top)
    with pytest.raises(ScopeError, match="cycle"):
        binding.rebind(leaf)
    assert scope_chain_of(leaf) == [leaf, middle, top]


async def test_a_parent_link_is_not_ownership() -> None:
    """Disposing the parent leaves the child working, chain and all."""
    async with Context() as root:
        parent, child = Key(), Key()
        outer = create_scope(root, parent)
        inner = create_scope(root, child, parent=parent)
        await outer.dispose()
        assert inner.ctx.fiber.state is FiberState.ACTIVE
        inner.ctx.on("ping", lambda: None)
        assert scope_chain_of(child) == [child, parent]


async def test_links_go_with_their_keys() -> None:
    """L2: a link does not keep a key alive, and a new key has no old parent."""
    parent = Key()

    def bind() -> weakref.ref[Key]:
        key = Key()
        bind_scope_parent(key, parent)
        return weakref.ref(key)

    gone = bind()
    gc.collect()
    assert gone() is None


async def test_keys_without_weak_references_are_unbound_when_their_tree_closes() -> None:
    """A string used as a key in one tree is free in the next."""
    for _ in range(2):
        async with Context() as root:
            create_scope(root, "agent-of-this-test", parent="parent-of-this-test")
            assert scope_parent_of("agent-of-this-test") == "parent-of-this-test"
    assert scope_parent_of("agent-of-this-test") is None


async def test_a_disposed_scope_leaves_nothing_that_is_reachable() -> None:
    """L2: key and context can be collected."""

    async def live(root: Context) -> tuple[weakref.ref[Key], weakref.ref[Context]]:
        key = Key()
        scope = create_scope(root, key, parent=Key())
        scope.ctx.on("ping", lambda: None)
        await scope.dispose()
        return weakref.ref(key), weakref.ref(scope.ctx)

    async with Context() as root:
        gone = await live(root)
        gc.collect()
        assert [one() for one in gone] == [None, None]
