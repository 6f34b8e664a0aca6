"""Ten thousand live agents cost each other nothing: counted in steps of work, not in time."""

from __future__ import annotations

import gc
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import harness_plugins.presets
import pytest

from harness_core import Context, scope_target

from .tree import rule, tool, tree

pytestmark = pytest.mark.asyncio

MANY = 10_000


@contextmanager
def counted(work: dict[str, int], name: str) -> Iterator[None]:
    """Count the lines of Python that the block executes, each turn of a loop among them."""
    lines = 0

    def trace(_: FrameType, event: str, __: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)
        work[name] = lines


async def work_among(others: int) -> dict[str, int]:
    """Return what everything that one agent does costs beside so many others."""
    work: dict[str, int] = {}
    async with tree() as root:
        presets = {"p": {"persona": "P."}, "q": {"persona": "Q."}}
        await root.plugin(harness_plugins.presets, {"presets": presets})
        root.tools.register(tool("shared"))
        for number in range(others):
            preset = "p" if number % 2 else None
            await root.agents.create(f"other {number}", preset=preset, model="m", persona="O.")
        steps: dict[str, Callable[[], Awaitable[object] | object]] = {
            "create": lambda: root.agents.create("one", preset="p", model="m", setup=furnish),
            "create below": lambda: root.agents.create("below", parent="one", persona="B."),
            "assemble": lambda: root.system_prompt.assemble(scope=root.agents["below"]),
            "assemble again": lambda: root.system_prompt.assemble(scope=root.agents["below"]),
            "dispatch": lambda: root.emit("ping", target=scope_target(None, root.agents["below"])),
            "call a tool": lambda: root.tools.execute("shared", {}, scope=root.agents["below"]),
            "switch": lambda: root.agents["one"].switch_preset("q"),
            "move": lambda: root.agents["below"].reparent(None),
            "assemble after it": lambda: root.system_prompt.assemble(scope=root.agents["below"]),
            "open a session": lambda: root.agents["one"].open_session(),
            "dispose": lambda: root.agents["one"].dispose(),
        }
        gc.collect()
        gc.disable()
        try:
            for name, step in steps.items():
                with counted(work, name):
                    outcome = step()
                    if isinstance(outcome, Awaitable):
                        await outcome
        finally:
            gc.enable()
    return work


def furnish(ctx: Context) -> None:
    """Give an agent a bit of everything."""
    rule("Of one.")(ctx)
    ctx.on("ping", lambda: None)


async def test_ten_thousand_agents_cost_each_other_nothing() -> None:
    """Creating, assembling, hearing, calling, moving and ending: not one step more."""
    await work_among(2)  # what is done once for a process is done
    few, many = await work_among(2), await work_among(MANY)
    assert few == many
    assert all(few.values())
