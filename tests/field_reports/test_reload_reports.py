"""Reports about files that are saved while their plugins run: stale, doubled, or lost for good."""

from __future__ import annotations

import os
import py_compile
from pathlib import Path

import anyio
import pytest

from harness_core import FiberState
from harness_core.prompt import ToolSchema

from .reports import Kind, Scenario
from .saving import DEADLINE, saving, section

pytestmark = pytest.mark.asyncio


faulty = Kind()


@faulty.report("koishijs/koishi#791")
async def _a_syntax_error_and_then_the_fix(directory: Path) -> None:
    """The next good save is live, after any fault, however often."""
    faults = (
        "def apply(ctx:",
        "import nothing_of_this_name",
        "raise ValueError",
        section("one", "1 / 0"),
        "apply = None",
    )
    async with saving(directory, one=section("one", "'v0'")) as s:
        await s.mount("one")
        for number, fault in enumerate(faults):
            await s.bad(one=fault)
            assert await s.prompt() == f"v{number}"
            await s.good(one=section("one", f"'v{number + 1}'"))
            assert await s.prompt() == f"v{number + 1}"


@faulty.report("Rapptz/discord.py#1658: files", "Cog-Creators/Red-DiscordBot#714: files")
async def _loaded_halfway(directory: Path) -> None:
    """A body that fails behind its registrations leaves none, is FAILED, and a save mends it."""
    half = section("one", "'half'") + "    raise LookupError('halfway')\n"
    async with saving(directory, one=half) as s:
        with pytest.raises(LookupError):
            await s.mount("one")
        (fiber,) = [one for one in s.root.fiber.children if one.name == "one"]
        assert fiber.state is FiberState.FAILED
        assert await s.prompt() == ""
        await s.good(one=section("one", "'whole'"))
        assert fiber.state is FiberState.ACTIVE
        assert await s.prompt() == "whole"
        await fiber.dispose()
        await s.mount("one")
        assert await s.prompt() == "whole"


@faulty.each()
async def test_a_bad_save_costs_nothing_and_a_good_one_mends_it(
    scenario: Scenario, tmp_path: Path
) -> None:
    """Whatever was wrong before."""
    await scenario(tmp_path)


fresh = Kind()


@fresh.report(
    "errbotio/errbot#1346",
    "python/cpython#120932",
    "python/cpython#75953",
    "whats2000/isaacsim-mcp-server#27",
)
async def _bytecode_of_the_version_before(directory: Path) -> None:
    """Edits of one size and one time stamp, beside bytecode that fits them: the new code runs."""
    leaf, beside = directory / "leaf.py", directory / "leaf.py.swp"
    moment = 1_700_000_000_000_000_000

    def edit(number: int) -> None:
        beside.write_text(f"VALUE = {number}\n")
        os.utime(beside, ns=(moment, moment))
        os.replace(beside, leaf)

    edit(9)
    py_compile.compile(str(leaf), doraise=True)
    edit(0)
    async with saving(directory, one=section("one", "str(VALUE)", "from leaf import VALUE")) as s:
        await s.mount("one")
        assert await s.prompt() == "0"
        for number in range(1, 6):
            edit(number)
            assert ((await s.next()).error, await s.prompt()) == (None, str(number))


@fresh.report("streamlit/streamlit#366", "promplate/pyth-on-line#251")
async def _whatever_way_it_was_imported(directory: Path) -> None:
    """Through a chain, inside a function, by name, from a package that passes it on."""
    files = {
        "a": section("chain", "b.c.VALUE", "import b"),
        "b": "import c\n",
        "c": "VALUE = 'c0'\n",
        "lazy": "def text():\n    from d import VALUE\n    return VALUE\n"
        + section("lazy", "text()"),
        "d": "VALUE = 'd0'\n",
        "named": section(
            "named", "import_module('e').VALUE", "from importlib import import_module"
        ),
        "e": "VALUE = 'e0'\n",
        "passed": section("passed", "VALUE", "from package import VALUE"),
        "package/__init__": "from .inner import VALUE as VALUE\n",
        "package/inner": "VALUE = 'f0'\n",
    }
    (directory / "package").mkdir()
    async with saving(directory, **files) as s:
        for name in ("a", "lazy", "named", "passed"):
            await s.mount(name)
        assert await s.prompt() == "c0\n\nd0\n\ne0\n\nf0"
        for file, letter, plugin in (
            ("c", "c", "root/a"),
            ("d", "d", "root/lazy"),
            ("e", "e", "root/named"),
            ("package/inner", "f", "root/passed"),
        ):
            report = await s.good(**{file: f"VALUE = '{letter}1'\n"})
            assert report.plugins == (plugin,)
        assert await s.prompt() == "c1\n\nd1\n\ne1\n\nf1"


