"""Presets: mounted once, joined by link, changed without disturbing those who have joined."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import harness_plugins.presets
import pytest
from harness_plugins.presets.api import PresetError, Presets, UnknownPresetError

from harness_core import Context, Fiber, scope_chain_of, scope_target
from harness_core.errors import ConfigError, InactiveFiberError, ManifestError
from harness_core.loader import Loader
from harness_core.prompt import SystemPrompt, render_prompt
from harness_core.testing import assert_no_residue
from tests.loader.harness import running

pytestmark = pytest.mark.asyncio

HEAD = """
- {name: system_prompt, config: {include_harness_identity: false}}
- name: agents
- name: presets
  config:
    presets:
"""

RULE = """
    import anyio

    inject = ["system_prompt"]

    async def apply(ctx, config):
        ctx.system_prompt.section(config["text"], config["text"], order=config.get("order", 10))
        journal = ctx.get("journal")
        if journal is not None:
            journal.append(config["text"])
            ctx.effect(lambda: lambda: end(journal, config["text"]))
            await anyio.sleep(0.01)
        if config.get("fails"):
            raise ZeroDivisionError(config["text"])

    async def end(journal, text):
        await anyio.sleep(0.01)
        journal.append("end of " + text)
"""

TWO = """
      coder:
        persona: You write code.
        plugins:
          - {name: ./rule.py, config: {text: Test it.}}
      writer: {file: ./writer.yaml}
"""

WRITER = """
persona: You write prose.
plugins:
  - {name: ./rule.py, config: {text: Read it aloud.}}
