"""Realms give a subtree its own slot; intercepts layer configuration for callers."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from harness_core import Context, FiberState, Service, inject
from harness_core.errors import PluginError, ServiceConflictError

pytestmark = pytest.mark.asyncio


async def test_isolate_gives_a_subtree_a_slot_of_its_own() -> None:
    """The same key holds another service inside; neither side sees the other's."""
    async with Context() as root:
        root.provide("clock", "outer")
        inside = root.isolate("clock")
        assert inside.get("clock") is None
        inside.provide("clock", "inner")
        assert inside.clock == "inner"
        assert root.clock == "outer"
        seen: list[str] = []

        @inject("clock")
        def plugin(ctx: Context) -> None:
            seen.append(ctx.clock)

        inside.plugin(plugin)
        root.plugin(plugin)
        assert seen == ["inner", "outer"]


async def test_isolate_without_a_label_is_a_new_slot_each_time() -> None:
    """Two realms without a label share nothing."""
    async with Context() as root:
        first, second = root.isolate("clock"), root.isolate("clock")
        first.provide("clock", 1)
        assert second.get("clock") is None
        second.provide("clock", 2)
        assert (first.clock, second.clock) == (1, 2)


async def test_a_label_shares_the_slot_between_subtrees() -> None:
    """And holds one service, like any realm."""
    async with Context() as root:
        first = root.isolate("clock", "shared")
        second = root.isolate("clock", "shared")
        first.provide("clock", 1)
        assert second.clock == 1
        assert root.get("clock") is None
        with pytest.raises(ServiceConflictError):
            second.provide("clock", 2)


async def test_isolating_one_key_leaves_the_others() -> None:
    """A realm is per key, and derived contexts add up."""
    async with Context() as root:
        root.provide("clock", 1)
        root.provide("database", 2)
        inside = root.isolate("clock").isolate("cache")
        assert inside.database == 2
        assert inside.get("clock") is None


async def test_a_consumer_waits_for_its_own_realm() -> None:
    """A service of the outer realm does not wake a consumer of the inner one."""
    async with Context() as root:
        inside = root.isolate("clock")
        fiber = inside.inject(["clock"], lambda ctx: None)
        root.provide("clock", "outer")
        assert fiber.state is FiberState.PENDING
        inside.provide("clock", "inner")
        assert fiber.state is FiberState.ACTIVE


class Limits(Service, key="limits"):
    """Reads its per-caller configuration."""

    def mine(self) -> Mapping[str, object]:
        """Return what is set for the caller."""
        return self.ctx.intercepted("limits")


async def test_intercepts_merge_root_most_first() -> None:
    """Nearer layers win key by key; each caller gets its own merge."""
    async with Context() as root:
        root.plugin(Limits)
        outer = root.intercept("limits", {"size": 1, "depth": 1})
        inner = outer.intercept(Limits, {"size": 2})
        assert root.limits.mine() == {}
        assert outer.limits.mine() == {"size": 1, "depth": 1}
        assert inner.limits.mine() == {"size": 2, "depth": 1}
        assert list(inner.limits.mine()) == ["size", "depth"]


async def test_an_inject_mapping_is_the_innermost_intercept() -> None:
    """`inject={"limits": {...}}` layers on top of what the mounting context has."""
    seen: list[Mapping[str, object]] = []

    @inject({"limits": {"size": 3}})
    def plugin(ctx: Context) -> None:
        seen.append(ctx.limits.mine())
        ctx.plugin(lambda child: seen.append(child.limits.mine()))

    async with Context() as root:
        root.plugin(Limits)
        root.intercept("limits", {"size": 1, "depth": 1}).plugin(plugin)
        assert seen == [{"size": 3, "depth": 1}, {"size": 3, "depth": 1}]


async def test_an_intercept_is_a_mapping() -> None:
    """Anything else is refused."""
    async with Context() as root:
        with pytest.raises(PluginError, match="mapping"):
            root.intercept("limits", 5)  # type: ignore[arg-type]


async def test_a_changed_merge_changes_nobody() -> None:
    """What a service reads is its own copy."""
    async with Context() as root:
        root.plugin(Limits)
        outer = root.intercept("limits", {"size": 1})
        merged = outer.intercepted("limits")
        merged["size"] = 9
        assert outer.limits.mine() == {"size": 1}
