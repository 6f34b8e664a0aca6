"""What `harness dev` makes of one batch of saves: code, rows and texts that belong together."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from harness_core import FiberState
from harness_core.app import Application, Settings
from harness_core.cli.living import Happening, Living
from harness_core.cli.session import Session, open_session
from harness_core.testing import assert_no_residue, ledger

from .living import save

pytestmark = pytest.mark.asyncio

PLUGIN = """\
import attrs
from pathlib import Path

inject = ["system_prompt"]
overlap = {overlap}
JOURNAL = Path(__file__).with_name("journal.txt")

@attrs.frozen
class Config:
    {key}: str

def apply(ctx, config):
    {fault}
    with JOURNAL.open("a") as journal:
        journal.write(f"{name} {version} {{config.{key}}}\\n")
    ctx.system_prompt.section("{name}", f"{name} {version} {{config.{key}}}", order=5)
"""

both = pytest.mark.parametrize("overlap", [False, True], ids=["one after the other", "overlap"])


def plugin(name: str, version: int, key: str, *, overlap: bool = False, fault: str = "pass") -> str:
    """Return a plugin that takes this one setting and no other."""
    return PLUGIN.format(name=name, version=version, key=key, overlap=overlap, fault=fault)


def rows(key: str, *names: str) -> str:
    """Return a manifest whose plugins are given this setting."""
    return "- {name: system_prompt, config: {include_harness_identity: false}}\n" + "".join(
        f"- {{id: {name}, name: ./{name}.py, config: {{{key}: {key}}}}}\n" for name in names
    )


class Project:
    """A directory of plugins with a harness that follows it, one batch at a time."""

    def __init__(self, directory: Path, session: Session, living: Living) -> None:
        self.directory, self.session, self.living = directory, session, living

    def save(self, file: str, text: str) -> None:
        """Save one file."""
        save(self.directory / file, text)

    async def follow(self) -> list[Happening]:
        """Take what was saved since the last time as one batch; return what was told."""
        told: list[Happening] = []
        assert await self.living.follow(self.session, told.append)
        return told

    async def one(self) -> Happening:
        """Return the one thing that was told of the batch: all is well."""
        (happening,) = await self.follow()
        assert (happening.event, happening.troubles, happening.stale) == ("reloaded", (), ())
        return happening

    def journal(self) -> list[str]:
        """Return which bodies have run since the last time."""
        file = self.directory / "journal.txt"
        lines = file.read_text().splitlines() if file.exists() else []
        file.unlink(missing_ok=True)
        return lines

    @property
    def states(self) -> set[FiberState]:
        """The states of all rows."""
        return {fiber.state for fiber in self.session.loader.running.values()}


@asynccontextmanager
async def project(directory: Path, manifest: str, **files: str) -> AsyncIterator[Project]:
    """Run a manifest beside these plugins."""
    for name, text in files.items():
        save(directory / f"{name}.py", text)
    save(directory / "harness.yaml", manifest)
    made: list[Living] = []
    app = Application(settings=Settings(str(directory / "harness.yaml")))
    async with open_session(app, lambda root, loader: made.append(Living(root, loader))) as session:
        assert not session.faults()
        await made[0].start(session)
        running = Project(directory, session, made[0])
        running.journal()
        yield running


@both
async def test_a_setting_that_is_renamed_in_code_and_row_at_once(
    tmp_path: Path, overlap: bool
) -> None:
    """Neither works without the other, so they are taken up in one transaction, and told as one."""
    code = {"a": plugin("a", 1, "old", overlap=overlap)}
    async with project(tmp_path, rows("old", "a"), **code) as running:
        fiber = running.session.loader.running["a"]
        running.save("a.py", plugin("a", 2, "new", overlap=overlap))
        running.save("harness.yaml", rows("new", "a"))
        told = await running.one()
        assert told.plugins == ("a",)
        assert told.scopes["global"] == "a 2 new"
        assert running.journal() == ["a 2 new"]
        assert running.session.loader.running["a"] is fiber


@both
@pytest.mark.parametrize("first", ["code", "rows"])
async def test_a_setting_that_is_renamed_in_one_file_after_the_other(
    tmp_path: Path, first: str, overlap: bool
) -> None:
    """The first save cannot work yet; the second brings both."""
    code = {"a": plugin("a", 1, "old", overlap=overlap)}
    async with project(tmp_path, rows("old", "a"), **code) as running:
        saves = {
            "code": ("a.py", plugin("a", 2, "new", overlap=overlap)),
            "rows": ("harness.yaml", rows("new", "a")),
        }
        running.save(*saves.pop(first))
        (refused,) = await running.follow()
        assert (refused.event, refused.scopes["global"]) == ("failed", "a 1 old")
        assert running.journal() == []
        running.save(*saves.popitem()[1])
        assert (await running.one()).scopes["global"] == "a 2 new"
        assert running.journal() == ["a 2 new"]


async def test_a_checkout_of_another_branch_is_one_reload(tmp_path: Path) -> None:
    """Two hundred plugins, a helper and the rows change, a plugin goes and one comes."""
    names = [f"p{number:03}" for number in range(200)]

    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=me", "-c", "user.email=me@example.org"]
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, timeout=60)

    def write(version: int, key: str, *names: str) -> None:
        for file in tmp_path.glob("p*.py"):
            file.unlink()
        for name in names:
            save(tmp_path / f"{name}.py", plugin(name, version, key))
        save(tmp_path / "harness.yaml", rows(key, *names))

    git("init", "--quiet", "--initial-branch=main")
    save(tmp_path / ".gitignore", "journal.txt\n__pycache__\n")
    write(2, "new", *names[1:], "coming")
    (tmp_path / "coming.py").write_text(plugin("coming", 2, "new"))
    git("add", ".")
    git("commit", "--quiet", "-m", "two")
    git("checkout", "--quiet", "-b", "before")
    write(1, "old", *names)
    (tmp_path / "coming.py").unlink()
    git("add", ".")
    git("commit", "--quiet", "-m", "one")
    async with project(tmp_path, (tmp_path / "harness.yaml").read_text()) as running:
        before = running.session.loader.running
        kept = {name: before[name] for name in names[1:]}
        git("checkout", "--quiet", "main")
        told = await running.one()
        new = [f"{name} 2 new" for name in names[1:]] + ["coming 2 new"]
        assert told.scopes["global"].split("\n\n") == new
        assert sorted(running.journal()) == sorted(new)
        assert {name: running.session.loader.running[name] for name in kept} == kept


async def test_a_plugin_that_is_deleted_with_its_row(tmp_path: Path) -> None:
    code = {name: plugin(name, 1, "old") for name in ("a", "b")}
    async with project(tmp_path, rows("old", "a", "b"), **code) as running:
        (tmp_path / "a.py").unlink()
        running.save("harness.yaml", rows("old", "b"))
        told = await running.one()
        assert told.scopes["global"] == "b 1 old"
        assert running.journal() == []


async def test_code_and_a_manifest_whose_rows_have_not_changed(tmp_path: Path) -> None:
    """A comment in the manifest is nothing to tell of beside the code."""
    async with project(tmp_path, rows("old", "a"), a=plugin("a", 1, "old")) as running:
        running.save("a.py", plugin("a", 2, "old"))
        running.save("harness.yaml", rows("old", "a") + "# a comment\n")
        told = await running.one()
        assert told.plugins == ("a",)
        assert running.journal() == ["a 2 old"]


@both
async def test_code_that_fails_together_with_its_row_costs_nothing(
    tmp_path: Path, overlap: bool
) -> None:
    """All is as it was, and the next good save of the code alone brings both."""
    code = {
        "a": plugin("a", 1, "old", overlap=overlap),
        "b": plugin("b", 1, "old", overlap=overlap),
    }
    async with project(tmp_path, rows("old", "a", "b"), **code) as running:
        registered = str(ledger(running.session.root))
        fault = "raise ValueError('no luck')"
        running.save("a.py", plugin("a", 2, "new", overlap=overlap, fault=fault))
        running.save("b.py", plugin("b", 2, "new", overlap=overlap))
        running.save("harness.yaml", rows("new", "a", "b"))
        with assert_no_residue(running.session.root, modules=True):
            told = await running.follow()
        assert {one.event for one in told} == {"failed"}
        assert any("no luck" in trouble.message for one in told for trouble in one.troubles)
        assert told[-1].scopes["global"] == "a 1 old\n\nb 1 old"
        assert str(ledger(running.session.root)) == registered
        assert running.states == {FiberState.ACTIVE}
        running.journal()
        running.save("a.py", plugin("a", 3, "new", overlap=overlap))
        told = [await running.one()]
        assert told[0].scopes["global"] == "a 3 new\n\nb 2 new"
        assert sorted(running.journal()) == ["a 3 new", "b 2 new"]


async def test_what_rows_a_plugin_is_given_changes_with_the_manifest(tmp_path: Path) -> None:
    """A row inside another plugin's config is found by the plugin that mounts it."""
    holder = """\
inject = ["loader"]

def apply(ctx, config):
    ctx.loader.mount(config["rows"])
"""

    def manifest(key: str) -> str:
        row = f"{{id: a, name: ./a.py, config: {{{key}: {key}}}}}"
        return rows(key) + f"- {{id: holder, name: ./holder.py, config: {{rows: [{row}]}}}}\n"

    code = {"a": plugin("a", 1, "old"), "holder": holder}
    async with project(tmp_path, manifest("old"), **code) as running:
        running.save("a.py", plugin("a", 2, "new"))
        running.save("harness.yaml", manifest("new"))
        assert (await running.one()).scopes["global"] == "a 2 new"
        assert running.journal() == ["a 2 new"]