"""


@asynccontextmanager
async def composed(
    directory: Path, presets: str = TWO, writer: str = WRITER
) -> AsyncIterator[tuple[Context, Loader, list[str]]]:
    """Run two presets, one of them in a file, and keep a journal of what is mounted."""
    (directory / "writer.yaml").write_text(writer)
    journal: list[str] = []
    async with running(directory, rule=RULE, manifest=HEAD + presets) as (root, loader):
        root.provide("journal", journal)
        yield root, loader, journal


async def told(root: Context, scope: object | None) -> str:
    return render_prompt(await root.system_prompt.assemble(scope=scope))


def row(loader: Loader, one: str) -> Fiber:
    return next(row.fiber for row in loader.mounted.values() if row.entry.id == one)


async def test_agents_join_a_preset_that_is_mounted_once(tmp_path: Path) -> None:
    """The chain is agent, preset, global layer; it goes with the last one that leaves."""
    async with composed(tmp_path) as (root, _, journal):
        assert await told(root, None) == ""
        async with assert_no_residue(root):
            one = await root.agents.create("one", preset="coder")
            two = await root.agents.create("two", preset="coder", persona="You test.")
            assert journal == ["Test it."]
            assert one.preset == "coder"
            assert [str(key) for key in scope_chain_of(one)] == ["one", "preset coder"]
            assert await told(root, one) == "You write code.\n\nTest it."
            assert await told(root, two) == "You test.\n\nTest it."
            await one.dispose()
            assert journal == ["Test it."]
            assert await told(root, two) == "You test.\n\nTest it."
            await two.dispose()
            assert journal == ["Test it.", "end of Test it."]


async def test_two_that_join_at_once_mount_one_generation(tmp_path: Path) -> None:
    """Also when one of them is cancelled meanwhile, the one that began."""
    async with composed(tmp_path) as (root, _, journal), assert_no_residue(root):
        scope = anyio.CancelScope()

        async def cancelled() -> None:
            with scope:
                await root.agents.create("first", preset="coder")

        async with anyio.create_task_group() as group:
            group.start_soon(cancelled)
            for name in ("two", "three"):
                group.start_soon(lambda name=name: root.agents.create(name, preset="coder"))
            while not journal:
                await anyio.lowlevel.checkpoint()
            scope.cancel()
        assert journal == ["Test it."]
        assert sorted(root.agents) == ["three", "two"]
        assert [g.users for g in root.get("presets").generations.in_use] == [2]
        for name in list(root.agents):
            await root.agents[name].dispose()
        assert journal == ["Test it.", "end of Test it."]


async def test_the_last_one_that_gives_up_takes_the_generation_along(tmp_path: Path) -> None:
    """A mount that nobody waits for any more is undone, and waited for."""
    async with composed(tmp_path) as (root, _, journal), assert_no_residue(root):
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(lambda: root.agents.create("one", preset="coder"))
                while not journal:
                    await anyio.lowlevel.checkpoint()
                scope.cancel()
        assert list(root.agents) == []
        assert root.get("presets").generations.in_use == []


async def test_a_mount_that_fails_is_undone_and_tried_again(tmp_path: Path) -> None:
    """All who wait are told; the next one to join mounts it anew."""
    failing = """
      shaky:
        plugins:
          - {id: good, name: ./rule.py, config: {text: Good.}}
          - {id: bad, name: ./rule.py, config: {text: Bad., fails: true}}
    """
    async with composed(tmp_path, failing) as (root, loader, journal):
        errors: list[BaseException] = []

        async def make(name: str) -> None:
            try:
                await root.agents.create(name, preset="shaky")
            except ZeroDivisionError as error:
                errors.append(error)

        async with assert_no_residue(root):
            async with anyio.create_task_group() as group:
                group.start_soon(make, "one")
                group.start_soon(make, "two")
            assert len(errors) == 2
            assert list(root.agents) == []
            assert journal.count("Bad.") == 1
            assert "end of Good." in journal
        config = row(loader, "presets").config
        rows = config.presets["shaky"].plugins
        rows[1]["config"]["fails"] = False
        agent = await root.agents.create("three", preset="shaky")
        assert await told(root, agent) == "Good.\n\nBad."


async def test_a_file_that_has_changed_starts_a_new_generation(tmp_path: Path) -> None:
    """For later agents; those who have joined keep theirs, until the last of them leaves."""
    async with composed(tmp_path) as (root, _, journal), assert_no_residue(root):
        old = await root.agents.create("old", preset="writer")
        (tmp_path / "writer.yaml").write_text(WRITER.replace("aloud", "twice"))
        new = await root.agents.create("new", preset="writer")
        same = await root.agents.create("same", preset="writer")
        assert await told(root, old) == "You write prose.\n\nRead it aloud."
        assert await told(root, new) == "You write prose.\n\nRead it twice."
        assert scope_chain_of(new)[1] is scope_chain_of(same)[1]
        assert str(scope_chain_of(new)[1]) == "preset writer (2)"
        await old.switch_preset("writer")
        assert await told(root, old) == "You write prose.\n\nRead it twice."
        assert journal == ["Read it aloud.", "Read it twice.", "end of Read it aloud."]
        for agent in (old, new, same):
            await agent.dispose()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("persona: [", "writer.yaml:1"),
        ("- a", "writer.yaml holds no mapping"),
        ("persna: x", 'unknown key "persna", did you mean "persona"?'),
        ("persona: 5", "persona is a text, got 5"),
        ("plugins: 5", "plugins is a list of rows, got 5"),
    ],
)
async def test_a_faulty_file_is_an_error_and_changes_nothing(
    tmp_path: Path, text: str, said: str
) -> None:
    """Those who have joined go on; the next good save is taken."""
    async with composed(tmp_path) as (root, _, _j):
        old = await root.agents.create("old", preset="writer")
        (tmp_path / "writer.yaml").write_text(text)
        async with assert_no_residue(root):
            with pytest.raises(PresetError) as caught:
                await root.agents.create("new", preset="writer")
            assert 'preset "writer"' in str(caught.value)
            assert said in str(caught.value)
            with pytest.raises(PresetError):
                await old.switch_preset("writer")
        assert await told(root, old) == "You write prose.\n\nRead it aloud."
        (tmp_path / "writer.yaml").write_text("")
        new = await root.agents.create("new", preset="writer")
        assert await told(root, new) == ""


async def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    """Not there, or no UTF-8."""
    async with composed(tmp_path) as (root, _, _j):
        (tmp_path / "writer.yaml").unlink()
        with pytest.raises(PresetError, match=r"cannot read \./writer\.yaml: No such file"):
            await root.agents.create("a", preset="writer")
        (tmp_path / "writer.yaml").write_bytes(b"persona: \xff")
        with pytest.raises(PresetError, match=r"is not UTF-8 \(byte 9\)"):
            await root.agents.create("a", preset="writer")


async def test_a_row_that_is_none_is_an_error_at_its_place(tmp_path: Path) -> None:
    """In the preset's own file, also within a group."""
    async with composed(tmp_path) as (root, loader, _):
        (tmp_path / "writer.yaml").write_text("plugins:\n  - {nam: ./rule.py}\n")
        async with assert_no_residue(root):
            with pytest.raises(ManifestError, match=r"writer\.yaml:2:6"):
                await root.agents.create("a", preset="writer")
        (tmp_path / "writer.yaml").write_text(
            "plugins:\n  - group: true\n    config:\n      - {name: ./rul.py}\n"
        )
        async with assert_no_residue(root):
            with pytest.raises(ManifestError, match=r"writer\.yaml:4:16.*\./rule\.py"):
                await root.agents.create("a", preset="writer")
        assert not loader.refused


