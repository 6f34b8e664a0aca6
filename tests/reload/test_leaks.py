"""The check that a thousand reloads leave nothing: it finds a leak of a kibibyte a reload."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.reload_speed.thousand import Counted, count_everything, growth_of, reload_and_count
from harness_core import Context
from harness_core.prompt import SystemPrompt

from .project import open_project
from .test_reloader import Tree

pytestmark = pytest.mark.asyncio

CHECKPOINTS = (60, 110, 160, 210)

PLUGIN = """\
import attrs
inject = ["system_prompt"]
VERSION = {version}

@attrs.frozen
class Config:
    order: int = 1

def apply(ctx, config):
    ctx.system_prompt.section("plugin", str(VERSION), order=config.order)
    ctx.on("tick", print)
"""


async def _run(directory: Path, leak: Callable[[Tree], object] | None = None) -> list[str]:
    with open_project(directory, observed=False) as project:
        async with Context() as root:
            await root.plugin(SystemPrompt)
            tree = Tree(root, project)
            project.write("leaking.py", PLUGIN.format(version=0))
            await tree.mount("leaking")

            async def reload(number: int) -> None:
                tree.good(await tree.change(leaking=PLUGIN.format(version=number)))
                if leak is not None:
                    leak(tree)

            async def count(number: int) -> Counted:
                return count_everything(number, sum(map(len, root.kernel.bus.listeners().values())))

            return growth_of(await reload_and_count(reload, count, CHECKPOINTS))


async def test_reloads_without_a_leak_pass(tmp_path: Path) -> None:
    assert await _run(tmp_path) == []


async def test_a_leak_of_a_kibibyte_a_reload_is_found(tmp_path: Path) -> None:
    kept: list[Any] = []
    faults = await _run(tmp_path, lambda _: kept.append(bytearray(1024)))
    assert [fault.partition(" grew")[0] for fault in faults] == ["memory"]


async def test_a_leak_of_any_kind_is_found(tmp_path: Path) -> None:
    """Listeners, and memory that is one block which grows."""
    block = bytearray(8192)

    def leak(tree: Tree) -> None:
        block.extend(bytes(1024))
        tree.root.on("tick", print)

    faults = await _run(tmp_path, leak)
    assert {"listeners", "objects", "memory"} <= {one.partition(" grew")[0] for one in faults}
