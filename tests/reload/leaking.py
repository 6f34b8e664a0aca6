"""Two hundred reloads that leak what is asked for, in a process that holds nothing else.

Prints, as JSON, what has grown: `python -m tests.reload.leaking nothing|bytes|block`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.reload_speed.thousand import Counted, count_everything, growth_of, reload_and_count
from harness_core import Context
from harness_core.prompt import SystemPrompt

from .project import open_project
from .test_reloader import Tree

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


async def run(directory: Path, leak: Callable[[Tree], object]) -> list[str]:
    """Return what has grown."""
    with open_project(directory, observed=False) as project:
        async with Context() as root:
            await root.plugin(SystemPrompt)
            tree = Tree(root, project)
            project.write("leaking.py", PLUGIN.format(version=0))
            await tree.mount("leaking")

            async def reload(number: int) -> None:
                tree.good(await tree.change(leaking=PLUGIN.format(version=number)))
                leak(tree)

            async def count(number: int) -> Counted:
                return count_everything(number, sum(map(len, root.kernel.bus.listeners().values())))

            return growth_of(await reload_and_count(reload, count, CHECKPOINTS))


KEPT: list[bytearray] = []
BLOCK = bytearray(8192)


def _leak_a_block(tree: Tree) -> None:
    BLOCK.extend(bytes(1024))
    tree.root.on("tick", print)


LEAKS: dict[str, Callable[[Tree], object]] = {
    "nothing": lambda _: None,
    "bytes": lambda _: KEPT.append(bytearray(1024)),
    "block": _leak_a_block,
}

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        print(json.dumps(asyncio.run(run(Path(place), LEAKS[sys.argv[1]]))))
