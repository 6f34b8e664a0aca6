"""What `harness dev` makes of one batch of saves: code, rows and texts that belong together."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from harness_core import FiberState
from harness_core.app import Application, Settings
from harness_core.cli import prompts
from harness_core.cli.living import Happening, Living
from harness_core.cli.session import Session, open_session
from harness_core.prompt import render_prompt
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
        assert await self.living.follow(told.append)
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


WRITER = """\
inject = ["system_prompt"]
overlap = {overlap}

def apply(ctx):
    {body}
"""


def writer(body: str, *, overlap: bool = False) -> str:
    """Return a plugin that does this."""
    return WRITER.format(body=body, overlap=overlap)


WRITERS = """\
- {name: system_prompt, config: {include_harness_identity: false}}
- name: ./a.py
- name: ./b.py
"""
VARIABLE = 'ctx.system_prompt.variable("city", "Rome")'
SECTION = 'ctx.system_prompt.section("place", "in {{city}}", order=5)'


async def spoils(running: Project, file: str, text: str | None) -> Happening:
    """Save what spoils the prompt; nothing else happens."""
    registered = str(ledger(running.session.root))
    with assert_no_residue(running.session.root, modules=True):
        if text is None:
            (running.directory / file).unlink()
        else:
            running.save(file, text)
        (told,) = await running.follow()
    assert (told.event, told.scopes["global"]) == ("failed", "in Rome")
    assert str(ledger(running.session.root)) == registered
    assert running.states == {FiberState.ACTIVE}
    return told


SPOILT = {
    "an unknown variable": SECTION.replace("city", "citi"),
    "a malformed reference": SECTION.replace("city", "a b"),
    "a provider that raises": 'ctx.system_prompt.section("place", lambda _: 1 / 0, order=5)',
    "a listener that raises": 'ctx.on("system-prompt/assemble", lambda *_: 1 / 0)',
    "a runtime context": 'ctx.system_prompt.context("place", "{{nowhere}}", order=5)',
}


@both
@pytest.mark.parametrize("fault", SPOILT)
async def test_a_save_that_spoils_a_prompt_is_refused(
    tmp_path: Path, fault: str, overlap: bool
) -> None:
    """The body works, but no assembly would any more: the old version serves until a good save."""
    code = {"a": writer(VARIABLE), "b": writer(SECTION, overlap=overlap)}
    async with project(tmp_path, WRITERS, **code) as running:
        told = await spoils(running, "b.py", writer(SPOILT[fault], overlap=overlap))
        assert (told.plugins, told.stale) == (("b",), ("root/b",))
        assert [(one.file, one.line) for one in told.troubles] == [(str(tmp_path / "b.py"), 5)]
        running.save("b.py", writer(SECTION.replace("in", "at"), overlap=overlap))
        assert (await running.one()).scopes["global"] == "at Rome"


async def test_a_provider_that_never_returns_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = {"a": writer(VARIABLE), "b": writer(SECTION)}
    async with project(tmp_path, WRITERS, **code) as running:
        monkeypatch.setattr(prompts, "PATIENCE", 0.2)
        hanging = 'ctx.system_prompt.section("place", lambda _: sleep_forever(), order=5)'
        told = await spoils(running, "b.py", "from anyio import sleep_forever\n" + writer(hanging))
        assert "it is not done after 0.2 seconds" in told.troubles[0].message


async def test_a_text_that_cannot_be_rendered_is_refused_with_its_place(tmp_path: Path) -> None:
    """And taken up as soon as what it names is there."""
    save(tmp_path / "rules.md", "# Rules\n\nin {{city}}\n")
    read = 'text = ctx.watch_file("rules.md")\n    '
    read += 'ctx.system_prompt.section("place", text.split("\\n", 1)[1].strip(), order=5)'
    code = {
        "a": writer(VARIABLE),
        "b": writer(read.replace("rules.md", str(tmp_path / "rules.md"))),
    }
    async with project(tmp_path, WRITERS, **code) as running:
        told = await spoils(running, "rules.md", "# Rules\n\n\nin {{city}} and\n in {{town}}\n")
        assert told.plugins == ("b",)
        (trouble,) = told.troubles
        assert (trouble.file, trouble.line) == (str(tmp_path / "rules.md"), 5)
        assert '"{{town}}"' in trouble.message
        assert "> 5 |  in {{town}}" in trouble.excerpt
        running.save("a.py", writer(f"{VARIABLE}\n    {VARIABLE.replace('city', 'town')}"))
        assert (await running.one()).scopes["global"] == "in Rome and\n in Rome"


@pytest.mark.parametrize("how", ["code", "row", "file"])
async def test_what_a_prompt_needs_cannot_go(tmp_path: Path, how: str) -> None:
    """A variable is taken out of the code; the row of its plugin goes; its file does."""
    async with project(tmp_path, WRITERS, a=writer(VARIABLE), b=writer(SECTION)) as running:
        if how == "code":
            told = await spoils(running, "a.py", writer("pass"))
            assert told.plugins == ("a",)
        elif how == "row":
            told = await spoils(running, "harness.yaml", WRITERS.replace("- name: ./a.py\n", ""))
        else:
            told = await spoils(running, "a.py", None)
        (trouble,) = told.troubles
        assert how == "file" or "city" in trouble.message
        running.save("a.py", writer(VARIABLE.replace("Rome", "Oslo")))
        running.save("harness.yaml", WRITERS)
        assert (await running.one()).scopes["global"] == "in Oslo"


async def test_a_row_that_spoils_a_prompt_is_refused(tmp_path: Path) -> None:
    async with project(tmp_path, WRITERS, a=writer(VARIABLE), b=writer(SECTION)) as running:
        save(tmp_path / "c.py", writer(SECTION.replace("place", "c").replace("city", "town")))
        told = await spoils(running, "harness.yaml", f"{WRITERS}- name: ./c.py\n")
        (trouble,) = told.troubles
        assert (trouble.file, trouble.line) == (str(tmp_path / "harness.yaml"), 4)
        assert '"{{town}}"' in trouble.message


async def test_a_prompt_that_is_broken_already_keeps_nothing_back(tmp_path: Path) -> None:
    """What cannot become worse is followed as ever, and said."""
    code = {"a": writer("pass"), "b": writer(SECTION)}
    async with project(tmp_path, WRITERS, **code) as running:
        running.save("a.py", writer("ctx.provide('number', 1)"))
        (told,) = await running.follow()
        assert (told.event, told.plugins, told.stale) == ("reloaded", ("a",), ())
        assert '"{{city}}"' in told.troubles[0].message
        running.save("a.py", writer(VARIABLE))
        assert (await running.one()).scopes["global"] == "in Rome"


async def test_an_import_inside_a_function_that_fails_is_at_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the working directory is watched, in which no file is called `<frozen ...>`."""
    monkeypatch.chdir(tmp_path)
    code = {"a": writer(VARIABLE), "b": writer(SECTION)}
    async with project(tmp_path, WRITERS, **code) as running:
        told = await spoils(
            running, "b.py", writer('__import__("importlib").import_module("none")')
        )
        assert [(one.file, one.line) for one in told.troubles] == [(str(tmp_path / "b.py"), 5)]