async def test_switching_is_one_step(tmp_path: Path) -> None:
    """The new preset has settled before; an assembly sees the one or the other."""
    async with composed(tmp_path) as (root, _, journal), assert_no_residue(root):
        agent = await root.agents.create("a", preset="coder")
        texts: set[str] = set()

        async def look() -> None:
            while True:
                texts.add(await told(root, agent))
                await anyio.lowlevel.checkpoint()

        async with anyio.create_task_group() as group:
            group.start_soon(look)
            await agent.switch_preset("writer")
            await agent.switch_preset(None)
            await agent.switch_preset("coder")
            await told(root, agent)
            group.cancel_scope.cancel()
        assert texts <= {
            "You write code.\n\nTest it.", "You write prose.\n\nRead it aloud.", "",
        }  # fmt: skip
        assert agent.preset == "coder"
        assert journal[:3] == ["Test it.", "Read it aloud.", "end of Test it."]
        await agent.dispose()


async def test_a_switch_that_fails_changes_nothing(tmp_path: Path) -> None:
    """An unknown preset, one that fails, a caller that is cancelled, an agent that goes."""
    more = (
        TWO
        + """
      shaky: {plugins: [{name: ./rule.py, config: {text: Bad., fails: true}}]}
    """
    )
    async with composed(tmp_path, more) as (root, _, journal):
        agent = await root.agents.create("a", preset="coder")
        async with assert_no_residue(root):
            with pytest.raises(UnknownPresetError, match='did you mean "writer"'):
                await agent.switch_preset("writr")
            with pytest.raises(ZeroDivisionError):
                await agent.switch_preset("shaky")
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as group:
                    group.start_soon(agent.switch_preset, "writer")
                    while "Read it aloud." not in journal:
                        await anyio.lowlevel.checkpoint()
                    scope.cancel()
        assert (agent.preset, await told(root, agent)) == (
            "coder", "You write code.\n\nTest it.",
        )  # fmt: skip
        await agent.dispose()
        with pytest.raises(Exception, match="disposed"):
            await agent.switch_preset("writer")
        assert root.get("presets").generations.in_use == []


async def test_switches_of_one_agent_wait_for_each_other(tmp_path: Path) -> None:
    """Whoever comes last has the last word, and nothing of the others is left."""
    async with composed(tmp_path) as (root, _, _j):
        agent = await root.agents.create("a")
        async with anyio.create_task_group() as group:
            for name in ("coder", "writer", "coder", "writer"):
                group.start_soon(agent.switch_preset, name)
        assert agent.preset == "writer"
        assert [(one.preset, one.users) for one in root.presets.generations.in_use] == [
            ("writer", 1)
        ]


async def test_a_switch_that_is_vetoed_changes_nothing(tmp_path: Path) -> None:
    """Whoever listens to changes of the prompt may refuse what it registers."""
    async with composed(tmp_path) as (root, _, _j):
        await root.agents.create("other", preset="coder")
        agent = await root.agents.create("a")

        def veto() -> None:
            raise ZeroDivisionError

        effect = root.on("system-prompt/change", veto)
        async with assert_no_residue(root):
            with pytest.raises(ZeroDivisionError):
                await agent.switch_preset("coder")
        effect()
        assert [one.users for one in root.presets.generations.in_use] == [1]
        assert (agent.preset, await told(root, agent)) == (None, "")
        await agent.switch_preset("coder")
        assert await told(root, agent) == "You write code.\n\nTest it."


