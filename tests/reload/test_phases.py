"""A failure at each phase of a reload: the old version serves, and the next good save recovers.

The way back is a phase too. Whatever is torn down is torn down; that alone cannot fail a reload.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from harness_core import Context, FiberState
from harness_core.kernel import gate, succession, swap
from harness_core.prompt import SystemPrompt, render_prompt
from harness_core.reload import Reloaded
from harness_core.testing import assert_no_residue, ledger

from .project import open_project, world
from .test_reloader import Tree

pytestmark = pytest.mark.asyncio

BASE = """\
import attrs
import anyio
{at_import}
VERSION = {version}
overlap = {overlap}
inject = ["system_prompt", "faults"]

@attrs.frozen
class Config:
    {field}: int = 0

async def apply(ctx):
    faults = ctx.faults
    await faults.reach("body", VERSION)
    ctx.system_prompt.section("base", f"base {{VERSION}}", order=5)
    ctx.provide("base", VERSION)
    ctx.on("ping", lambda: None)
    ctx.start_soon(anyio.sleep_forever)
    {child}
    await anyio.sleep(0)
    await faults.reach("end of the body", VERSION)

    async def down():
        await faults.reach("teardown", VERSION)

    return down
"""
USER = """\
inject = ["system_prompt", "faults", "base"]

async def apply(ctx):
    await ctx.faults.reach("user", ctx.base)
    ctx.system_prompt.section("user", f"user of {ctx.base}", order=5)
"""
SIDE = """\
from . import shared
inject = ["system_prompt"]

def apply(ctx):
    ctx.system_prompt.section("side", "side", order=5)
