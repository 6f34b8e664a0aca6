"""What a reload costs grows with what changed. Steps are counted, not seconds."""

from __future__ import annotations

import cProfile
from pathlib import Path
from typing import Any

import pytest

from harness_core import Context
from harness_core.prompt import SystemPrompt

from .project import open_project
from .test_reloader import Tree

pytestmark = pytest.mark.asyncio

PLUGIN = """\
import attrs
from .shared import SHARED
{leaf}
inject = ["system_prompt"]

@attrs.frozen
class Config:
    order: int

def apply(ctx, config):
    ctx.system_prompt.section(__name__, SHARED, order=config.order)
    ctx.on("tick", print)
"""


def _steps_of(profile: cProfile.Profile) -> int:
    """Return how many calls, of Python and of C, were made."""
    return sum(entry.callcount for entry in profile.getstats())


async def _count(directory: Path, size: int) -> dict[str, int]:
    """Return how many steps it takes to reload one plugin, and all, of so many."""
    counts: dict[str, int] = {}
    with open_project(directory, observed=False) as project:
        async with Context() as root:
            await root.plugin(SystemPrompt, include_harness_identity=False)
            tree = Tree(root, project)
            project.write(f"fleet{size}/shared.py", "SHARED = '0'")
            project.write(f"fleet{size}/leaf.py", "LEAF = '0'")
            for number in range(size):
                leaf = "" if number else "from . import leaf"
                project.write(f"fleet{size}/p{number}.py", PLUGIN.format(leaf=leaf))
                await tree.mount(f"fleet{size}.p{number}", order=number)
            for version in range(1, 3):
                for name in ("leaf", "shared"):
                    file = project.write(f"fleet{size}/{name}.py", f"{name.upper()} = '{version}'")
                    with cProfile.Profile() as profile:
                        report: Any = tree.good(await tree.reload(file))
                    assert len(report.plugins) == (1 if name == "leaf" else size)
                    counts[name] = _steps_of(profile)  # of the last time: caches are full
    return counts


async def test_each_plugin_that_changed_costs_the_same_however_many_there_are(
    tmp_path: Path,
) -> None:
    few, some, many = [await _count(tmp_path, size) for size in (10, 30, 90)]
    first, further = (some["shared"] - few["shared"]) / 20, (many["shared"] - some["shared"]) / 60
    assert further < 1.02 * first
    # A plugin that has not changed costs no more than finding that out.
    assert (many["leaf"] - some["leaf"]) / 60 < 0.12 * first
