"""Scope-filtered dispatch: events flow up, siblings and descendants hear nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from harness_core import Context, bind_scope_parent, create_scope, scope_target

pytestmark = pytest.mark.asyncio


class Key:
    """A scope key with a name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


def family(root: Context, journal: list[str]) -> dict[str, Key]:
    """Mint grandparent, parent, child, sibling; each listens, and so does the root."""
    keys = {name: Key(name) for name in ("grandparent", "parent", "child", "sibling")}
    parents = {"parent": "grandparent", "child": "parent", "sibling": "parent"}
    for name, key in keys.items():
        parent = keys.get(parents.get(name, ""))
        scope = create_scope(root, key, parent=parent)
        scope.ctx.on("ping", lambda *args, name=name: journal.append(name))
    root.on("ping", lambda *args: journal.append("untagged"))
    return keys


@pytest.mark.parametrize(
    ("target", "heard"),
    [
        ("child", ["grandparent", "parent", "child", "untagged"]),
        ("parent", ["grandparent", "parent", "untagged"]),
        ("grandparent", ["grandparent", "untagged"]),
        ("sibling", ["grandparent", "parent", "sibling", "untagged"]),
        (None, ["untagged"]),
    ],
)
async def test_who_hears_a_dispatch_for_a_scope(target: str | None, heard: list[str]) -> None:
    """Untagged ones, the scope's and its ancestors'; in order of registration."""
    journal: list[str] = []
    async with Context() as root:
        keys = family(root, journal)
        root.emit("ping", target=scope_target(None, keys[target] if target else None))
        assert journal == heard


async def test_without_a_target_everybody_hears() -> None:
    """No target, no filter."""
    journal: list[str] = []
    async with Context() as root:
        family(root, journal)
        root.emit("ping")
        assert journal == ["grandparent", "parent", "child", "sibling", "untagged"]


@pytest.mark.parametrize("mode", ["emit", "parallel", "serial", "bail", "waterfall"])
async def test_every_mode_filters_alike(mode: str) -> None:
    """The target decides who hears, whatever the mode."""
    journal: list[str] = []
    async with Context() as root:
        key, other = Key("key"), Key("other")

        def listener(name: str) -> Callable[..., Any]:
            def listen(*args: Any) -> Any:
                journal.append(name)
                return args[-1]() if mode == "waterfall" else None

            return listen

        create_scope(root, key).ctx.on("ping", listener("key"))
        create_scope(root, other).ctx.on("ping", listener("other"))
        root.on("ping", listener("root"))
        outcome = getattr(root, mode)("ping", "argument", target=scope_target(None, key))
        if isinstance(outcome, Awaitable):
            await outcome
        assert sorted(journal) == ["key", "root"]


async def test_unfiltered_listeners_always_hear() -> None:
    """Also for a scope that is no relation, and against the base's own filter."""
    journal: list[str] = []

    class Deaf:
        def hears(self, ctx: Context) -> bool:
            return False

    async with Context() as root:
        one, other = Key("one"), Key("other")
        scope = create_scope(root, one)
        scope.ctx.on("ping", lambda: journal.append("unfiltered"), unfiltered=True)
        scope.ctx.on("ping", lambda: journal.append("filtered"))
        root.emit("ping", target=scope_target(None, other))
        root.emit("ping", target=scope_target(Deaf(), one))
        assert journal == ["unfiltered", "unfiltered"]


async def test_the_base_objects_own_filter_still_applies() -> None:
    """It is asked about those the scope lets through, with the listener's context."""
    journal: list[str] = []
    asked: list[Context] = []

    class Picky:
        def hears(self, ctx: Context) -> bool:
            asked.append(ctx)
            return ctx is not root

    async with Context() as root:
        key = Key("key")
        scope = create_scope(root, key)
        stranger = create_scope(root, Key("stranger"))
        root.on("ping", lambda: journal.append("root"))
        scope.ctx.on("ping", lambda: journal.append("scope"))
        stranger.ctx.on("ping", lambda: journal.append("stranger"))
        target = scope_target(Picky(), key)
        root.emit("ping", target=target)
        assert journal == ["scope"]
        assert stranger.ctx not in asked
        assert set(asked) == {root, scope.ctx}


async def test_a_base_without_a_filter_is_just_a_base() -> None:
    """Any object will do, and is at hand on the target."""
    journal: list[str] = []
    async with Context() as root:
        key = Key("key")
        create_scope(root, key).ctx.on("ping", lambda: journal.append("heard"))
        base = object()
        target = scope_target(base, key)
        root.emit("ping", target=target)
        assert journal == ["heard"]
        assert target.base is base
        assert target.key is key


async def test_a_rebound_scope_is_heard_by_its_new_ancestors() -> None:
    """The chain is that of the dispatch, not of the target's making."""
    journal: list[str] = []
    async with Context() as root:
        one, two, child = Key("one"), Key("two"), Key("child")
        for key in (one, two):
            create_scope(root, key).ctx.on("ping", lambda key=key: journal.append(key.name))
        binding = bind_scope_parent(child, one)
        target = scope_target(None, child)
        root.emit("ping", target=target)
        binding.rebind(two)
        root.emit("ping", target=target)
        assert journal == ["one", "two"]


async def test_plugins_mounted_in_a_scope_listen_in_it() -> None:
    """They inherit the tag; contexts derived from it do, too."""
    journal: list[str] = []
    async with Context() as root:
        key = Key("key")
        scope = create_scope(root, key)

        def plugin(ctx: Context) -> None:
            ctx.on("ping", lambda: journal.append("plugin"))
            ctx.isolate("clock").on("ping", lambda: journal.append("derived"))

        scope.ctx.plugin(plugin)
        root.emit("ping", target=scope_target(None, Key("other")))
        assert journal == []
        root.emit("ping", target=scope_target(None, key))
        assert journal == ["plugin", "derived"]


async def test_equal_keys_are_not_the_same_key() -> None:
    """Keys are compared by identity."""
    journal: list[str] = []

    class Same:
        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 1

    async with Context() as root:
        one, two = Same(), Same()
        create_scope(root, one).ctx.on("ping", lambda: journal.append("one"))
        create_scope(root, two).ctx.on("ping", lambda: journal.append("two"))
        root.emit("ping", target=scope_target(None, two))
        assert journal == ["two"]


async def test_a_dispatch_does_not_touch_unrelated_scopes() -> None:
    """Its cost does not grow with them: no unrelated listener is even looked at."""
    asked: list[Context] = []

    class Counting:
        def hears(self, ctx: Context) -> bool:
            asked.append(ctx)
            return True

    async with Context() as root:
        keys = [Key(str(number)) for number in range(1000)]
        for key in keys:
            create_scope(root, key).ctx.on("ping", lambda: None)
        root.emit("ping", target=scope_target(Counting(), keys[500]))
        assert len(asked) == 1