async def test_a_sub_agent_is_a_child_of_its_parent_or_of_a_preset(tmp_path: Path) -> None:
    """Either way it goes with its parent."""
    async with composed(tmp_path) as (root, _, _j), assert_no_residue(root):
        top = await root.agents.create("top", preset="coder", persona="Top.")
        below = await top.create("below")
        beside = await top.create("beside", preset="coder")
        other = await top.create("other", preset="writer")
        assert [str(key) for key in scope_chain_of(below)] == ["below", "top", "preset coder"]
        assert [str(key) for key in scope_chain_of(beside)] == ["beside", "preset coder"]
        assert await told(root, below) == "Top.\n\nTest it."
        assert await told(root, beside) == "You write code.\n\nTest it."
        assert await told(root, other) == "You write prose.\n\nRead it aloud."
        assert (below.preset, beside.preset, other.parent) == (None, "coder", top)
        heard: list[str] = []
        top.ctx.on("ping", lambda: heard.append("top"))
        root.emit("ping", target=scope_target(None, other))
        root.emit("ping", target=scope_target(None, below))
        assert heard == ["top"]
        await top.switch_preset("writer")
        assert await told(root, below) == "Top.\n\nRead it aloud."
        await other.switch_preset(None)
        assert await told(root, other) == "Top.\n\nRead it aloud."
        await top.dispose()
        assert list(root.agents) == []


async def test_those_who_have_joined_keep_what_they_have_over_a_restart(tmp_path: Path) -> None:
    """Of the service, and of the prompt; a changed config counts for those who join later."""
    async with composed(tmp_path) as (root, loader, journal):
        agent = await root.agents.create("a", preset="coder")
        presets = row(loader, "presets")
        before = await told(root, agent)
        for one in ("presets", "system_prompt"):
            await row(loader, one).restart()
            assert await told(root, agent) == before
        lives = len(journal)
        await presets.update({"presets": {"coder": {"persona": "Another."}}})
        assert await told(root, agent) == before
        assert len(journal) == lives
        assert list(root.get("presets")) == ["coder"]
        new = await root.agents.create("new", preset="coder")
        assert await told(root, new) == "Another."
        await presets.restart()
        assert (await told(root, agent), await told(root, new)) == (before, "Another.")
        await agent.dispose()
        await presets.dispose()
        assert root.kernel.services.peek("presets", None) is not None
        await new.dispose()
        assert root.kernel.services.peek("presets", None) is None


async def test_an_assembly_that_is_under_way_outlives_a_restart(tmp_path: Path) -> None:
    """It ends as it began; so does one for an agent that goes meanwhile."""
    async with composed(tmp_path) as (root, loader, _):
        agent = await root.agents.create("a", preset="coder")
        texts: list[str] = []
        for end in (row(loader, "presets").restart, agent.dispose):
            inside, go_on = anyio.Event(), anyio.Event()

            async def wait(inside: anyio.Event = inside, go_on: anyio.Event = go_on) -> str:
                inside.set()
                await go_on.wait()
                return ""

            effect = root.system_prompt.section("slow", wait, order=50)

            async def assemble() -> None:
                texts.append(await told(root, agent))

            async with anyio.create_task_group() as group:
                group.start_soon(assemble)
                await inside.wait()
                await end()
                go_on.set()
            effect()
        assert texts == ["You write code.\n\nTest it."] * 2


async def test_presets_that_go_leave_nothing_of_those_that_nobody_uses(tmp_path: Path) -> None:
    """Not even their books."""
    async with composed(tmp_path) as (root, loader, _):
        await (await root.agents.create("a", preset="coder")).dispose()
        await row(loader, "presets").dispose()
        assert root.kernel.services.peek("presets", None) is None


async def test_presets_that_go_while_somebody_joins_say_so(tmp_path: Path) -> None:
    """Nobody waits for ever, and there is no agent without its preset."""
    async with composed(tmp_path) as (root, loader, journal):

        async def make() -> None:
            with pytest.raises(InactiveFiberError):
                await root.agents.create("a", preset="coder")

        async with anyio.create_task_group() as group:
            group.start_soon(make)
            while not journal:
                await anyio.lowlevel.checkpoint()
            await row(loader, "presets").dispose()
        assert list(root.get("agents")) == []


