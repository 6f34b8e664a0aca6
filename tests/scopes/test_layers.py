"""`ScopedLayers`: the storage that every scope-aware registry builds on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness_core import (
    AnonymousEntries,
    Context,
    Effect,
    NamedEntries,
    ScopedLayers,
    create_scope,
)
from harness_core.errors import DuplicateRegistrationError, InactiveFiberError

pytestmark = pytest.mark.asyncio


class Key:
    """A scope key."""


Entries = NamedEntries[str, str]


def duplicate(name: str) -> Exception:
    """Return the registry's own error."""
    return DuplicateRegistrationError("thing", name, "global")


def new_layers(changed: Callable[[object], object] | None = None) -> ScopedLayers[Entries]:
    """Return storage for named texts."""
    return ScopedLayers(lambda key: NamedEntries(duplicate), changed)


def put(layers: ScopedLayers[Entries], ctx: Context, name: str, value: str) -> Effect:
    """Register through `effect`."""
    return layers.effect(ctx, lambda layer: layer.insert(name, value), label=f"thing {name}")


async def test_the_global_layer_is_there_and_scope_layers_are_made_when_needed() -> None:
    """`peek` looks without making."""
    async with Context() as root:
        layers = new_layers()
        key = Key()
        assert layers.peek(None) is layers.global_layer
        assert layers.peek(key) is None
        assert layers.scopes() == []
        scope = create_scope(root, key)
        assert layers.peek(key) is None
        put(layers, scope.ctx, "a", "1")
        layer = layers.peek(key)
        assert layer is not None
        assert layer.items() == [("a", "1")]
        assert layers.scopes() == [key]


async def test_an_empty_scope_layer_is_reclaimed() -> None:
    """By disposing its last effect, or its scope; the global layer stays."""
    async with Context() as root:
        layers = new_layers()
        key = Key()
        scope = create_scope(root, key)
        effect = put(layers, scope.ctx, "a", "1")
        put(layers, scope.ctx, "b", "2")
        await effect()
        assert layers.scopes() == [key]
        await scope.dispose()
        assert layers.peek(key) is None
        assert layers.scopes() == []
        assert layers.is_empty()
        assert layers.peek(None) is layers.global_layer


async def test_the_calling_context_decides_visibility_and_ownership() -> None:
    """Its scope sees it, its fiber owns it, under the label."""
    async with Context() as root:
        layers = new_layers()
        key = Key()
        scope = create_scope(root, key)
        fiber = scope.ctx.plugin(lambda ctx: put(layers, ctx, "a", "1") and None)
        assert [info.label for info in fiber.effects()] == ["thing a"]
        assert layers.global_layer.is_empty()
        assert layers.scopes() == [key]
        await fiber.dispose()
        assert layers.scopes() == []


async def test_chain_layers_come_farthest_first() -> None:
    """Those that exist, without the global one; none for no scope."""
    async with Context() as root:
        layers = new_layers()
        top, middle, leaf = Key(), Key(), Key()
        outer = create_scope(root, top)
        create_scope(root, middle, parent=top)
        inner = create_scope(root, leaf, parent=middle)
        put(layers, inner.ctx, "x", "leaf")
        put(layers, outer.ctx, "x", "top")
        put(layers, root, "x", "global")
        found = layers.chain_layers(leaf)
        assert [layer.get("x") for layer in found] == ["top", "leaf"]
        assert layers.chain_layers(None) == []
        assert layers.chain_layers(Key()) == []


async def test_merge_lets_the_nearest_win_in_the_place_of_the_first() -> None:
    """Names that only the scope has come last."""
    async with Context() as root:
        layers = new_layers()
        parent, child = Key(), Key()
        outer = create_scope(root, parent)
        inner = create_scope(root, child, parent=parent)
        put(layers, inner.ctx, "only", "child")
        put(layers, inner.ctx, "b", "child")
        put(layers, outer.ctx, "a", "parent")
        put(layers, outer.ctx, "b", "parent")
        for name in "ab":
            put(layers, root, name, "global")

        def entries(layer: Entries) -> Entries:
            return layer

        assert list(layers.merge(child, entries).items()) == [
            ("a", "parent"),
            ("b", "child"),
            ("only", "child"),
        ]
        assert layers.merge(None, entries) == {"a": "global", "b": "global"}


async def test_a_raising_action_leaves_nothing() -> None:
    """L5: no layer, no effect, and no notification."""
    changes: list[object] = []
    async with Context() as root:
        layers = new_layers(changes.append)
        scope = create_scope(root, Key())

        def action(layer: Entries) -> Callable[[], object]:
            raise LookupError("planned")

        with pytest.raises(LookupError):
            layers.effect(scope.ctx, action, label="thing")
        assert layers.scopes() == []
        assert scope.ctx.fiber.effects() == []
        assert changes == []


