"""From a batch of changed files to swapped plugins: all of it, or nothing but a stale mark."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from harness_core import Context, Fiber, FiberState
from harness_core.errors import PluginError
from harness_core.prompt import SystemPrompt, render_prompt
from harness_core.reload import Batch, Reloaded, Reloader, StagingError

from .project import Project, open_project, world

pytestmark = pytest.mark.asyncio

DEADLINE = 20.0


class Tree:
    """A live tree of plugins from real files."""

    def __init__(self, root: Context, project: Project) -> None:
        self.root = root
        self.project = project
        self.reloader = Reloader(root, [project.root], assemble=root.system_prompt.assemble)
        self.graph = self.reloader.graph

    async def mount(self, module: str, attribute: str = "", **config: Any) -> Fiber:
        found = self.project.load(module)
        return await self.root.plugin(getattr(found, attribute) if attribute else found, **config)

    async def change(self, **files: str | None) -> tuple[Reloaded, ...]:
        """Write or delete (None) modules, and reload."""
        paths: set[Path] = set()
        for name, text in files.items():
            file = f"{name}.py"
            path = self.project.path(file)
            paths.add(path)
            if text is None:
                path.unlink()
            else:
                self.project.write(file, text)
        return await self.reload(*paths)

    async def reload(self, *paths: Path) -> tuple[Reloaded, ...]:
        with anyio.fail_after(DEADLINE):
            return await self.reloader.reload(Batch(changed=frozenset(paths)))

    async def prompt(self) -> str:
        with anyio.fail_after(DEADLINE):
            assembly = await self.root.system_prompt.assemble()
        return render_prompt(assembly)

    def good(self, reports: tuple[Reloaded, ...]) -> Reloaded:
        assert len(reports) == 1, reports
        assert reports[0].error is None, reports
        assert self.reloader.stale == {}
        return reports[0]


@asynccontextmanager
async def open_tree(tmp_path: Path) -> AsyncIterator[Tree]:
    with open_project(tmp_path, observed=False) as project:
        async with Context() as root:
            await root.plugin(SystemPrompt, include_harness_identity=False)
            yield Tree(root, project)


async def test_a_changed_plugin_runs_its_new_version_in_its_old_place(tmp_path: Path) -> None:
    async with open_tree(tmp_path) as tree:
        for name in ("one", "two", "three"):
            tree.project.write(f"{name}.py", section(name, "old"))
            await tree.mount(name)
        report = tree.good(await tree.change(two=section("two", "new")))
        assert await tree.prompt() == "one old\n\ntwo new\n\nthree old"
        assert report.plugins == ("root/two",)
        assert report.modules == ("two",)
        assert report.seconds > 0
        assert report.diff is not None
        assert [str(change) for change in report.diff.changes] == [
            'section "two" changed (text) by plugin "two"'
        ]


def section(name: str, version: str, head: str = "") -> str:
    return (
        f"{head}\ninject = ['system_prompt']\ndef apply(ctx):\n"
        f"    ctx.system_prompt.section('{name}', '{name} {version}', order=10)\n"
    )


async def test_others_keep_their_very_fibers_and_registrations(tmp_path: Path) -> None:
    async with open_tree(tmp_path) as tree:
        for name in ("one", "two"):
            tree.project.write(f"{name}.py", section(name, "old"))
        one, two = await tree.mount("one"), await tree.mount("two")
        effects, module = two.effects(), sys.modules["two"]
        tree.good(await tree.change(one=section("one", "new")))
        assert two.effects() == effects
        assert sys.modules["two"] is module
        assert one.plugin is sys.modules["one"]
        assert one.state is FiberState.ACTIVE


@pytest.mark.parametrize("attribute", ["run", "Holder.run", "made", "bound", "part", "unnamed"])
async def test_every_way_to_hold_a_plugin_is_found_again(tmp_path: Path, attribute: str) -> None:
    source = """\
        import functools
        def run(ctx, config): ctx.provide("answer", VERSION)
        class Holder:
            @staticmethod
            def run(ctx, config): ctx.provide("answer", VERSION)
            def apply(self, ctx): ctx.provide("answer", VERSION)
        made = Holder()
        bound = made.apply
        part = functools.partial(lambda version, ctx: ctx.provide("answer", version), VERSION)
        unnamed = lambda ctx: ctx.provide("answer", VERSION)
    """
    async with open_tree(tmp_path) as tree:
        tree.project.write("plugin.py", f"VERSION = 1\n{_dedent(source)}")
        tree.project.load("plugin")
        found: Any = sys.modules["plugin"]
        for step in attribute.split("."):
            found = getattr(found, step)
        await tree.root.plugin(found)
        assert tree.root.answer == 1
        tree.good(await tree.change(plugin=f"VERSION = 2\n{_dedent(source)}"))
        assert tree.root.answer == 2


def _dedent(text: str) -> str:
    from textwrap import dedent

    return dedent(text)


@pytest.mark.parametrize(
    ("bad", "line"),
    [
        ("def apply(ctx:\n", 1),
        ("import nothing_of_this_name\ndef apply(ctx): ...\n", 1),
        ("VALUE = 1\n", None),
    ],
)
async def test_a_bad_save_costs_nothing_and_the_next_good_one_recovers(
    tmp_path: Path, bad: str, line: int | None
) -> None:
    async with open_tree(tmp_path) as tree:
        path = tree.project.write("one.py", section("one", "old"))
        fiber = await tree.mount("one")
        effects, before = fiber.effects(), world()
        (report,) = await tree.change(one=bad)
        assert report.error is not None
        assert tree.reloader.stale == {fiber: report.error}
        if line is not None:
            assert isinstance(report.error, StagingError)
            assert (report.error.file, report.error.line) == (str(path), line)
        assert fiber.effects() == effects
        assert world() == before
        assert await tree.prompt() == "one old"
        tree.good(await tree.change(one=section("one", "new")))
        assert await tree.prompt() == "one new"


async def test_a_body_that_raises_brings_the_old_version_back(tmp_path: Path) -> None:
    async with open_tree(tmp_path) as tree:
        tree.project.write("one.py", section("one", "old"))
        fiber = await tree.mount("one")
        before = world()
        (report,) = await tree.change(one="def apply(ctx): 1 / 0")
        assert isinstance(report.error, ZeroDivisionError)
        assert list(tree.reloader.stale) == [fiber]
        assert fiber.state is FiberState.ACTIVE
        assert world() == before
        assert await tree.prompt() == "one old"
        tree.good(await tree.change(one=section("one", "new")))
        assert await tree.prompt() == "one new"


async def test_a_config_that_no_longer_fits_disturbs_nobody(tmp_path: Path) -> None:
    source = "import attrs\n@attrs.define\nclass Config:\n    {field}: str = ''\n"
    body = "JOURNAL = []\ndef apply(ctx, config): JOURNAL.append(1)\n"
    async with open_tree(tmp_path) as tree:
        tree.project.write("one.py", source.format(field="name") + body)
        await tree.mount("one", name="x")
        journal = sys.modules["one"].JOURNAL
        (report,) = await tree.change(one=source.format(field="other") + body)
        assert "name" in str(report.error)
        assert journal == [1]


async def test_annotations_of_a_new_config_are_read_in_the_new_module(tmp_path: Path) -> None:
    source = """\
        from __future__ import annotations
        import attrs
        @attrs.define
        class Inner:
            value: int = 0
        @attrs.define
        class Config:
            inner: Inner
        SEEN = []
        def apply(ctx, config):
            assert type(config.inner) is Inner
    """
    async with open_tree(tmp_path) as tree:
        tree.project.write("one.py", source)
        await tree.mount("one", inner={"value": 1})
        tree.good(await tree.change(one=source + "\n"))


async def test_a_plugin_that_never_loaded_is_repaired_by_a_save(tmp_path: Path) -> None:
    async with open_tree(tmp_path) as tree:
        tree.project.write("one.py", "def apply(ctx): 1 / 0")
        fiber = tree.root.plugin(tree.project.load("one"))
        with pytest.raises(ZeroDivisionError):
            await fiber
        tree.good(await tree.change(one=section("one", "new")))
        assert fiber.state is FiberState.ACTIVE
        assert await tree.prompt() == "one new"


async def test_an_import_inside_a_body_gives_what_belongs_to_its_version(tmp_path: Path) -> None:
    """The old body runs again after the new one failed, and must not see the new helper."""
    body = """\
        import helper
        JOURNAL = helper.JOURNAL
        def apply(ctx):
            from helper import VERSION
            import lazy
            JOURNAL.append((VERSION, lazy.VERSION))
            yield lambda: JOURNAL.append(__import__("helper").VERSION)
            {end}
    """
    journal: list[object] = []
    helper = "import builtins\nJOURNAL = builtins.reload_journal\nVERSION = {}\n"
    async with open_tree(tmp_path) as tree:
        import builtins

        builtins.reload_journal = journal  # type: ignore[attr-defined]
        try:
            tree.project.write("helper.py", helper.format(1))
            tree.project.write("lazy.py", "from helper import VERSION")
            tree.project.write("one.py", body.format(end=""))
            await tree.mount("one")
            (report,) = await tree.change(
                helper=helper.format(2), one=body.format(end="raise ValueError")
            )
            assert isinstance(report.error, ValueError)
            assert journal == [(1, 1), 1, (2, 2), 2, (1, 1)]
            assert sys.modules["lazy"].VERSION == 1
            journal.clear()
            tree.good(await tree.change(one=body.format(end="")))
            assert journal == [1, (2, 2)]
        finally:
            del builtins.reload_journal  # type: ignore[attr-defined]


async def test_a_fault_in_one_plugin_keeps_no_other_from_its_new_version(tmp_path: Path) -> None:
    async with open_tree(tmp_path) as tree:
        fibers: dict[str, Fiber] = {}
        for name in ("one", "two", "three", "four"):
            tree.project.write(f"{name}.py", section(name, "old"))
            fibers[name] = await tree.mount(name)
        reports = await tree.change(
            one=section("one", "new"),
            two="def apply(ctx:",
            three="def apply(ctx): 1 / 0",
            four=section("four", "new"),
        )
        assert [type(report.error).__name__ for report in reports] == [
            "StagingError",
            "ZeroDivisionError",
            "NoneType",
        ]
        assert reports[-1].plugins == ("root/one", "root/four")
        assert await tree.prompt() == "one new\n\ntwo old\n\nthree old\n\nfour new"
        assert set(tree.reloader.stale) == {fibers["two"], fibers["three"]}
        tree.good(await tree.change(two=section("two", "new"), three=section("three", "new")))
        assert await tree.prompt() == "one new\n\ntwo new\n\nthree new\n\nfour new"


async def test_saves_that_only_work_together_work_when_the_last_one_comes(tmp_path: Path) -> None:
    provider = "def apply(ctx): ctx.provide('store', {{'{}': 1}})"
    consumer = "inject = ['store']\nSEEN = []\ndef apply(ctx): SEEN.append(ctx.store['{}'])"
    async with open_tree(tmp_path) as tree:
        tree.project.write("provider.py", provider.format("old"))
        tree.project.write("consumer.py", consumer.format("old"))
        await tree.mount("provider")
        fiber = await tree.mount("consumer")
        (report,) = await tree.change(consumer=consumer.format("new"))
        assert isinstance(report.error, KeyError)
        assert list(tree.reloader.stale) == [fiber]
        tree.good(await tree.change(provider=provider.format("new")))
        assert sys.modules["consumer"].SEEN == [1]


async def test_a_stale_plugin_is_left_alone_by_saves_that_do_not_concern_it(
    tmp_path: Path,
) -> None:
    async with open_tree(tmp_path) as tree:
        tree.project.write("one.py", section("one", "old", "LIVES = []") + "    LIVES.append(1)\n")
        await tree.mount("one")
        lives = sys.modules["one"].LIVES
        await tree.change(one="def apply(ctx): 1 / 0")
        count = len(lives)
        tree.project.write("unused.py", "")
        assert await tree.reload(tree.project.path("unused.py")) == ()
        assert len(lives) == count


async def test_a_missing_module_that_appears_repairs_the_plugin(tmp_path: Path) -> None:
    async with open_tree(tmp_path) as tree:
        tree.project.write("one.py", section("one", "old"))
        await tree.mount("one")
        (report,) = await tree.change(one=section("one", "new", "import extra"))
        assert isinstance(report.error, StagingError)
        tree.good(await tree.change(extra="VALUE = 1"))
        assert await tree.prompt() == "one new"


async def test_a_deleted_plugin_serves_its_old_version_and_says_so(tmp_path: Path) -> None:
    async with open_tree(tmp_path) as tree:
        tree.project.write("one.py", section("one", "old"))
        fiber = await tree.mount("one")
        (report,) = await tree.change(one=None)
        assert "module one is gone" in str(report.error)
        assert list(tree.reloader.stale) == [fiber]
        assert await tree.prompt() == "one old"
        tree.good(await tree.change(one=section("one", "new")))
        assert await tree.prompt() == "one new"
        await tree.change(one=None)
        await fiber.dispose()
        assert await tree.prompt() == ""
        await tree.reload()
        assert tree.reloader.stale == {}


async def test_a_plugin_that_moves_into_a_package_is_found(tmp_path: Path) -> None:
    async with open_tree(tmp_path) as tree:
        tree.project.write("one.py", section("one", "old"))
        await tree.mount("one")
        tree.good(
            await tree.change(
                **{
                    "one": None,
                    "one/__init__": "from .body import apply, inject",
                    "one/body": section("one", "new"),
                }
            )
        )
        assert await tree.prompt() == "one new"


async def test_a_cycle_of_two_plugins_is_reloaded_once_each(tmp_path: Path) -> None:
    async with open_tree(tmp_path) as tree:
        for name, other in (("one", "two"), ("two", "one")):
            tree.project.write(f"{name}.py", section(name, "old", f"import {other}"))
        for name in ("one", "two"):
            await tree.mount(name)
        report = tree.good(await tree.change(one=section("one", "new", "import two")))
        assert report.plugins == ("root/one", "root/two")
        assert report.modules == ("one", "two")
        assert await tree.prompt() == "one new\n\ntwo old"


async def test_a_plugin_mounted_by_another_is_reloaded_by_that_one(tmp_path: Path) -> None:
    async with open_tree(tmp_path) as tree:
        tree.project.write("child.py", section("child", "old"))
        tree.project.write("parent.py", "import child\ndef apply(ctx): ctx.plugin(child)")
        await tree.mount("parent")
        report = tree.good(await tree.change(child=section("child", "new")))
        assert report.plugins == ("root/parent",)
        assert await tree.prompt() == "child new"


async def test_a_text_file_that_a_plugin_watches_restarts_just_it(tmp_path: Path) -> None:
    body = """\
        inject = ["system_prompt"]
        def apply(ctx):
            ctx.system_prompt.section("one", ctx.watch_file(__file__ + ".md"), order=1)
    """
    async with open_tree(tmp_path) as tree:
        tree.project.write("one.py", body)
        tree.project.write("two.py", section("two", "old"))
        text = tree.project.write("one.py.md", "old text")
        await tree.mount("one")
        two = await tree.mount("two")
        effects = two.effects()
        text.write_text("new text")
        report = tree.good(await tree.reload(text))
        assert report.plugins == ("root/one",)
        assert report.modules == ()
        assert await tree.prompt() == "new text\n\ntwo old"
        assert two.effects() == effects
        text.unlink()
        (failure,) = await tree.reload(text)
        assert isinstance(failure.error, FileNotFoundError)
        assert await tree.prompt() == "new text\n\ntwo old"


async def test_a_bad_save_of_a_watched_text_costs_nothing(tmp_path: Path) -> None:
    """What is put back is put back with the text that it has read before."""
    body = """\
        import json
        inject = ["system_prompt"]
        def apply(ctx):
            rules = json.loads(ctx.watch_file(__file__ + ".json"))
            ctx.system_prompt.section("one", rules["text"], order=1)
    """
    async with open_tree(tmp_path) as tree:
        tree.project.write("one.py", body)
        text = tree.project.write("one.py.json", '{"text": "old"}')
        fiber = await tree.mount("one")
        for bad in ("{", "{}", '{"text": 5}'):
            text.write_text(bad)
            (failure,) = await tree.reload(text)
            assert failure.error is not None
            assert await tree.prompt() == "old"
            assert list(tree.reloader.stale) == [fiber]
        text.write_text('{"text": "new"}')
        tree.good(await tree.reload(text))
        assert await tree.prompt() == "new"
        await fiber.dispose()
        assert tree.root.kernel.texts == {}


async def test_a_circle_of_links_in_place_of_a_watched_text_keeps_what_runs(
    tmp_path: Path,
) -> None:
    body = """\
        inject = ["system_prompt"]
        def apply(ctx):
            ctx.system_prompt.section("one", ctx.watch_file(__file__ + ".md"), order=1)
    """
    async with open_tree(tmp_path) as tree:
        tree.project.write("one.py", body)
        text = tree.project.write("one.py.md", "old text")
        await tree.mount("one")
        text.unlink()
        text.symlink_to(text.name)
        (failure,) = await tree.reload(text)
        assert isinstance(failure.error, OSError)
        assert await tree.prompt() == "old text"
        text.unlink()
        text.write_text("new text")
        tree.good(await tree.reload(text))
        assert await tree.prompt() == "new text"


async def test_a_disposed_plugin_is_new_when_it_is_mounted_again(tmp_path: Path) -> None:
    async with open_tree(tmp_path) as tree:
        tree.project.write("low.py", "TEXT = 'old'")
        tree.project.write("one.py", "import low\ndef apply(ctx): ctx.provide('text', low.TEXT)")
        fiber = await tree.mount("one")
        await fiber.dispose()
        assert await tree.change(low="TEXT = 'middle'") == ()
        await tree.mount("one")
        assert tree.root.text == "middle"
        tree.good(await tree.change(low="TEXT = 'new'"))
        assert tree.root.text == "new"


async def test_a_module_that_the_loader_found_no_plugin_in_is_new_at_the_next_try(
    tmp_path: Path,
) -> None:
    from harness_core.loader.resolve import Resolver

    async with open_tree(tmp_path) as tree:
        tree.project.write("one.py", "VALUE = 1")
        resolver = Resolver(tmp_path)
        with pytest.raises(PluginError):
            resolver.resolve("one")
        assert await tree.change(one="def apply(ctx): ...") == ()
        assert resolver.resolve("one").plugin is sys.modules["one"]


async def test_a_module_of_the_application_is_never_taken_away(tmp_path: Path) -> None:
    async with open_tree(tmp_path) as tree:
        tree.project.write("one.py", section("one", "old"))
        tree.project.write("setup_app.py", "import one")
        module = tree.project.load("setup_app")
        await tree.mount("one")
        tree.good(await tree.change(one=section("one", "new"), setup_app="import one, sys"))
        assert sys.modules["setup_app"] is module


async def test_an_import_that_comes_back_after_an_edit_gives_the_edited_module(
    tmp_path: Path,
) -> None:
    async with open_tree(tmp_path) as tree:
        tree.project.write("low.py", "TEXT = 'old'")
        with_low = "import low\ndef apply(ctx): ctx.provide('text', low.TEXT)"
        tree.project.write("one.py", with_low)
        await tree.mount("one")
        tree.good(await tree.change(one="def apply(ctx): ..."))
        assert await tree.change(low="TEXT = 'new'") == ()
        tree.good(await tree.change(one=with_low))
        assert tree.root.text == "new"


async def test_a_plugin_made_by_a_function_says_that_it_cannot_be_found(tmp_path: Path) -> None:
    async with open_tree(tmp_path) as tree:
        source = "def make():\n    def body(ctx): ...\n    return body\n"
        tree.project.write("one.py", source)
        await tree.root.plugin(tree.project.load("one").make())
        (report,) = await tree.change(one=source + "\n")
        assert "has no name there" in str(report.error)


async def test_a_renamed_plugin_function_is_suggested(tmp_path: Path) -> None:
    async with open_tree(tmp_path) as tree:
        tree.project.write("one.py", "def run_it(ctx): ...\n")
        await tree.mount("one", "run_it")
        (report,) = await tree.change(one="def run_its(ctx): ...\n")
        assert 'no longer has the plugin "run_it"; did you rename it to "run_its"?' in str(
            report.error
        )


async def test_reloads_never_overlap(tmp_path: Path) -> None:
    body = """\
        import anyio
        async def apply(ctx):
            ctx.root.note("begin")
            await anyio.sleep(0)
            await anyio.sleep(0)
            ctx.root.note("end")
    """
    async with open_tree(tmp_path) as tree:
        journal: list[str] = []
        tree.root.accessor("note", lambda _: journal.append)
        for name in ("one", "two"):
            tree.project.write(f"{name}.py", body)
            await tree.mount(name)
        journal.clear()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: tree.change(one=body + "\n"))
            tasks.start_soon(lambda: tree.change(two=body + "\n"))
        assert journal == ["begin", "end"] * 2


async def test_cancelling_a_reload_leaves_no_half_of_it(tmp_path: Path) -> None:
    body = """\
        VERSION = {}
        async def apply(ctx):
            await ctx.root.door()
            ctx.provide("answer", VERSION)
    """
    async with open_tree(tmp_path) as tree:
        opened, waiting = anyio.Event(), anyio.Event()

        async def door() -> None:
            waiting.set()
            await opened.wait()

        tree.root.accessor("door", lambda _: door)
        opened.set()
        tree.project.write("one.py", body.format(1))
        await tree.mount("one")
        opened, waiting = anyio.Event(), anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: tree.change(one=body.format(2)))
            with anyio.fail_after(DEADLINE):
                await waiting.wait()
            tasks.cancel_scope.cancel()
        opened.set()
        assert await tree.reload() == ()
        assert tree.root.answer == sys.modules["one"].VERSION == 2
        assert tree.reloader.stale == {}


async def test_a_reload_that_changes_nothing_leaves_the_prompt_as_it_was(tmp_path: Path) -> None:
    async with open_tree(tmp_path) as tree:
        for name in ("one", "two", "three"):
            tree.project.write(f"{name}.py", section(name, "same"))
            await tree.mount(name)
        before = await tree.prompt()
        report = tree.good(await tree.change(two=section("two", "same")))
        assert await tree.prompt() == before
        assert report.diff is not None
        assert not report.diff


async def test_the_old_version_can_be_collected_after_a_reload(tmp_path: Path) -> None:
    async with open_tree(tmp_path) as tree:
        source = section("one", "old", "class Marker: ...")
        tree.project.write("one.py", source)
        await tree.mount("one")
        markers = [weakref.ref(sys.modules["one"].Marker)]
        for bad in ("def apply(ctx:", source + "\n1 / 0", source):
            await tree.change(one=bad)
            markers.append(weakref.ref(sys.modules["one"].Marker))
        gc.collect()
        assert [marker() is None for marker in markers] == [True, True, True, False]


async def test_real_saves_are_reloaded_and_none_is_lost(tmp_path: Path) -> None:
    async with open_tree(tmp_path) as tree:
        tree.project.write("one.py", section("one", "v0"))
        await tree.mount("one")
        send, receive = anyio.create_memory_object_stream[Reloaded](100)
        started = anyio.Event()
        async with send, receive, anyio.create_task_group() as tasks:

            async def run() -> None:
                await tree.reloader.run(send.send_nowait, quiet=0.01, started=started)

            tasks.start_soon(run)
            with anyio.fail_after(DEADLINE):
                await started.wait()
                for number in range(1, 11):
                    write = tree.project.write_atomically if number % 2 else tree.project.write
                    write("one.py", section("one", f"v{number % 10}"))
                    while f"v{number % 10}" not in await tree.prompt():
                        report = await receive.receive()
                        assert report.error is None, report
                tree.project.write("one.py", "def apply(ctx:")
                assert (await receive.receive()).error is not None
                tree.project.write("one.py", section("one", "fixed"))
                report = await receive.receive()
                assert report.error is None, report
            assert await tree.prompt() == "one fixed"
            tasks.cancel_scope.cancel()


async def test_a_body_that_was_given_to_inject_is_followed(tmp_path: Path) -> None:
    async with open_tree(tmp_path) as tree:
        text = """
        def body(ctx):
            ctx.system_prompt.section("body", "body {}", order=1)

        def bare():
            journal.append("bare {}")

        journal = []
        """
        tree.project.write("bodies.py", text.format(1, 1))
        module = tree.project.load("bodies")
        fiber = await tree.root.inject(["system_prompt"], module.body)
        bare = await tree.root.inject([], module.bare)
        assert fiber.name == "body"
        report = tree.good(await tree.change(bodies=text.format(2, 2)))
        assert sorted(report.plugins) == ["root/bare", "root/body"]
        assert await tree.prompt() == "body 2"
        assert sys.modules["bodies"].journal == ["bare 2"]
        assert tree.root.fiber.children[-2:] == (fiber, bare)


async def test_nothing_of_the_old_version_runs_beside_anything_of_the_new(tmp_path: Path) -> None:
    """Its tasks, its teardown however slow, and its users end before the new body begins."""
    async with open_tree(tmp_path) as tree:
        text = """
        import anyio
        inject = ["journal"]

        async def apply(ctx):
            say = ctx.journal.append
            say("begin {0}")

            async def task():
                try:
                    await anyio.sleep_forever()
                finally:
                    with anyio.CancelScope(shield=True):
                        await anyio.sleep(0.01)
                    say("end of task {0}")

            async def down():
                await anyio.sleep(0.01)
                say("end {0}")

            ctx.effect(lambda: down)
            ctx.start_soon(task)
            ctx.provide("slow", "{0}")
        """
        user = """
        import anyio
        inject = ["journal", "slow"]

        async def apply(ctx):
            say, slow = ctx.journal.append, ctx.slow
            say(f"user of {slow}")

            async def down():
                await anyio.sleep(0.01)
                say(f"end of user of {slow}")

            return down
        """
        journal: list[str] = []
        tree.root.provide("journal", journal)
        tree.project.write("slow.py", text.format(1))
        tree.project.write("user.py", user)
        await tree.mount("slow")
        await tree.mount("user")
        journal.clear()
        tree.good(await tree.change(slow=text.format(2)))
        assert journal == [
            "end of user of 1",
            "end of task 1",
            "end 1",
            "begin 2",
            "user of 2",
        ]


async def test_an_assembly_that_has_begun_ends_on_what_it_began_with(tmp_path: Path) -> None:
    """It neither sees the new version nor holds the reload up; the next one sees the new one."""
    async with open_tree(tmp_path) as tree:
        text = """
        inject = ["system_prompt", "pause"]

        def apply(ctx):
            pause = ctx.pause

            async def slow():
                await pause()
                return "slow {0}"

            ctx.system_prompt.section("slow", slow, order=1)
            ctx.system_prompt.section("quick", lambda: "quick {0}", order=2)
        """
        reached, proceed = anyio.Event(), anyio.Event()

        async def pause() -> None:
            reached.set()
            await proceed.wait()

        await tree.reloader.dispose()
        tree.reloader = Reloader(tree.root, [tree.project.root])  # assembles nothing itself
        tree.root.provide("pause", pause)
        tree.project.write("slow.py", text.format(1))
        await tree.mount("slow")
        texts: list[str] = []

        async def assemble() -> None:
            texts.append(await tree.prompt())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(assemble)
            await reached.wait()
            tree.good(await tree.change(slow=text.format(2)))
            assert texts == []
            proceed.set()
        assert texts == ["slow 1\n\nquick 1"]
        assert await tree.prompt() == "slow 2\n\nquick 2"


@pytest.mark.parametrize("fault", ["a config that is refused", "a plugin that is gone"])
async def test_who_will_not_do_is_known_and_the_others_change_at_once(
    tmp_path: Path, fault: str
) -> None:
    """No assembly sees one of the others in its new version and another in its old."""
    plugin = """\