async def test_a_file_that_is_as_it_was_is_the_generation_that_was(tmp_path: Path) -> None:
    """As long as somebody uses it."""
    async with composed(tmp_path) as (root, _, journal):
        await root.agents.create("one", preset="writer")
        (tmp_path / "writer.yaml").write_text("persona: Another.")
        await root.agents.create("two", preset="writer")
        (tmp_path / "writer.yaml").write_text(WRITER)
        await root.agents.create("three", preset="writer")
        assert journal == ["Read it aloud."]
        assert [one.users for one in root.get("presets").generations.in_use] == [2, 1]


async def test_a_preset_that_is_gone_leaves_no_silent_hole(tmp_path: Path) -> None:
    """Assembling for an agent that has joined fails, until it leaves the preset."""
    async with composed(tmp_path) as (root, loader, _):
        agent = await root.agents.create("a", preset="coder")
        sub = await agent.create("sub")
        await row(loader, "presets").dispose()
        for one in (agent, sub):
            with pytest.raises(PresetError, match='agent "a" has joined the preset "coder"'):
                await told(root, one)
        await agent.switch_preset(None)
        assert await told(root, sub) == ""


async def test_one_whose_plugin_has_failed_since_is_followed_by_a_new_one(tmp_path: Path) -> None:
    """Later agents do not join what is broken."""
    code = """
    import anyio
    inject = ["system_prompt"]

    def apply(ctx):
        ctx.system_prompt.section("rule", "Rule.", order=1)
        ctx.start_soon(crash, ctx.get("crashes")[-1])

    async def crash(event):
        await event.wait()
        raise ZeroDivisionError
    """
    crashes = [anyio.Event()]
    manifest = HEAD + "      brittle: {plugins: [{name: ./brittle.py}]}\n"
    async with running(tmp_path, brittle=code, manifest=manifest) as (root, _):
        root.provide("crashes", crashes)
        old = await root.agents.create("old", preset="brittle")
        assert await told(root, old) == "Rule."
        crashes[0].set()
        while await told(root, old):
            await anyio.lowlevel.checkpoint()
        crashes.append(anyio.Event())
        new = await root.agents.create("new", preset="brittle")
        assert await told(root, new) == "Rule."
        assert await told(root, old) == ""
        broken, sound = root.get("presets").generations.in_use
        assert isinstance(broken.failure, ZeroDivisionError)
        assert sound.failure is None


CONFIGS: dict[str, tuple[Any, str]] = {
    "file and persona": ({"a": {"file": "x", "persona": "y"}}, "either a file, or persona"),
    "an unknown key": ({"a": {"persna": "y"}}, "did you mean 'persona'"),
}


@pytest.mark.parametrize("name", CONFIGS)
async def test_a_faulty_config_is_an_error(name: str) -> None:
    """At the path of the fault."""
    presets, said = CONFIGS[name]
    async with Context() as root:
        with pytest.raises(ConfigError) as caught:
            await root.plugin(Presets, {"presets": presets})
        assert said in str(caught.value)


async def test_plugins_need_a_loader() -> None:
    """Without one there is an error; a persona alone needs none."""
    async with Context() as root:
        await root.plugin(SystemPrompt, include_harness_identity=False)
        presets = {"a": {"persona": "A."}, "b": {"plugins": [{"name": "./rule.py"}]}, "c": None}
        await root.plugin(harness_plugins.presets, {"presets": presets})
        service = root.get("presets")
        assert repr(service) == "<Presets a, b, c>"
        assert (len(service), "b" in service) == (3, True)
        joined = await service.join("a")
        assert repr(joined.generation) == "<Generation 1 of preset a: 1 users>"
        assert await told(root, joined.key) == "A."
        async with assert_no_residue(root):
            with pytest.raises(PresetError, match="plugins need a loader"):
                await service.join("b")
        await joined.leave()
        assert await told(root, joined.key) == ""
        assert service.generations.in_use == []


async def test_whoever_joins_leaves_with_his_fiber() -> None:
    """A service acts for its caller."""
    async with Context() as root:
        await root.plugin(SystemPrompt, include_harness_identity=False)
        await root.plugin(harness_plugins.presets, {"presets": {"a": {"persona": "A."}}})

        async def joining(ctx: Context) -> None:
            await ctx.presets.join("a")

        joining.inject = ["presets"]  # type: ignore[attr-defined]
        async with assert_no_residue(root):
            fiber = await root.plugin(joining)
            assert root.presets.generations.in_use[0].users == 1
            await fiber.dispose()
