"""A failure at each phase while code and rows are taken up together: all is as before, or better.

The way back is a phase too. The setting has another name in the new code, so that neither the code
nor the rows could do without the other.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from harness_core import Context, FiberState
from harness_core.cli.upkeep import TakenUp, Upkeep
from harness_core.loader import Loader, Plan, ReconcileError, Resolver, read_manifest, settle
from harness_core.prompt import render_prompt
from harness_core.reload import Batch
from harness_core.testing import assert_no_residue, ledger
from tests.reload.project import open_project, world
from tests.reload.test_phases import ERRORS, Faults

pytestmark = pytest.mark.asyncio

BASE = """\
import anyio
import attrs
from . import lazy

VERSION = {version}
inject = ["system_prompt", "faults"]
overlap = {overlap}

@attrs.frozen
class Config:
    {key}: int

async def apply(ctx, config):
    faults = ctx.faults
    await faults.reach("body", VERSION)
    ctx.system_prompt.section("base", f"base {{VERSION}} {{config.{key}}}", order=5)
    ctx.provide("base", VERSION)
    ctx.start_soon(anyio.sleep_forever)
    await anyio.sleep(0)
    await faults.reach("end of the body", VERSION)

    async def down():
        from .lazy import NUMBER

        faults.lazy.append((VERSION, NUMBER))
        await faults.reach("teardown", VERSION)

    return down
"""
USER = """\
inject = ["system_prompt", "faults", "base"]

async def apply(ctx):
    await ctx.faults.reach("user", ctx.base)
    ctx.system_prompt.section("user", f"user of {ctx.base}", order=6)