async def test_code_that_fails_beside_a_faulty_row_is_told_by_its_own_reason(
    tmp_path: Path,
) -> None:
    """The row is as faulty as before, and no news."""
    code = {"a": writer(VARIABLE), "b": writer(SECTION)}
    async with project(tmp_path, WRITERS, **code) as running:
        told = await spoils(running, "harness.yaml", f"{WRITERS}- name: ./none.py\n")
        assert told.plugins == ("./none.py",)
        told = await spoils(running, "b.py", writer("raise ValueError('no luck')"))
        assert told.plugins == ("b",)
        assert "no luck" in told.troubles[0].message


ONE_ROW = """\
- {name: system_prompt, config: {include_harness_identity: false}}
- name: ./a.py
"""


@asynccontextmanager
async def broken(directory: Path, **files: str) -> AsyncIterator[Project]:
    """Run one row that does not work at the start."""
    for name, text in files.items():
        save(directory / f"{name}.py", text)
    save(directory / "harness.yaml", ONE_ROW)
    made: list[Living] = []
    app = Application(settings=Settings(str(directory / "harness.yaml")))
    async with open_session(app, lambda root, loader: made.append(Living(root, loader))) as session:
        assert session.faults()
        await made[0].start(session)
        yield Project(directory, session, made[0])


READS = {
    "the body": "read(ctx)",
    "an effect": "ctx.effect(lambda: read(ctx))",
    "a plugin below": "ctx.plugin(read)",
}