import attrs
inject = ["system_prompt"]

@attrs.frozen
class Config:
    {key}: int = 0

def {body}(ctx, config):
    ctx.system_prompt.section("{name}", "{name} {version}", order=5)
"""

    def text(name: str, version: int, key: str = "at", body: str = "apply") -> str:
        return plugin.format(name=name, version=version, key=key, body=body)

    async with open_tree(tmp_path) as tree:
        names = ("a", "b", "c")
        files = [tree.project.write(f"farm/{name}.py", text(name, 1)) for name in names]
        tree.project.write("farm/__init__.py", "")
        for name in names:
            await tree.mount(f"farm.{name}", at=1)
        seen: list[str] = []

        async def look() -> None:
            seen.append(await tree.prompt())

        other = {"key": "other"} if fault == "a config that is refused" else {"body": "other"}
        tree.project.write("farm/a.py", text("a", 2, **other))
        for name in names[1:]:
            tree.project.write(f"farm/{name}.py", text(name, 2))
        async with anyio.create_task_group() as tasks:
            effect = tree.root.on("fiber/state", lambda *_: tasks.start_soon(look), unfiltered=True)
            failed, good = await tree.reload(*files)
            effect()
        assert failed.plugins == ("root/a",)
        assert good.plugins == ("root/b", "root/c")
        assert set(seen) == {"a 1\n\nb 2\n\nc 2"}
