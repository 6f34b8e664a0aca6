"""`Context.provided`: which services `get` finds from here."""

from __future__ import annotations

import pytest

from harness_core import Context, Service

pytestmark = pytest.mark.asyncio


class Asleep(Service, key="llm_asleep"):
    """Is never available."""

    def check(self) -> bool:
        return False


async def test_keys_that_get_finds_are_listed_sorted_and_by_prefix() -> None:
    async with Context() as root:
        root.provide("llm_b", 1)
        undo = root.provide("llm_a", 2)
        root.provide("other", 3)
        assert root.provided("llm_") == ("llm_a", "llm_b")
        assert set(root.provided()) == {"llm_a", "llm_b", "other"}
        await undo()
        assert root.provided("llm_") == ("llm_b",)


async def test_what_only_somebody_waits_for_is_not_provided() -> None:
    async with Context() as root:
        root.inject(["llm_missing"], lambda ctx: None)
        assert root.provided() == ()


async def test_a_service_that_is_not_available_is_not_listed() -> None:
    async with Context() as root:
        await root.plugin(Asleep)
        assert root.provided("llm_") == ()


async def test_a_realm_lists_its_own_slots() -> None:
    async with Context() as root:
        root.provide("llm_a", 1)
        inner = root.isolate("llm_a")
        assert inner.provided("llm_") == ()
        inner.provide("llm_a", 2)
        assert inner.provided("llm_") == ("llm_a",)