@pytest.mark.parametrize("first", ["missing", "faulty"])
@pytest.mark.parametrize("how", READS)
async def test_a_text_that_broke_a_plugin_at_the_start_brings_it_up(
    tmp_path: Path, first: str, how: str
) -> None:
    """What a body has read before it failed is followed, also by code that the body calls."""
    text = tmp_path / "n.txt"
    if first == "faulty":
        text.write_text("abc")
    body = f'{READS[how]}\n\ndef read(ctx):\n    int(ctx.watch_file("{text}"))\n'
    body += '    ctx.system_prompt.section("n", "a number", order=5)\n'
    body += 'read.inject = ["system_prompt"]\n'
    async with broken(tmp_path, a=writer(body)) as running:
        text.write_text("still none")
        (told,) = await running.follow()
        name = "read" if how == "a plugin below" else "a"
        assert (told.event, told.plugins) == ("failed", (name,))
        text.write_text("42")
        assert (await running.one()).scopes["global"] == "a number"
        text.write_text("43")
        assert (await running.one()).plugins == (name,)


async def test_a_helper_that_kept_a_plugin_from_being_imported_brings_it_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has been imported, and lacks what is wanted of it."""
    monkeypatch.syspath_prepend(tmp_path)
    section = 'from helping import TEXT\n    ctx.system_prompt.section("a", TEXT, order=5)'
    plugin = "from helping import TEXT\n" + writer(section)
    async with broken(tmp_path, helping="OTHER = 1\n", a=plugin) as running:
        running.save("helping.py", "TEXT = 'one'\n")
        told = await running.one()
        assert (told.plugins, told.scopes["global"]) == (("a",), "one")
        running.save("helping.py", "TEXT = 'two'\n")
        assert (await running.one()).scopes["global"] == "two"
    sys.modules.pop("helping", None)


async def test_only_what_has_come_up_is_told_of(tmp_path: Path) -> None:
    """Rows that do not work yet are tried again each time, and are no news."""
    async with broken(tmp_path, a="def (\n") as running:
        running.save("harness.yaml", f"{ONE_ROW}- name: ./b.py\n- name: ./c.py\n")
        running.save("b.py", writer(VARIABLE))
        (told,) = await running.follow()
        assert (told.event, told.plugins) == ("failed", ("./c.py",))
        running.save("c.py", writer(VARIABLE.replace("city", "town")))
        told = await running.one()
        assert told.plugins == ("b", "c")
        assert told.plan is not None
        assert str(told.plan) == "add ./b.py\nadd ./c.py"


async def test_a_row_means_what_its_module_says_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file that a row names takes its plugin from another module than before."""
    monkeypatch.syspath_prepend(tmp_path)
    old, new = SECTION.replace("in", "old"), SECTION.replace("in", "new")
    save(tmp_path / "first_home.py", writer(old.replace("{{city}}", "Rome")))
    save(tmp_path / "second_home.py", writer(new.replace("{{city}}", "Oslo")))
    manifest = WRITERS.replace("./b.py", "./b.py:apply")
    head = "from {} import apply\napply.inject = ['system_prompt']\n"
    code = {"a": writer(VARIABLE), "b": head.format("first_home")}
    async with project(tmp_path, manifest, **code) as running:
        running.save("b.py", head.format("second_home"))
        assert (await running.one()).scopes["global"] == "new Oslo"
        running.save("second_home.py", writer(new.replace("{{city}}", "Bern")))
        assert (await running.one()).scopes["global"] == "new Bern"
    for name in ("first_home", "second_home"):
        sys.modules.pop(name, None)


async def test_a_plugin_that_never_started_is_told_of_for_each_other_reason(
    tmp_path: Path,
) -> None:
    """What is wrong now is news, and what is as wrong as before is none."""
    async with broken(tmp_path, a="def (\n") as running:
        running.save("a.py", "\n\nclass (\n")
        (told,) = await running.follow()
        assert (told.event, told.plugins) == ("failed", ("./a.py",))
        assert "a.py:3" in told.troubles[0].message
        running.save("b.py", "x = 1\n")
        assert await running.follow() == []
        running.save("a.py", writer(VARIABLE))
        assert (await running.one()).plugins == ("a",)


@pytest.mark.parametrize("ticks", range(0, 40, 3))
async def test_who_is_cancelled_while_following_loses_no_save(tmp_path: Path, ticks: int) -> None:
    """Code and rows that belong together: the next one who follows brings what is not there yet."""
    async with project(tmp_path, rows("old", "a"), a=plugin("a", 1, "old")) as running:
        running.save("a.py", plugin("a", 2, "new"))
        running.save("harness.yaml", rows("new", "a"))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(running.living.follow, lambda _: None)
            for _ in range(ticks):
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
        await running.living.follow(lambda _: None)
        prompt = await running.session.root.system_prompt.assemble()
        assert render_prompt(prompt) == "a 2 new"
        assert running.living.reloader.stale == {}
