"""Reports about the file that says what runs: what comes back, stays, or is written by itself."""

from __future__ import annotations

from pathlib import Path

import anyio.to_thread
import pytest

from harness_core import Context, FiberState
from harness_core.errors import DuplicateRegistrationError, ManifestError
from harness_core.loader import Loader, ReconcileError, Resolver, read_manifest
from harness_core.prompt import render_prompt
from harness_core.testing import assert_no_residue
from tests.cli.living import Process, process, save
from tests.loader.harness import running, states

from .reports import Kind, Scenario
from .saving import section

pytestmark = pytest.mark.asyncio

PROMPT = "- {id: prompt, name: system_prompt, config: {include_harness_identity: false}}\n"


async def prompt(root: Context) -> str:
    """Return the system prompt."""
    return render_prompt(await root.system_prompt.assemble())


truth = Kind()


@truth.report("dataelement/dsh-desktop#262")
async def _removed_and_started_again(directory: Path) -> None:
    """A plugin that was removed does not come back with the next start; the file is the truth."""
    manifest = PROMPT + "- {id: one, name: ./one.py}  # the first\n- {id: two, name: ./two.py}\n"
    files = {"one": section("one", "'one'"), "two": section("two", "'two'")}
    async with running(directory, manifest=manifest, **files) as (root, loader):
        assert await prompt(root) == "one\n\ntwo"
        await loader.remove("two")
        assert await prompt(root) == "one"
    expected = PROMPT + "- {id: one, name: ./one.py}  # the first\n"
    assert (directory / "harness.yaml").read_text() == expected
    async with running(directory) as (root, loader):
        assert await prompt(root) == "one"
        assert set(loader.running) == {"prompt", "one"}


@truth.report("section 13: a disposed child disables its parent")
async def _a_child_that_is_disposed(directory: Path) -> None:
    """Neither its end nor that of the row itself is written to the file."""
    parent = """
        def child(ctx): ...
        def apply(ctx):
            ctx.provide("child", ctx.plugin(child))
    """
    manifest = "- {id: parent, name: ./parent.py}\n- {id: other, name: ./other.py}\n"
    other = "def apply(ctx, config): ...\n"
    async with running(directory, parent=parent, other=other, manifest=manifest) as (root, loader):
        await root.get("child").dispose()
        assert states(loader) == {"parent": "active", "other": "active"}
        await loader.reconcile()
        assert (directory / "harness.yaml").read_text() == manifest
        await loader.running["parent"].dispose()
        await loader.set_config("other", {"n": 1})
        written = (directory / "harness.yaml").read_text()
        assert "{id: parent, name: ./parent.py}\n" in written
        assert "disabled" not in written
        assert root.get("child").state is FiberState.ACTIVE


@truth.report("deltazefiro/DeltaBot#3", "archangelic/pinhook#14")
async def _deleted_renamed_and_moved(directory: Path) -> None:
    """What is gone from the directory and the file is gone; what has moved is there once."""
    (directory / "one.py").write_text(section("one", "'one'"))
    (directory / "two.py").write_text(section("two", "'two'"))
    file = directory / "harness.yaml"
    file.write_text(PROMPT + "- {id: one, name: ./one.py}\n- {id: two, name: ./two.py}\n")

    def until(dev: Process, text: str, *before: str) -> None:
        while (told := dev.event()["scopes"]["global"]) != text:
            assert told in before

    def follow() -> None:
        with process(directory, "dev", "harness.yaml", "--json") as dev:
            until(dev, "one\n\ntwo")
            (directory / "two.py").unlink()
            assert dev.event(event="failed")["plugins"] == ["two"]
            save(file, PROMPT + "- {id: one, name: ./one.py}\n")
            until(dev, "one", "one\n\ntwo")
            (directory / "one.py").rename(directory / "uno.py")
            save(file, PROMPT + "- {id: one, name: ./uno.py}\n", "by rename")
            save(directory / "uno.py", section("one", "'uno'"))
            until(dev, "uno", "one")
            (directory / "package").mkdir()
            (directory / "package" / "inner.py").write_text("TEXT = 'moved'\n")
            head = "from .inner import TEXT"
            save(directory / "package" / "__init__.py", section("one", "TEXT", head))
            (directory / "uno.py").unlink()
            save(file, PROMPT + "- {id: one, name: package}\n")
            until(dev, "moved", "uno")
            save(directory / "package" / "inner.py", "TEXT = 'still followed'\n")
            until(dev, "still followed", "moved")
            assert dev.stop() == 0

    await anyio.to_thread.run_sync(follow)