"""


class Faults:
    """What is to go wrong, and when: each once, unless it is said how often."""

    def __init__(self) -> None:
        self.planned: dict[tuple[str, int], list[Callable[[], BaseException]]] = {}
        self.hit: list[tuple[str, int]] = []

    def plan(
        self, phase: str, version: int, error: Callable[[], BaseException], times: int = 1
    ) -> None:
        self.planned[phase, version] = [error] * times

    async def reach(self, phase: str, version: int) -> None:
        await anyio.lowlevel.checkpoint()
        planned = self.planned.get((phase, version))
        if planned:
            self.hit.append((phase, version))
            raise planned.pop()()


def cancelled() -> BaseException:
    return anyio.get_cancelled_exc_class()("from nowhere")


ERRORS: dict[str, Callable[[], BaseException]] = {
    "exception": lambda: ValueError("injected"),
    "cancellation": cancelled,
}


class Scene:
    """Three plugins from real files; `base` is reloaded, and one more uses it."""

    def __init__(self, tree: Tree, overlap: bool) -> None:
        self.tree = tree
        self.faults = Faults()
        self.overlap = overlap
        tree.root.provide("faults", self.faults)

    async def open(self) -> None:
        self.tree.project.write("farm/__init__.py", "")
        self.tree.project.write("farm/shared.py", "")
        self.save(1)
        self.tree.project.write("farm/user.py", USER)
        self.tree.project.write("farm/side.py", SIDE)
        self.base = await self.tree.mount("farm.base", number=7)
        self.user = await self.tree.mount("farm.user")
        self.side = await self.tree.mount("farm.side")

    def save(
        self, version: int, *, at_import: str = "", field: str = "number", child: str = ""
    ) -> Path:
        return self.tree.project.write(
            "farm/base.py",
            BASE.format(
                version=version,
                overlap=self.overlap,
                at_import=at_import,
                field=field,
                child=child or "pass",
            ),
        )

    async def reload(self, version: int, **how: str) -> tuple[Reloaded, ...]:
        return await self.tree.reload(self.save(version, **how))

    async def serves(self, version: int) -> None:
        text = f"base {version}\n\nuser of {version}\n\nside"
        assert await self.tree.prompt() == text
        assert self.base.state is self.user.state is self.side.state is FiberState.ACTIVE
        assert version == sys.modules["farm.base"].VERSION
        assert self.tree.root.base == version


@asynccontextmanager
async def open_scene(tmp_path: Path, overlap: bool) -> AsyncIterator[Scene]:
    with open_project(tmp_path, observed=False) as project:
        async with Context(grace=0.2) as root:
            await root.plugin(SystemPrompt, include_harness_identity=False)
            scene = Scene(Tree(root, project), overlap)
            await scene.open()
            yield scene


both = pytest.mark.parametrize("overlap", [False, True], ids=["one after the other", "overlap"])
each = pytest.mark.parametrize("kind", ERRORS)

BEFORE_ANYTHING_IS_TOUCHED: dict[str, dict[str, str]] = {
    "a syntax error": {"at_import": "def (:"},
    "an error while importing": {"at_import": "raise ValueError('injected')"},
    "a cancellation while importing": {
        "at_import": "raise anyio.get_cancelled_exc_class()('from nowhere')"
    },
    "an exit while importing": {"at_import": "raise SystemExit(3)"},
    "a missing import": {"at_import": "import farm.nothing"},
    "a config that is refused": {"field": "another"},
    "a config that cannot be read": {"field": "broken: Nowhere = 1\n    number"},
    "a faulty attribute": {
        "at_import": "grace = provides = inject = 7\nraise ValueError('injected')"
    },
    "overlap that is no answer": {"child": "pass\noverlap = 'perhaps'\nif 1:\n    pass"},
}


@both
@pytest.mark.parametrize("fault", BEFORE_ANYTHING_IS_TOUCHED)
async def test_import_and_config(tmp_path: Path, overlap: bool, fault: str) -> None:
    async with open_scene(tmp_path, overlap) as scene:
        registered, modules = ledger(scene.tree.root), world()
        fibers = scene.base, scene.user, scene.side
        with assert_no_residue(scene.tree.root, modules=True):
            (report,) = await scene.reload(2, **BEFORE_ANYTHING_IS_TOUCHED[fault])
        assert report.error is not None
        assert scene.faults.hit == []
        assert ledger(scene.tree.root) == registered
        assert world() == modules
        await scene.serves(1)
        assert scene.tree.reloader.stale == {scene.base: report.error}
        scene.tree.good(await scene.reload(3))
        await scene.serves(3)
        assert (scene.base, scene.user, scene.side) == fibers


@both
@each
@pytest.mark.parametrize("phase", ["body", "end of the body", "user"])
async def test_a_body_of_the_plugin_or_of_its_user(
    tmp_path: Path, overlap: bool, phase: str, kind: str
) -> None:
    async with open_scene(tmp_path, overlap) as scene:
        registered, modules = ledger(scene.tree.root), world()
        with assert_no_residue(scene.tree.root, modules=True):
            scene.faults.plan(phase, 2, ERRORS[kind])
            (report,) = await scene.reload(2)
        assert report.error is not None
        assert scene.faults.hit == [(phase, 2)]
        assert ledger(scene.tree.root) == registered
        assert world() == modules
        await scene.serves(1)
        assert list(scene.tree.reloader.stale) == [scene.base]
        scene.tree.good(await scene.reload(3))
        await scene.serves(3)


@both
async def test_a_child_or_a_task_or_an_effect_of_the_new_body(
    tmp_path: Path, overlap: bool
) -> None:
    children = (
        "ctx.plugin(lambda inner: 1 / 0)",
        "ctx.start_soon(faults.reach, 'body', 2)",
        "ctx.effect(lambda: faults.reach('body', 2))",
    )
    async with open_scene(tmp_path, overlap) as scene:
        for child in children[:2]:
            registered, modules = ledger(scene.tree.root), world()
            with assert_no_residue(scene.tree.root, modules=True):
                (report,) = await scene.reload(
                    2, child=f"faults.plan('body', 2, lambda: ValueError('injected')); {child}"
                )
            assert report.error is not None, child
            assert ledger(scene.tree.root) == registered
            assert world() == modules
            await scene.serves(1)
        scene.tree.good(await scene.reload(3))
        await scene.serves(3)


@both
@each
async def test_the_teardown_of_the_old_version(tmp_path: Path, overlap: bool, kind: str) -> None:
    """It is reported, and stops nothing: the new version serves."""
    async with open_scene(tmp_path, overlap) as scene:
        reported: list[str] = []
        scene.tree.root.on("fiber/error", lambda fiber, error: reported.append(fiber.path))
        scene.faults.plan("teardown", 1, ERRORS[kind])
        with assert_no_residue(scene.tree.root, modules=True):
            scene.tree.good(await scene.reload(2))
        assert scene.faults.hit == [("teardown", 1)]
        assert reported == ["root/base"]
        await scene.serves(2)


@both
@each
@pytest.mark.parametrize("phase", ["body", "end of the body", "teardown", "user"])
async def test_the_way_back(tmp_path: Path, overlap: bool, phase: str, kind: str) -> None:
    """What fails once while the old version comes back is tried again."""
    async with open_scene(tmp_path, overlap) as scene:
        registered, modules = ledger(scene.tree.root), world()
        with assert_no_residue(scene.tree.root, modules=True):
            scene.faults.plan("user", 2, ERRORS[kind])
            scene.faults.plan(phase, 2 if phase == "teardown" else 1, ERRORS[kind])
            (report,) = await scene.reload(2)
        assert report.error is not None
        if not overlap or phase in ("teardown", "user"):
            assert [hit for hit, _ in scene.faults.hit] == ["user", phase]
        assert ledger(scene.tree.root) == registered
        assert world() == modules
        await scene.serves(1)
        scene.faults.planned.clear()
        scene.tree.good(await scene.reload(3))
        await scene.serves(3)


@both
@pytest.mark.parametrize("where", ["body", "user"])
async def test_a_body_that_never_returns(
    tmp_path: Path, overlap: bool, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is given up after a while, and the next save is not kept waiting for ever."""
    async with open_scene(tmp_path, overlap) as scene:
        for module in (gate, swap, succession):
            monkeypatch.setattr(module, "SETTLE_TIMEOUT", 0.3)
        if where == "body":
            (report,) = await scene.reload(2, child="await anyio.sleep_forever()")
        else:
            hang = "    if ctx.base == 2:\n        await sleep_forever()\n    ctx.system_prompt"
            text = "from anyio import sleep_forever\n" + USER.replace("    ctx.system_prompt", hang)
            file = scene.tree.project.write("farm/user.py", text)
            scene.tree.good(await scene.tree.reload(file))
            (report,) = await scene.reload(2)
        assert "is not done loading after 0.3 s" in str(report.error)
        await scene.serves(1)
        scene.tree.good(await scene.reload(3))
        await scene.serves(3)