async def test_a_duplicate_is_the_registrys_own_error() -> None:
    """And the first stays."""
    async with Context() as root:
        layers = new_layers()
        put(layers, root, "a", "1")
        with pytest.raises(DuplicateRegistrationError) as caught:
            put(layers, root, "a", "2")
        assert caught.value.name == "a"
        assert layers.global_layer.items() == [("a", "1")]
        assert len(root.fiber.effects()) == 1


async def test_changes_are_told_at_registration_and_removal() -> None:
    """With the key whose layer changed; a second disposal says nothing."""
    changes: list[object] = []
    async with Context() as root:
        layers = new_layers(changes.append)
        key = Key()
        effect = put(layers, create_scope(root, key).ctx, "a", "1")
        put(layers, root, "a", "1")
        await effect()
        await effect()
        assert changes == [key, None, key]


async def test_a_raising_notification_takes_the_registration_back() -> None:
    """L5: the error reaches the caller, nothing is left."""

    def veto(key: object) -> None:
        if layers.global_layer.get("a"):
            raise LookupError("planned")

    async with Context() as root:
        layers = new_layers(veto)
        with pytest.raises(LookupError, match="planned"):
            put(layers, root, "a", "1")
        assert layers.is_empty()
        assert root.fiber.effects() == []


async def test_nothing_is_registered_through_a_closed_context() -> None:
    """L4: the action does not even run."""
    ran: list[str] = []
    async with Context() as root:
        layers = new_layers()
        scope = create_scope(root, Key())
        await scope.dispose()
        with pytest.raises(InactiveFiberError):
            layers.effect(
                scope.ctx, lambda layer: ran.append("action") or (lambda: None), label="x"
            )
        assert ran == []
        assert layers.scopes() == []


async def test_entries_keep_their_place_over_a_restart() -> None:
    """What a restarted plugin registers again stands where it stood."""
    async with Context() as root:
        layers: ScopedLayers[Entries] = new_layers()
        numbered: ScopedLayers[AnonymousEntries[str]] = ScopedLayers(lambda key: AnonymousEntries())

        def plugin(ctx: Context, config: dict[str, str]) -> None:
            name = config["id"]
            layers.effect(
                ctx, lambda layer, place: layer.insert(name, name, place), label=f"thing {name}"
            )
            numbered.effect(ctx, lambda layer, place: layer.append(name, place), label="number")

        fibers = [root.plugin(plugin, {"id": name}) for name in "abc"]
        await fibers[0].restart()
        await fibers[1].restart()
        assert layers.global_layer.keys() == ["a", "b", "c"]
        assert list(numbered.global_layer) == ["a", "b", "c"]


async def test_named_entries() -> None:
    """A name is taken once; order is that of registration; an undo removes one."""
    entries: Entries = NamedEntries(duplicate)
    assert entries.is_empty()
    undo = entries.insert("a", "1")
    entries.insert("b", "2")
    assert (entries.get("a"), entries.get("x")) == ("1", None)
    assert ("a" in entries, "x" in entries, len(entries)) == (True, False, 2)
    assert list(entries) == entries.keys() == ["a", "b"]
    assert entries.values() == ["1", "2"]
    with pytest.raises(DuplicateRegistrationError):
        entries.insert("a", "3")
    undo()
    assert entries.items() == [("b", "2")]


async def test_an_undo_removes_only_its_own_entry() -> None:
    """Called again after somebody else took the name, it removes nothing of theirs."""
    entries: Entries = NamedEntries(duplicate)
    undo = entries.insert("a", "old")
    undo()
    entries.insert("a", "new")
    undo()
    assert entries.items() == [("a", "new")]


async def test_anonymous_entries() -> None:
    """Equal values are different entries."""
    entries: AnonymousEntries[str] = AnonymousEntries()
    assert entries.is_empty()
    entries.append("x")
    undo = entries.append("x")
    entries.append("y")
    undo()
    undo()
    assert (list(entries), entries.values(), len(entries)) == (["x", "y"], ["x", "y"], 2)


async def test_ten_thousand_scopes_cost_a_chain_nothing() -> None:
    """Looking up a chain reads the layers of the chain, and no others."""

    class Counted(NamedEntries[str, str]):
        reads = 0

        def items(self) -> list[tuple[str, str]]:
            Counted.reads += 1
            return super().items()

    async with Context() as root:
        layers: ScopedLayers[Counted] = ScopedLayers(lambda key: Counted(duplicate))
        keys = [Key() for _ in range(10_000)]
        for key in keys:
            scope = create_scope(root, key)
            layers.effect(scope.ctx, lambda layer: layer.insert("a", "1"), label="thing")
        assert len(layers.chain_layers(keys[5000])) == 1
        Counted.reads = 0
        layers.merge(keys[5000], lambda layer: layer)
        assert Counted.reads == 2
