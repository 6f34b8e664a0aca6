"""A failure at each phase of a reconcile: the rows before run on, and the next good file is taken.

The way back is a phase too. What only fails while it is torn down is reported, and stops nothing.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from harness_core import Context, FiberState
from harness_core.kernel import gate, succession, swap
from harness_core.loader import Loader, ReconcileError
from harness_core.prompt import render_prompt
from harness_core.testing import assert_no_residue, ledger

from .harness import running, states

pytestmark = pytest.mark.asyncio

PLUGIN = """
    import anyio
    import attrs

    @attrs.frozen
    class Config:
        value: str
        in_place: bool = False

    class Plugin:
        Config = Config

        def __init__(self, name, *inject, overlap=False):
            self.name = name
            self.inject = ["system_prompt", "faults", *inject]
            self.overlap = overlap

        async def apply(self, ctx, config):
            faults, name = ctx.faults, self.name
            await faults.reach("body", name, config.value)
            if config.value == "for ever":
                await anyio.sleep_forever()
            ctx.system_prompt.section(name, f"{name} {config.value}", order=5)
            ctx.provide(name, config.value)
            if name == "user":
                await faults.reach("user", name, ctx.base)
            await anyio.sleep(0)
            await faults.reach("end of the body", name, config.value)

            async def accept(new):
                await faults.reach("in place", name, new.value)
                return False

            if config.in_place:
                ctx.on_update(accept)

            async def down():
                await faults.reach("teardown", name, config.value)

            return down

    base, side, other = Plugin("base"), Plugin("side"), Plugin("other")
    twin = Plugin("base", overlap=True)
    user = Plugin("user", "base")
"""


class Faults:
    """What is to go wrong once."""

    def __init__(self) -> None:
        self.planned: dict[tuple[str, str, str], Callable[[], BaseException]] = {}
        self.hit: list[str] = []

    async def reach(self, phase: str, name: str, value: str) -> None:
        await anyio.lowlevel.checkpoint()
        planned = self.planned.pop((phase, name, value), None)
        if planned is not None:
            self.hit.append(phase)
            raise planned()


ERRORS: dict[str, Callable[[], BaseException]] = {
    "exception": lambda: ValueError("injected"),
    "cancellation": lambda: anyio.get_cancelled_exc_class()("from nowhere"),
}

each = pytest.mark.parametrize("kind", ERRORS)
plugins = pytest.mark.parametrize("base", ["base", "twin"])

ROWS = """
- {{name: system_prompt, config: {{include_harness_identity: false}}}}
- {{id: side, name: './p.py:side', config: {{value: "{side}"}}}}
- {{id: user, name: './p.py:user', config: {{value: "1"}}}}
- id: group
  group: true
  config:
  - {{id: base, name: './p.py:{plugin}', config: {{value: "{base}", in_place: {in_place}}}}}
{more}
"""


def rows(base: str, plugin: str, side: str = "1", more: str = "", in_place: bool = False) -> str:
    return ROWS.format(
        base=base, plugin=plugin, side=side, more=more, in_place=str(in_place).lower()
    )


class Scene:
    """Rows that run, and the file they come from."""

    def __init__(self, directory: Path, root: Context, loader: Loader, faults: Faults) -> None:
        self.directory, self.root, self.loader, self.faults = directory, root, loader, faults

    def write(self, manifest: str) -> None:
        (self.directory / "harness.yaml").write_text(textwrap.dedent(manifest))

    async def prompt(self) -> str:
        return render_prompt(await self.root.system_prompt.assemble())

    async def fails(self, manifest: str) -> ReconcileError:
        """Reconcile in vain; all is as before."""
        before, text = dict(self.loader.running), await self.prompt()
        registered, modules = ledger(self.root), states(self.loader)
        self.write(manifest)
        with (
            assert_no_residue(self.root, modules=True),
            pytest.raises(ReconcileError) as raised,
        ):
            await self.loader.reconcile()
        assert dict(self.loader.running) == before
        assert str(ledger(self.root)) == str(registered)
        assert states(self.loader) == modules
        assert await self.prompt() == text
        assert raised.value.line is not None
        return raised.value

    async def recovers(self, manifest: str, text: str) -> None:
        self.write(manifest)
        await self.loader.reconcile()
        assert await self.prompt() == text
        assert set(states(self.loader).values()) == {"active"}


@asynccontextmanager
async def open_scene(directory: Path, manifest: str) -> AsyncIterator[Scene]:
    (directory / "q.py").write_text(textwrap.dedent(PLUGIN))
    async with running(directory, "system_prompt", p=PLUGIN, manifest=manifest) as (root, loader):
        faults = Faults()
        root.provide("faults", faults)
        await anyio.wait_all_tasks_blocked()
        yield Scene(directory, root, loader, faults)


def text_of(base: str, side: str = "1") -> str:
    return f"side {side}\n\nbase {base}\n\nuser 1"


NEVER_TOUCHED = {
    "a syntax error": "- {id: more, name: ./broken.py}",
    "an error while importing": "- {id: more, name: ./raising.py}",
    "an exit while importing": "- {id: more, name: ./exiting.py}",
    "a cancellation while importing": "- {id: more, name: ./cancelled.py}",
    "no such plugin": "- {id: more, name: './p.py:nothing'}",
    "a config that is refused": "- {id: more, name: './p.py:other', config: {values: '1'}}",
}


@plugins
@pytest.mark.parametrize("fault", NEVER_TOUCHED)
async def test_import_and_config(tmp_path: Path, base: str, fault: str) -> None:
    for name, text in (
        ("broken", "def (:"),
        ("raising", "raise ValueError('injected')"),
        ("exiting", "raise SystemExit(3)"),
        ("cancelled", "import asyncio\nraise asyncio.CancelledError('from nowhere')"),
    ):
        (tmp_path / f"{name}.py").write_text(text)
    async with open_scene(tmp_path, rows("1", base)) as scene:
        error = await scene.fails(rows("2", base, more=NEVER_TOUCHED[fault]))
        assert list(error.faults) == ["more"]
        assert scene.faults.hit == []
        await scene.recovers(rows("3", base), text_of("3"))


@plugins
async def test_a_body_that_never_returns(
    tmp_path: Path, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is given up after a while. A row that comes may take its time, as it may at the start."""
    for module in (gate, swap, succession):
        monkeypatch.setattr(module, "SETTLE_TIMEOUT", 0.3)
    async with open_scene(tmp_path, rows("1", base)) as scene:
        error = await scene.fails(rows("for ever", base))
        assert "is not done loading after 0.3 s" in str(error.faults["base"])
        await scene.recovers(rows("2", base), text_of("2"))
        more = "- {id: more, name: './p.py:other', config: {value: for ever}}"
        scene.write(rows("2", base, more=more))
        await scene.loader.reconcile()
        assert states(scene.loader)["more"] == "loading"