@both
async def test_an_old_version_comes_back_as_soon_as_it_can(tmp_path: Path, overlap: bool) -> None:
    """Its port may be free a little later. Assemblies wait, and see no gap."""
    async with open_scene(tmp_path, overlap) as scene:
        scene.faults.plan("user", 2, ERRORS["exception"])
        scene.faults.plan("user", 1, ERRORS["exception"], times=2)
        scene.faults.plan("body", 1, ERRORS["exception"], times=2)
        seen: list[str] = []

        async def look() -> None:
            while len(scene.faults.hit) < 2:
                await anyio.lowlevel.checkpoint()
            seen.append(await scene.tree.prompt())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(look)
            (report,) = await scene.reload(2)
        assert report.error is not None
        bodies = [] if overlap else [("body", 1)] * 2
        assert scene.faults.hit == [("user", 2), *bodies, *[("user", 1)] * 2]
        await scene.serves(1)
        assert seen == [await scene.tree.prompt()]


async def test_an_old_version_that_does_not_come_back_is_replaced_by_a_good_save(
    tmp_path: Path,
) -> None:
    """If it fails again and again, none can serve. That is said, and the next save is tried."""
    async with open_scene(tmp_path, overlap=False) as scene:
        scene.faults.plan("body", 2, ERRORS["exception"])
        scene.faults.plan("body", 1, ERRORS["exception"], times=10)
        (report,) = await scene.reload(2)
        assert report.error is not None
        assert scene.base.state is FiberState.FAILED
        assert scene.user.waiting_for == ["base"]
        assert await scene.tree.prompt() == "side"
        scene.tree.good(await scene.reload(3))
        await scene.serves(3)