@fresh.report("koishijs/koishi#1110")
async def _plugins_that_import_each_other(directory: Path) -> None:
    """Each is loaded once more, and nothing of it stands there twice."""
    one = section("one", "'one {}'", "import two")
    async with saving(directory, one=one.format(0), two=section("two", "'two'", "import one")) as s:
        for name in ("one", "two"):
            await s.mount(name)
        s.loaded.clear()
        await s.good(one=one.format(1))
        assert sorted(s.loaded) == ["one", "two"]
        assert await s.prompt() == "one 1\n\ntwo"
        assert s.told == []


@fresh.report("section 13: a save during a reload")
async def _a_save_during_a_reload(directory: Path) -> None:
    """It is not lost: the last save is what serves in the end."""
    slow = (
        "inject = ['system_prompt', 'gate']\nasync def apply(ctx):\n    await ctx.gate({0})\n"
        "    ctx.system_prompt.section('one', 'v{0}', order=1)\n"
    )
    at_the_gate, opened = anyio.Event(), anyio.Event()

    async def gate(version: int) -> None:
        if version == 1:
            at_the_gate.set()
            await opened.wait()

    async with saving(directory, one=slow.format(0)) as s:
        s.root.provide("gate", gate)
        await s.mount("one")
        s.project.write("one.py", slow.format(1))
        with anyio.fail_after(DEADLINE):
            await at_the_gate.wait()
        s.project.write("one.py", slow.format(2))
        opened.set()
        with anyio.fail_after(DEADLINE):
            while await s.prompt() != "v2":
                assert (await s.next()).error is None


@fresh.each()
async def test_after_a_save_the_new_code_runs(scenario: Scenario, tmp_path: Path) -> None:
    """All of it, once, and none of the old."""
    await scenario(tmp_path)


others = Kind()


@others.report("koishijs/koishi#1014: files", "section 13: equal orders after a reload")
async def _the_others(directory: Path) -> None:
    """They keep their very registrations and their places; so does the one that is reloaded."""
    names = ("one", "two", "three")
    files = {name: section(name, f"'{name} 0'") for name in names}
    async with saving(directory, **files) as s:
        fibers = {name: await s.mount(name) for name in names}
        for round_ in (1, 2):
            for name in names:
                before = {one: fiber.effects() for one, fiber in fibers.items() if one != name}
                await s.good(**{name: section(name, f"'{name} {round_}'")})
                assert {one: fibers[one].effects() for one in before} == before
                places = [line.split()[0] for line in (await s.prompt()).split("\n\n")]
                assert places == list(names)
        assert await s.prompt() == "one 2\n\ntwo 2\n\nthree 2"


@others.report("can1357/oh-my-pi#7260: files", "anomalyco/opencode#3179: files")
async def _what_the_new_version_no_longer_has(directory: Path) -> None:
    """Sections, contexts, variables, tools and listeners of the old version are gone."""
    full = (
        "inject = ['system_prompt', 'tool']\ndef apply(ctx):\n    sp = ctx.system_prompt\n"
        "    sp.section('s', 'x', order=1)\n    sp.context('c', 'x', order=1)\n"
        "    sp.variable('v', 'x')\n    sp.tools(lambda: [ctx.tool])\n"
        "    ctx.on('ping', lambda: ctx.emit('loaded', 'pong'))\n"
    )
    async with saving(directory, one=full, two=section("two", "'two'")) as s:
        s.root.provide("tool", ToolSchema("t"))
        await s.mount("two")
        before = await s.root.system_prompt.assemble()
        await s.mount("one")
        for number in range(3):
            await s.good(one=full + f"# {number}\n")
            s.loaded.clear()
            s.root.emit("ping")
            assert s.loaded == ["pong"]
        await s.good(one="def apply(ctx): ...\n")
        s.root.emit("ping")
        assert s.loaded == ["pong"]
        assert await s.root.system_prompt.assemble() == before


@others.each()
async def test_a_reload_touches_what_it_is_about_and_nothing_else(
    scenario: Scenario, tmp_path: Path
) -> None:
    """Nothing of the old is left, nothing of others is lost."""
    await scenario(tmp_path)