@truth.each()
async def test_the_file_says_what_runs_and_nothing_else_does(
    scenario: Scenario, tmp_path: Path
) -> None:
    """Over a restart, too; and nothing is written that nobody asked for."""
    await scenario(tmp_path)


twice = Kind()


@twice.report(
    "anomalyco/opencode#3179: rows",
    "anthropics/claude-code#24115: rows",
    "vshulcz/deja-vu#1563: rows",
)
async def _one_plugin_from_two_rows(directory: Path) -> None:
    """One id is refused with its line; one section from two places, with both plugins."""
    (directory / "harness.yaml").write_text(
        "- {id: a, name: ./one.py}\n- {id: a, name: ./one.py}\n"
    )
    with pytest.raises(ManifestError) as refused:
        read_manifest(directory / "harness.yaml")
    assert refused.value.line == 2
    manifest = PROMPT + "- {id: one, name: ./one.py}\n"
    one = section("deja:recall", "'recall'")
    copy = manifest + "- {id: copy, name: ./copied.py}\n"
    async with (
        running(directory, one=one, copied=one, manifest=manifest) as (root, loader),
        assert_no_residue(root),
    ):
        (directory / "harness.yaml").write_text(copy)
        with pytest.raises(ReconcileError) as caught:
            await loader.reconcile()
        assert list(caught.value.faults) == ["copy"]
        assert 'prompt section "deja:recall" is already registered' in str(caught.value)
        assert await prompt(root) == "recall"
    loader = Loader(read_manifest(directory / "harness.yaml"), Resolver(directory))
    async with Context() as root:
        root.provide("loader", loader)
        loader.start()
        for fiber in loader.running.values():
            await fiber.wait_quiet()
        assert states(loader) == {"prompt": "active", "one": "active", "copy": "failed"}
        assert isinstance(loader.running["copy"].error, DuplicateRegistrationError)
        assert await prompt(root) == "recall"


@twice.report("Rapptz/discord.py#1658: rows", "Cog-Creators/Red-DiscordBot#714: rows")
async def _a_row_that_failed(directory: Path) -> None:
    """Its id is in no limbo: a save of the file mends it, it can be removed and come back."""
    half = section("one", "config['text']").replace("apply(ctx)", "apply(ctx, config)")
    half += "    if config['text'] == 'bad': raise LookupError('halfway')\n"
    row = PROMPT + "- {id: one, name: ./one.py, config: {text: %s}}\n"
    async with running(directory, one=half, manifest=row % "good") as (root, loader):
        for _ in range(2):
            (directory / "harness.yaml").write_text(row % "bad")
            with pytest.raises(ReconcileError, match="halfway"):
                await loader.reconcile()
            assert await prompt(root) == "good"
        (directory / "harness.yaml").write_text(row % "better")
        await loader.reconcile()
        assert await prompt(root) == "better"
        await loader.remove("one")
        await loader.add({"id": "one", "name": "./one.py", "config": {"text": "again"}})
        assert await prompt(root) == "again"


@twice.each()
async def test_a_row_runs_once_or_says_why_it_does_not(scenario: Scenario, tmp_path: Path) -> None:
    """And what ran before runs on."""
    await scenario(tmp_path)