class Reluctant(ModuleType):
    """A package that refuses a new attribute once."""

    refuses = 0

    def __setattr__(self, name: str, value: object) -> None:
        if name == "base" and Reluctant.refuses:
            Reluctant.refuses -= 1
            raise ValueError("injected")
        super().__setattr__(name, value)


@both
@pytest.mark.parametrize("refuses", [1, 2])
async def test_the_commit_of_modules(tmp_path: Path, overlap: bool, refuses: int) -> None:
    async with open_scene(tmp_path, overlap) as scene:
        sys.modules["farm"].__class__ = Reluctant
        registered, modules = ledger(scene.tree.root), world()
        file = scene.save(2)
        Reluctant.refuses = refuses
        try:
            with assert_no_residue(scene.tree.root, modules=True):
                (report,) = await scene.tree.reload(file)
        finally:
            Reluctant.refuses = 0
        assert report.error is not None
        assert world() == modules
        assert ledger(scene.tree.root) == registered
        await scene.serves(1)
        scene.tree.good(await scene.reload(3))
        await scene.serves(3)


@both
@pytest.mark.parametrize("good", [True, False], ids=["a good save", "a bad save"])
async def test_the_caller_is_cancelled_at_each_moment(
    tmp_path: Path, overlap: bool, good: bool
) -> None:
    """The reload comes to its end, well or not, and the next one waits for that."""
    async with open_scene(tmp_path, overlap) as scene:
        serving, version, ticks = 1, 1, 0
        was_cancelled = True
        while was_cancelled:
            version += 1
            if not good:
                scene.faults.plan("end of the body", version, ERRORS["exception"])
            file = scene.save(version)
            registered = ledger(scene.tree.root)
            with assert_no_residue(scene.tree.root, modules=True):
                was_cancelled = await _cancelled_after(ticks, scene.tree.reload, file)
                await scene.tree.reload()  # waits for its turn
            assert ledger(scene.tree.root) == registered
            serving = version if good else 1
            await scene.serves(serving)
            ticks += 1
        assert ticks > 5


async def _cancelled_after(ticks: int, work: Callable[..., Any], *args: object) -> bool:
    """Do something, and cancel it after so many turns of the loop; return whether that hit it."""
    scope = anyio.CancelScope()

    async def run() -> None:
        with scope:
            await work(*args)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        for _ in range(ticks):
            await anyio.lowlevel.checkpoint()
        scope.cancel()
    return scope.cancelled_caught


@both
@each
async def test_assemblies_see_the_one_or_the_other(
    tmp_path: Path, overlap: bool, kind: str
) -> None:
    """However often they are asked for while the new version fails in each way."""
    async with open_scene(tmp_path, overlap) as scene:
        texts: set[str] = set()

        async def keep_assembling() -> None:
            async with anyio.create_task_group() as tasks:
                while True:
                    tasks.start_soon(assemble)
                    await anyio.lowlevel.checkpoint()

        async def assemble() -> None:
            texts.add(render_prompt(await scene.tree.root.system_prompt.assemble()))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(keep_assembling)
            for version, phase in enumerate(("body", "end of the body", "user"), 2):
                scene.faults.plan(phase, version, ERRORS[kind])
                await scene.reload(version)
            await scene.reload(9)
            tasks.cancel_scope.cancel()
        assert texts <= {f"base {one}\n\nuser of {one}\n\nside" for one in (1, 9)}
