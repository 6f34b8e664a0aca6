"""Hundreds of stagings and reloads leave nothing behind."""

from __future__ import annotations

import gc
import linecache
import logging
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness_core import Context
from harness_core.reload import Batch, Reloader, StagingError

from .project import Project, open_project

ROUNDS = 200
ALLOWANCE = 60
"""Objects that caches of Python itself may take up; a leak would be one for each round."""

SOURCE = """\
from __future__ import annotations
import attrs
import dataclasses
from . import low
{extra}
@attrs.define
class {config}:
    field{number}: int = low.VALUE
@dataclasses.dataclass
class Other:
    value: {config}
class Plain:
    def method(self): return Plain
def apply(ctx):
    ctx.provide("answer", {number})
"""


def measure() -> tuple[int, set[str], set[str]]:
    for _ in range(3):
        gc.collect()
    return len(gc.get_objects()), set(sys.modules), set(linecache.cache)


def assert_no_growth(run: Callable[[int], None]) -> None:
    for number in range(100000, 100020):
        run(number)
    objects, modules, lines = measure()
    for number in range(100020, 100020 + ROUNDS):
        run(number)
    more_objects, more_modules, more_lines = measure()
    assert more_modules == modules
    assert len(more_lines) <= len(lines)
    assert more_objects - objects < ALLOWANCE


def write(project: Project, number: int) -> None:
    project.write("pack/low.py", f"VALUE = {number}")
    project.write("pack/plugin.py", _text(number))


def _text(number: int, extra: str = "", config: str = "Settings") -> str:
    return SOURCE.format(number=number, extra=extra, config=config)


@pytest.fixture
def plugin(project: Project) -> Project:
    project.write("pack/__init__.py", "")
    write(project, 0)
    project.load("pack.plugin")
    return project


def test_two_hundred_committed_stagings_leave_nothing(plugin: Project) -> None:
    def run(number: int) -> None:
        write(plugin, number)
        plugin.reload("pack/low.py", "pack/plugin.py")
        assert number == sys.modules["pack.plugin"].low.VALUE

    assert_no_growth(run)


def test_two_hundred_discarded_stagings_leave_nothing(plugin: Project) -> None:
    def run(number: int) -> None:
        write(plugin, number)
        staged = plugin.stage("pack/low.py", "pack/plugin.py")
        if number % 2:
            staged.commit()
        staged.discard()
        assert sys.modules["pack.plugin"].low.VALUE == 0

    assert_no_growth(run)


def test_two_hundred_failed_stagings_leave_nothing(plugin: Project) -> None:
    def run(number: int) -> None:
        fresh = f"fresh{number}"
        plugin.write(f"pack/{fresh}.py", "import colorsys")
        fault = "1 / 0" if number % 2 else "def (:"
        plugin.write("pack/plugin.py", _text(number, f"from . import {fresh}\n{fault}"))
        with pytest.raises(StagingError):
            plugin.stage("pack/plugin.py")
        plugin.delete(f"pack/{fresh}.py")

    def recover(number: int) -> None:
        # What the failed versions wanted is remembered until the next good one.
        run(number)
        plugin.write("pack/plugin.py", _text(100000))
        plugin.reload("pack/plugin.py")

    assert_no_growth(recover)


@pytest.mark.asyncio
@pytest.mark.parametrize("config", ["Settings", "Config"])
async def test_hundreds_of_reloads_good_and_bad_leave_nothing(
    tmp_path: Path, config: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Good, failing at import, failing in the body, and good again, in turn."""
    caplog.set_level(logging.CRITICAL, "harness_core")
    with open_project(tmp_path, observed=False) as project:
        async with Context() as root:
            reloader = Reloader(root, [project.root])
            project.write("pack/__init__.py", "")
            write(project, 100000)
            await root.plugin(project.load("pack.plugin"))
            counts: list[int] = []
            for number in range(100000, 100000 + 2 * ROUNDS):
                kind = number % 4
                text = _text(number, "1 / 0" if kind == 1 else "", config)
                path = project.write("pack/plugin.py", f"{text}    1 / 0\n" if kind == 2 else text)
                (report,) = await reloader.reload(Batch(changed=frozenset({path})))
                assert (report.error is None) == (kind in (0, 3)), report
                if kind == 0 and number % ROUNDS in (0, ROUNDS - 4):
                    del report
                    counts.append(measure()[0])
            assert counts[-1] - counts[1] < ALLOWANCE
