"""Ten thousand scopes cost nothing to those that are not on their chain: calls are counted."""

from __future__ import annotations

import functools
import gc
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from harness_core import Context, create_scope, scope_target
from harness_core.prompt import SystemPrompt, render_prompt

from .tree import Key, live

pytestmark = pytest.mark.asyncio


async def calls_in(work: Callable[[], Awaitable[object]]) -> int:
    """Count every call, of Python and of C functions, that `work` makes."""
    count = 0

    def profile(frame: object, event: str, argument: Any) -> None:
        nonlocal count
        if event in ("call", "c_call"):
            count += 1

    gc.collect()
    gc.disable()  # a collection would call what it finds
    sys.setprofile(profile)
    try:
        await work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


def populate(root: Context, number: int) -> list[Key]:
    """Mint scopes, each with a section, a variable and listeners."""
    keys = [Key(str(index)) for index in range(number)]
    for key in keys:
        scope = create_scope(root, key)
        scope.ctx.system_prompt.section("mine", "for {{who}}", order=1)
        scope.ctx.system_prompt.variable("who", key.name)
        scope.ctx.on("ping", lambda: None)
        scope.ctx.on("system-prompt/assemble", lambda assembly, context, rest: rest())
    return keys


async def assemble(root: Context, sp: SystemPrompt, key: Key) -> None:
    """Assemble and render one scope."""
    assert render_prompt(await sp.assemble(scope=key)) == f"for {key.name}"


async def emit(root: Context, sp: SystemPrompt, key: Key) -> None:
    """Dispatch to one scope."""
    root.emit("ping", target=scope_target(None, key))


async def come_and_go(root: Context, sp: SystemPrompt, key: Key) -> None:
    """Mint a scope, contribute, assemble, dispose."""
    mine = Key("passing")
    scope = create_scope(root, mine)
    scope.ctx.system_prompt.section("mine", "x", order=1)
    assert render_prompt(await sp.assemble(scope=mine)) == "x"
    await scope.dispose()


@pytest.mark.parametrize("work", [assemble, emit, come_and_go])
async def test_the_work_for_one_scope_does_not_grow_with_the_others(work: Any) -> None:
    """The same number of calls beside ten scopes and beside two thousand."""
    counts: list[int] = []
    for number in (10, 2000):
        async with live() as (root, sp):
            key = populate(root, number)[number // 2]
            await work(root, sp, key)
            counts.append(await calls_in(functools.partial(work, root, sp, key)))
    few, many = counts
    assert many <= few * 1.1 + 5, counts


async def test_a_change_in_one_scope_spoils_no_other_plan() -> None:
    """Registering elsewhere leaves the next assembly of a scope as cheap as it was."""
    async with live() as (root, sp):
        first, second, *_ = populate(root, 10)
        await assemble(root, sp, first)
        await assemble(root, sp, second)
        kept = await calls_in(lambda: assemble(root, sp, first))
        create_scope(root, Key("other")).ctx.system_prompt.section("s", "x", order=1)
        elsewhere = await calls_in(lambda: assemble(root, sp, first))
        sp.suppress_runtime_context("nothing")
        anew = await calls_in(lambda: assemble(root, sp, first))
        assert kept <= elsewhere < (kept + anew) / 2