"""
ROWS = """\
- {{name: system_prompt, config: {{include_harness_identity: false}}}}
- {{id: user, name: farm.user}}
- id: group
  group: true
  config:
  - {{id: base, name: farm.base, config: {{{key}: {number}}}}}
{more}
"""
MORE = "- {id: more, name: ./more.py}"


class Lazy(Faults):
    """Also which version of a module an import in a function has given to which plugin."""

    def __init__(self) -> None:
        super().__init__()
        self.lazy: list[tuple[int, int]] = []


class Scene:
    """A plugin in a group and one that uses it, and the files they come from."""

    def __init__(self, root: Context, directory: Path, overlap: bool) -> None:
        self.root, self.directory, self.overlap = root, directory, overlap
        self.faults = Lazy()

    def save(self, version: int, key: str, more: str = "") -> Batch:
        """Save code and rows that belong together."""
        texts = {
            "farm/base.py": BASE.format(version=version, key=key, overlap=self.overlap),
            "farm/lazy.py": f"NUMBER = {version}\n",
            "harness.yaml": ROWS.format(key=key, number=version, more=more),
        }
        for name, text in texts.items():
            (self.directory / name).write_text(text)
        return Batch(changed=frozenset(self.directory / name for name in texts))

    async def open(self) -> None:
        (self.directory / "farm").mkdir()
        (self.directory / "farm/__init__.py").write_text("")
        (self.directory / "farm/user.py").write_text(USER)
        (self.directory / "more.py").write_text("def apply(ctx):\n    raise LookupError(7)\n")
        self.save(1, "old")
        manifest = read_manifest(self.directory / "harness.yaml")
        self.loader = Loader(manifest, Resolver(manifest.directory))
        self.root.provide("faults", self.faults)
        self.root.provide("loader", self.loader)
        self.upkeep = Upkeep(self.root, self.loader)
        self.loader.start()
        assert not await settle(self.root.fiber, 5)
        await self.serves(1)

    async def take_up(self, version: int, key: str, more: str = "") -> TakenUp:
        return await self.upkeep.take_up(self.save(version, key, more))

    async def refuses(self, version: int, key: str, more: str = "") -> ReconcileError:
        """Take up in vain; all is as before. Return what was said of the whole."""
        registered, modules = str(ledger(self.root)), world()
        fibers = dict(self.loader.running)
        with assert_no_residue(self.root, modules=True):
            done = await self.take_up(version, key, more)
        assert (done.reloaded, done.as_a_whole) == ((), True)
        assert isinstance(done.rows, ReconcileError)
        assert dict(self.loader.running) == fibers
        assert (str(ledger(self.root)), world()) == (registered, modules)
        await self.serves(1)
        return done.rows

    async def recovers(self) -> None:
        self.faults.planned.clear()
        done = await self.take_up(3, "third")
        assert isinstance(done.rows, Plan)
        assert done.as_a_whole
        await self.serves(3)

    async def serves(self, version: int) -> None:
        text = render_prompt(await self.root.system_prompt.assemble())
        assert text == f"base {version} {version}\n\nuser of {version}"
        assert {one.state for one in self.loader.running.values()} == {FiberState.ACTIVE}
        assert [one for one in self.faults.lazy if one[0] != one[1]] == []


@asynccontextmanager
async def open_scene(tmp_path: Path, overlap: bool) -> AsyncIterator[Scene]:
    with open_project(tmp_path, observed=False):
        async with Context(grace=0.2) as root:
            scene = Scene(root, tmp_path, overlap)
            await scene.open()
            yield scene


both = pytest.mark.parametrize("overlap", [False, True], ids=["one after the other", "overlap"])
each = pytest.mark.parametrize("kind", ERRORS)


@both
async def test_all_is_taken_up_at_once(tmp_path: Path, overlap: bool) -> None:
    """Each body runs once, and each version is torn down among its own modules."""
    async with open_scene(tmp_path, overlap) as scene:
        fibers = dict(scene.loader.running)
        done = await scene.take_up(2, "new")
        assert done.as_a_whole
        assert str(done.rows) == "update base (farm.base): code, config\nrestart user"
        await scene.serves(2)
        assert dict(scene.loader.running) == fibers
        assert scene.faults.lazy == [(1, 1)]
        await scene.recovers()


@both
@each
@pytest.mark.parametrize("phase", ["body", "end of the body", "user"])
async def test_a_new_body_or_one_that_uses_it(
    tmp_path: Path, overlap: bool, phase: str, kind: str
) -> None:
    async with open_scene(tmp_path, overlap) as scene:
        scene.faults.plan(phase, 2, ERRORS[kind], times=2)
        error = await scene.refuses(2, "new")
        # A life that takes over answers for those who turn to it.
        assert ("user" if phase == "user" and not overlap else "base") in error.faults
        await scene.recovers()


@both
async def test_a_row_that_comes_with_them(tmp_path: Path, overlap: bool) -> None:
    """A faulty row keeps code and rows that need each other from running, until it is right."""
    async with open_scene(tmp_path, overlap) as scene:
        error = await scene.refuses(2, "new", MORE)
        assert list(error.faults) == ["more"]
        await scene.recovers()


@both
@each
async def test_the_teardown_of_the_old_version(tmp_path: Path, overlap: bool, kind: str) -> None:
    """What fails there is reported, and the new version serves."""
    async with open_scene(tmp_path, overlap) as scene:
        scene.faults.plan("teardown", 1, ERRORS[kind])
        assert isinstance((await scene.take_up(2, "new")).rows, Plan)
        assert scene.faults.hit == [("teardown", 1)]
        await scene.serves(2)
        await scene.recovers()


@both
@each
@pytest.mark.parametrize("phase", ["body", "end of the body", "teardown", "user"])
async def test_the_way_back(tmp_path: Path, overlap: bool, phase: str, kind: str) -> None:
    """What fails once while the old version comes back is tried again."""
    async with open_scene(tmp_path, overlap) as scene:
        scene.faults.plan("user", 2, ERRORS[kind])
        scene.faults.plan(phase, 2 if phase == "teardown" else 1, ERRORS[kind])
        await scene.refuses(2, "new")
        assert scene.faults.hit[0] == ("user", 2)
        if not overlap or phase in ("teardown", "user"):
            assert scene.faults.hit[1][0] == phase
        await scene.recovers()


async def test_code_at_fault_keeps_back_nothing_but_itself(tmp_path: Path) -> None:
    """Another setting in the one plugin and its row; the code of another one is no Python."""
    async with open_scene(tmp_path, overlap=False) as scene:
        (tmp_path / "farm/user.py").write_text("def (:\n")
        batch = scene.save(2, "new")
        done = await scene.upkeep.take_up(
            Batch(changed=batch.changed | {tmp_path / "farm/user.py"})
        )
        assert [one.plugins for one in done.reloaded] == [("root/user",), ("root/group/base",)]
        assert [one.error is None for one in done.reloaded] == [False, True]
        assert done.as_a_whole
        await scene.serves(2)


async def test_code_whose_setting_no_row_has_keeps_back_nothing_but_itself(tmp_path: Path) -> None:
    """It is refused with its row as it is; the plugin whose row fits is taken up."""
    async with open_scene(tmp_path, overlap=False) as scene:
        (tmp_path / "farm/user.py").write_text(
            USER.replace(
                "async def", "Config = __import__('attrs').make_class('Config', ['x'])\n\nasync def"
            )
        )
        batch = scene.save(2, "new")
        done = await scene.upkeep.take_up(
            Batch(changed=batch.changed | {tmp_path / "farm/user.py"})
        )
        assert [one.plugins for one in done.reloaded] == [("root/user",), ("root/group/base",)]
        assert "x" in str(done.reloaded[0].error)
        assert isinstance(done.rows, Plan)
        await scene.serves(2)