@plugins
@each
@pytest.mark.parametrize("phase", ["body", "end of the body"])
async def test_a_body(tmp_path: Path, base: str, phase: str, kind: str) -> None:
    async with open_scene(tmp_path, rows("1", base)) as scene:
        scene.faults.planned[phase, "base", "2"] = ERRORS[kind]
        error = await scene.fails(rows("2", base, side="2"))
        assert list(error.faults) == ["base"]
        assert scene.faults.hit == [phase]
        await scene.recovers(rows("3", base), text_of("3"))


@plugins
@each
async def test_a_user_of_what_changed(tmp_path: Path, base: str, kind: str) -> None:
    async with open_scene(tmp_path, rows("1", base)) as scene:
        scene.faults.planned["user", "user", "2"] = ERRORS[kind]
        await scene.fails(rows("2", base))
        assert scene.faults.hit == ["user"]
        await scene.recovers(rows("3", base), text_of("3"))


@plugins
@each
@pytest.mark.parametrize("change", ["add", "replace", "enable"])
async def test_a_row_that_comes(tmp_path: Path, base: str, kind: str, change: str) -> None:
    """What changed with it goes back too."""
    new = "- {id: more, name: './p.py:other', config: {value: '9'}}"
    before = {
        "add": "",
        "replace": "- {id: more, name: './q.py:side', config: {value: '9'}, disabled: true}",
        "enable": new.replace("}}", "}, disabled: true}"),
    }[change]
    async with open_scene(tmp_path, rows("1", base, more=before)) as scene:
        scene.faults.planned["end of the body", "other", "9"] = ERRORS[kind]
        error = await scene.fails(rows("2", base, side="2", more=new))
        assert list(error.faults) == ["more"]
        text = text_of("3").replace("user 1", "user 1\n\nother 9")
        await scene.recovers(rows("3", base, more=new), text)


@each
async def test_an_update_in_place(tmp_path: Path, kind: str) -> None:
    async with open_scene(tmp_path, rows("1", "base", in_place=True)) as scene:
        scene.faults.planned["in place", "base", "2"] = lambda: ValueError("injected")
        error = await scene.fails(rows("2", "base", side="2", in_place=True))
        assert list(error.faults) == ["base"]
        scene.faults.planned["body", "side", "3"] = ERRORS[kind]
        await scene.fails(rows("3", "base", side="3", in_place=True))
        await scene.recovers(rows("4", "base", in_place=True), text_of("4"))


