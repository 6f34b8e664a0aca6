"""Two hundred reloads that leak what is asked for, in a process that holds nothing else.

Prints, as JSON, what has grown: `python -m tests.reload.leaking KIND`, one of `LEAKS`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from abc import ABCMeta
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

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
                if number > CHECKPOINTS[0]:
                    leak(tree)

            async def count(number: int) -> Counted:
                return count_everything(number, sum(map(len, root.kernel.bus.listeners().values())))

            return growth_of(await reload_and_count(reload, count, CHECKPOINTS))


KEPT: list[bytearray] = []
BLOCK = bytearray(8192)
ABSTRACT = tuple(ABCMeta("Abstract", (), {}) for _ in range(20))


def _let_pass(_: Tree) -> None:
    """Let names, classes and timers pass through the tables of Python, and keep none."""
    for number in range(1000):
        name = sys.intern(f"passing {number}")
        sys.modules[name] = sys
        del sys.modules[name]
    passing = [type("Passing", (), {}) for _ in range(60)]
    assert not any(issubclass(kind, ABSTRACT) for kind in passing)
    asyncio.get_running_loop().call_later(60, int).cancel()


def _leak_a_module(_: Tree) -> None:
    name = f"left_behind_{len(sys.modules)}"
    sys.modules[name] = ModuleType(name)
    exec(PLUGIN.format(version=0), vars(sys.modules[name]))


LEAKS: dict[str, Callable[[Tree], object]] = {
    "nothing": lambda _: None,
    "passing": _let_pass,
    "bytes": lambda _: KEPT.append(bytearray(1024)),
    "block": lambda _: BLOCK.extend(bytes(1024)),
    "module": _leak_a_module,
    "listener": lambda tree: tree.root.on("tick", print),
}

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        print(json.dumps(asyncio.run(run(Path(place), LEAKS[sys.argv[1]]))))