@plugins
@each
async def test_teardown(tmp_path: Path, base: str, kind: str) -> None:
    """It is reported, and the new rows run."""
    async with open_scene(tmp_path, rows("1", base)) as scene:
        reported: list[str] = []
        scene.root.on("fiber/error", lambda fiber, error: reported.append(fiber.name))
        scene.faults.planned["teardown", "base", "1"] = ERRORS[kind]
        scene.faults.planned["teardown", "side", "1"] = ERRORS[kind]
        await scene.recovers(rows("2", base, side="2"), text_of("2", "2"))
        assert scene.faults.hit == ["teardown", "teardown"]
        assert sorted(reported) == ["base", "side"]


@plugins
@each
@pytest.mark.parametrize("phase", ["body", "end of the body", "teardown"])
async def test_the_way_back(tmp_path: Path, base: str, phase: str, kind: str) -> None:
    """What fails once while the old rows come back is tried again."""
    async with open_scene(tmp_path, rows("1", base)) as scene:
        scene.faults.planned["body", "side", "2"] = ERRORS[kind]
        scene.faults.planned[phase, "base", "2" if phase == "teardown" else "1"] = ERRORS[kind]
        scene.faults.planned["body", "side", "1"] = ERRORS[kind]
        await scene.fails(rows("2", base, side="2"))
        assert {"body", phase} <= set(scene.faults.hit)
        scene.faults.planned.clear()
        await scene.recovers(rows("3", base), text_of("3"))


@plugins
async def test_writing_the_file(tmp_path: Path, base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An edit whose row fails, or whose file cannot be replaced, changes neither file nor tree."""
    async with open_scene(tmp_path, rows("1", base)) as scene:
        file = tmp_path / "harness.yaml"
        before, text, registered = file.read_text(), await scene.prompt(), ledger(scene.root)
        files = sorted(os.listdir(tmp_path))

        def refuse(*_: object) -> None:
            raise OSError(28, "No space left on device")

        with assert_no_residue(scene.root):
            scene.faults.planned["body", "base", "2"] = ERRORS["exception"]
            with pytest.raises(ReconcileError):
                await scene.loader.set_config("base", {"value": "2"})
            with monkeypatch.context() as patch:
                patch.setattr(os, "replace", refuse)
                with pytest.raises(OSError, match="No space left"):
                    await scene.loader.set_config("base", {"value": "3"})
        assert file.read_text() == before
        assert str(ledger(scene.root)) == str(registered)
        assert await scene.prompt() == text
        assert sorted(os.listdir(tmp_path)) == files
        await scene.loader.set_config("base", {"value": "4"})
        assert 'value: "4"' in file.read_text()
        assert await scene.prompt() == text_of("4")


@plugins
@pytest.mark.parametrize("good", [True, False], ids=["a good file", "a bad file"])
async def test_the_caller_is_cancelled_at_each_moment(
    tmp_path: Path, base: str, good: bool
) -> None:
    """The reconcile comes to its end, well or not, and the next one waits for that."""
    async with open_scene(tmp_path, rows("1", base)) as scene:
        value, ticks, was_cancelled = 1, 0, True
        while was_cancelled:
            value += 1
            if not good:
                scene.faults.planned["end of the body", "base", str(value)] = ERRORS["exception"]
            registered = ledger(scene.root)
            scene.write(rows(str(value), base))
            with assert_no_residue(scene.root, modules=True):
                was_cancelled = await _cancelled_after(ticks, scene.loader.reconcile)
                async with scene.loader.lock:
                    pass
            assert ledger(scene.root) == registered
            assert await scene.prompt() in {text_of(str(value)), text_of("1")}
            if not good:
                assert await scene.prompt() == text_of("1")
            ticks += 1
        assert ticks > 5


async def _cancelled_after(ticks: int, work: Callable[[], Any]) -> bool:
    """Do something, and cancel it after so many turns of the loop; return whether that hit it."""
    scope = anyio.CancelScope()

    async def run() -> None:
        with scope:
            try:
                await work()
            except ReconcileError:
                pass

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        for _ in range(ticks):
            await anyio.lowlevel.checkpoint()
        scope.cancel()
    return scope.cancelled_caught


async def test_the_life_before_goes_on_until_the_next_one_has_begun(tmp_path: Path) -> None:
    """A new config of a plugin with `overlap` is no gap either."""
    async with open_scene(tmp_path, rows("1", "twin")) as scene:
        fiber, seen = scene.loader.running["base"], list[str]()
        reach = scene.faults.reach

        async def watch(phase: str, name: str, value: str) -> None:
            if name == "base":
                seen.append(f"{phase} {value}")
            await reach(phase, name, value)

        scene.faults.reach = watch  # type: ignore[method-assign]
        scene.write(rows("2", "twin"))
        await scene.loader.reconcile()
        assert seen == ["body 2", "end of the body 2", "teardown 1"]
        assert scene.loader.running["base"] is fiber
        assert fiber.state is FiberState.ACTIVE
        assert await scene.prompt() == text_of("2")
