"""Reconciling: the file as it is now in the place of what runs, all of it or nothing."""

from __future__ import annotations

import contextlib
import textwrap
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from harness_core import Context, Fiber, FiberState
from harness_core.errors import InactiveFiberError, ManifestError
from harness_core.loader import Loader, ReconcileError
from harness_core.prompt import render_prompt
from harness_core.testing import assert_no_residue

from .harness import running, states

pytestmark = pytest.mark.asyncio

PLUGIN = """
    journal = []

    def say(ctx, config):
        name = config.get("name", "x")
        journal.append(("up", name, config.get("text")))
        ctx.effect(lambda: lambda: journal.append(("down", name, config.get("text"))))
        if config.get("text") == "boom":
            raise ValueError("no luck")
        ctx.system_prompt.section(name, config.get("text", name), order=5)

    say.inject = ["system_prompt"]

    def flexible(ctx, config):
        seen = ctx.carry("seen", [])
        seen.append(("up", config))
        ctx.provide(config.get("key", "flexible"), seen)

        def accept(new):
            if new.get("bad"):
                raise ValueError("not that")
            seen.append(("update", new))

        ctx.on_update(accept)

    def give(ctx, config):
        if config.get("value") == "boom":
            raise ValueError("no luck")
        ctx.provide("thing", config.get("value"))

    def take(ctx, config):
        journal.append(("took", ctx.thing))
        ctx.system_prompt.section("thing", str(ctx.thing), order=5)

    take.inject = ["system_prompt", "thing"]

    def quitter(ctx):
        ctx.provide("quitter", ctx.fiber)
"""


def rewrite(directory: Path, manifest: str) -> None:
    """Write another harness.yaml."""
    (directory / "harness.yaml").write_text(textwrap.dedent(manifest))


def fibers(loader: Loader) -> dict[str, Fiber]:
    """Return the fibers of the manifest's rows, by id."""
    return dict(loader.running)


async def prompt(root: Context) -> str:
    """Return the assembled system prompt."""
    return render_prompt(await root.system_prompt.assemble())


def say(name: str, text: str | None = None, **more: Any) -> str:
    """Return a row."""
    config = f"{{name: {name}, text: {text or name}}}"
    extra = "".join(f", {key}: {value}" for key, value in more.items())
    return f"- {{id: {name}, name: './p.py:say', config: {config}{extra}}}\n"


async def test_unchanged_rows_keep_their_fibers_and_the_prompt_is_the_same(tmp_path: Path) -> None:
    """Also when rows change places and lines."""
    manifest = say("a") + say("b") + say("c")
    async with running(tmp_path, "system_prompt", p=PLUGIN, manifest=manifest) as (root, loader):
        before, text = fibers(loader), await prompt(root)
        rewrite(tmp_path, "# a comment\n" + say("c") + "\n" + say("a") + say("b"))
        plan = await loader.reconcile()
        assert not plan
        assert plan.ids("keep") == ("system_prompt", "c", "a", "b")
        assert fibers(loader) == before
        assert await prompt(root) == text
        assert loader.mounted[before["c"]].entry.place.line == 2


async def test_each_kind_of_change(tmp_path: Path) -> None:
    """Update, add, remove, disable, enable, replace; what was not touched did not restart."""
    manifest = (
        say("kept") + say("updated") + say("removed") + say("off") + say("on", disabled="true")
    )
    async with running(tmp_path, "system_prompt", p=PLUGIN, manifest=manifest) as (root, loader):
        before = fibers(loader)
        rewrite(
            tmp_path,
            say("kept")
            + say("updated", "new")
            + say("off", disabled="true")
            + say("on")
            + "- {id: added, name: './p.py:say', config: {name: added}}\n",
        )
        planned = loader.plan()
        assert fibers(loader) == before
        plan = await loader.reconcile()
        assert plan == planned
        assert {change.id: change.action for change in plan} == {
            "system_prompt": "keep",
            "kept": "keep",
            "updated": "update",
            "off": "disable",
            "on": "enable",
            "added": "add",
            "removed": "remove",
        }
        after = fibers(loader)
        assert after.keys() == {"system_prompt", "kept", "updated", "on", "added"}
        assert after["kept"] is before["kept"]
        assert after["updated"] is before["updated"]
        assert before["removed"].state is before["off"].state is FiberState.DISPOSED
        assert set((await prompt(root)).split("\n\n")[1:]) == {"kept", "new", "on", "added"}
        journal = before["kept"].plugin.__globals__["journal"]
        assert journal == [("up", "kept", "kept")]


async def test_an_update_is_in_place_where_the_plugin_takes_it(tmp_path: Path) -> None:
    """And is taken back if another row fails."""
    row = "- {{id: f, name: './p.py:flexible', config: {{n: {}}}}}\n"
    async with running(tmp_path, "system_prompt", p=PLUGIN, manifest=row.format(1)) as (
        root,
        loader,
    ):
        rewrite(tmp_path, row.format(2))
        assert (await loader.reconcile()).ids("update") == ("f",)
        seen = [("up", {"n": 1}), ("update", {"n": 2})]
        assert root.get("flexible") == seen
        rewrite(tmp_path, row.format(3) + say("a", "boom"))
        with pytest.raises(ReconcileError, match="no luck"):
            await loader.reconcile()
        assert root.get("flexible") == [*seen, ("update", {"n": 3}), ("update", {"n": 2})]
        assert loader.running["f"].config == {"n": 2}
        rewrite(tmp_path, "- {id: f, name: './p.py:flexible', config: {bad: yes}}\n")
        with pytest.raises(ReconcileError, match="not that") as caught:
            await loader.reconcile()
        assert caught.value.line == 1
        assert loader.running["f"].config == {"n": 2}


async def test_a_failure_leaves_everything_as_it_was(tmp_path: Path) -> None:
    """Every failed row is named; removed, updated, replaced and disabled rows run again."""
    manifest = (
        say("a")
        + say("b")
        + say("c")
        + say("d")
        + "- {id: g, group: true, config: ["
        + say("e")[2:-1]
        + ", "
        + say("f")[2:-1]
        + "]}\n"
        + say("z")
    )
    async with running(tmp_path, "system_prompt", p=PLUGIN, manifest=manifest) as (root, loader):
        before, text, old = fibers(loader), await prompt(root), loader.manifest
        assert text.split("\n\n")[1:] == ["a", "b", "c", "d", "e", "f", "z"]
        rewrite(
            tmp_path,
            say("b", "boom")
            + say("c", inject="[system_prompt]")
            + say("d", disabled="true")
            + say("new")
            + "- {id: h, group: true, config: ["
            + say("e")[2:-1]
            + "]}\n"
            + say("worse", "boom"),
        )
        async with assert_no_residue(root):
            with pytest.raises(ReconcileError) as caught:
                await loader.reconcile()
        assert list(caught.value.faults) == ["b", "worse"]
        assert [fault.line for fault in caught.value.faults.values()] == [1, 6]
        assert caught.value.file.endswith("harness.yaml")
        assert 'rows "b", "worse"' in str(caught.value)
        assert await prompt(root) == text
        assert fibers(loader) == before
        assert loader.manifest is old
        assert set(states(loader).values()) == {"active"}
        rewrite(tmp_path, manifest)
        assert not await loader.reconcile()


async def test_faults_found_before_anything_is_touched_are_all_named(tmp_path: Path) -> None:
    """Unknown plugins and invalid config, each at its place; no body has run again."""
    async with running(tmp_path, "system_prompt", p=PLUGIN, manifest=say("a")) as (_, loader):
        journal = loader.running["a"].plugin.__globals__["journal"]
        rewrite(
            tmp_path,
            say("a", "b")
            + "- name: nobody\n- name: workspace\n  config: {user: 5}\n- name: ./none.py\n",
        )
        with pytest.raises(ReconcileError) as caught:
            await loader.reconcile()
        assert list(caught.value.faults) == ["nobody", "workspace", "./none.py"]
        places = [(fault.line, fault.column) for fault in caught.value.faults.values()]
        assert places == [(2, 9), (4, 18), (5, 9)]
        assert journal == [("up", "a", "a")]
        rewrite(tmp_path, "- name: [")
        with pytest.raises(ManifestError, match="not YAML"):
            await loader.reconcile()
        assert journal == [("up", "a", "a")]


async def test_a_row_keeps_its_fiber_when_it_moves_between_groups(tmp_path: Path) -> None:
    """Into a group, between two, out of a group that goes; and back after a failure."""
    row = say("a")[2:-1]
    group = "- {{id: {}, group: true, config: [{}]}}\n"
    async with running(tmp_path, "system_prompt", p=PLUGIN, manifest=say("a")) as (root, loader):
        fiber, text = loader.running["a"], await prompt(root)
        paths: list[str] = []
        for manifest in (
            group.format("g", row),
            group.format("g", "") + group.format("h", row),
            group.format("k", group.format("h", row)[2:-1]),
            group.format("h", row),
            say("a"),
        ):
            rewrite(tmp_path, manifest + say("bad", "boom"))
            path = fiber.path
            with pytest.raises(ReconcileError):
                await loader.reconcile()
            assert fiber.path == path
            rewrite(tmp_path, manifest)
            assert loader.plan().ids("replace", "update") == ()
            await loader.reconcile()
            assert loader.running["a"] is fiber
            assert await prompt(root) == text
            paths.append(fiber.path)
        names = ["root/g/say", "root/h/say", "root/k/h/say", "root/h/say", "root/say"]
        assert paths == names
        assert fiber.plugin.__globals__["journal"] == [("up", "a", "a")]
        await fiber.dispose()
        assert [child.name for child in root.fiber.children] == ["system_prompt"]


async def test_disposing_a_group_takes_a_row_that_was_moved_into_it(tmp_path: Path) -> None:
    """It belongs to the new group, and no more to the old."""
    group = "- {{id: {}, group: true, config: [{}]}}\n"
    row = say("a")[2:-1]
    manifest = group.format("g", row) + group.format("h", "")
    async with running(tmp_path, "system_prompt", p=PLUGIN, manifest=manifest) as (_, loader):
        fiber = loader.running["a"]
        rewrite(tmp_path, group.format("g", "") + group.format("h", row))
        assert (await loader.reconcile()).ids("move") == ("a",)
        await loader.running["g"].dispose()
        assert fiber.state is FiberState.ACTIVE
        await loader.running["h"].dispose()
        assert fiber.state is FiberState.DISPOSED


async def test_a_row_that_moves_into_another_realm_is_replaced(tmp_path: Path) -> None:
    """It sees the services of its new surroundings."""
    give = "{{id: {0}, name: './p.py:give', config: {{value: {0}}}}}"
    take = "{id: t, name: './p.py:take'}"
    group = "- {{id: g, group: true, isolate: {{thing: inner}}, config: [{}]}}\n"
    inner, outer = give.format("inside"), give.format("outside")
    manifest = f"- {outer}\n- {take}\n" + group.format(inner)
    async with running(tmp_path, "system_prompt", p=PLUGIN, manifest=manifest) as (root, loader):
        assert "outside" in await prompt(root)
        rewrite(tmp_path, f"- {outer}\n" + group.format(f"{inner}, {take}"))
        plan = await loader.reconcile()
        assert plan.ids("replace") == ("t",)
        assert "inside" in await prompt(root)
        assert "outside" not in await prompt(root)
        rewrite(tmp_path, f"- {outer}\n- {inner[:-1]}, isolate: {{thing: inner}}}}\n- {take}\n")
        await loader.reconcile()
        assert "outside" in await prompt(root)
        assert "inside" not in await prompt(root)


async def test_a_group_whose_realm_changes_gives_its_rows_the_new_one(tmp_path: Path) -> None:
    """Its rows are replaced, and keep their place in the prompt."""
    group = "- {{id: g, group: true{}, config: [{}]}}\n"
    rows = "{id: i, name: './p.py:give', config: {value: in}}, {id: t, name: './p.py:take'}"
    manifest = group.format(", isolate: thing", rows) + say("z")
    async with running(tmp_path, "system_prompt", p=PLUGIN, manifest=manifest) as (root, loader):
        text = await prompt(root)
        assert root.get("thing") is None
        rewrite(tmp_path, group.format("", rows) + say("z"))
        assert (await loader.reconcile()).ids("replace") == ("g", "i", "t")
        assert root.get("thing") == "in"
        assert await prompt(root) == text
        rewrite(tmp_path, group.format(", intercept: {thing: {n: 1}}", rows) + say("z"))
        await loader.reconcile()
        assert loader.running["t"].ctx.intercepted("thing") == {"n": 1}
        rewrite(tmp_path, group.format(", inject: [never]", rows) + say("z"))
        await loader.reconcile()
        assert states(loader) == {"system_prompt": "active", "g": "pending", "z": "active"}
        rewrite(tmp_path, group.format("", rows) + say("z"))
        await loader.reconcile()
        assert states(loader)["t"] == "active"


async def test_a_row_with_another_name_is_another_plugin(tmp_path: Path) -> None:
    """A new fiber, which inherits nothing; the old one comes back if the new one fails."""
    row = "- {{id: r, name: './p.py:{}', config: {{key: one, value: {}}}}}\n"
    async with running(
        tmp_path, "system_prompt", p=PLUGIN, manifest=row.format("flexible", "x")
    ) as (root, loader):
        fiber = loader.running["r"]
        rewrite(tmp_path, row.format("give", "boom"))
        with pytest.raises(ReconcileError):
            await loader.reconcile()
        assert loader.running["r"] is fiber
        assert len(root.get("one")) == 2
        rewrite(tmp_path, row.format("give", "v"))
        plan = await loader.reconcile()
        assert [str(change) for change in plan if change.action != "keep"] == [
            "replace r (./p.py:give): name"
        ]
        assert root.get("one") is None
        assert root.get("thing") == "v"
        assert fiber.state is FiberState.DISPOSED


async def test_who_uses_a_row_that_only_leaves_its_group_is_not_said_to_restart(
    tmp_path: Path,
) -> None:
    """The group goes, and the row in it goes on as it is; so do those who use it."""
    give = "{id: g, name: './p.py:give', config: {value: one}}"
    take = "- {id: t, name: './p.py:take', config: {n: 1}}\n"
    grouped = f"{take}- id: around\n  group: true\n  config:\n  - {give}\n"
    async with running(tmp_path, "system_prompt", p=PLUGIN, manifest=grouped) as (_, loader):
        journal = loader.running["t"].plugin.__globals__["journal"]
        rewrite(tmp_path, f"{take}- {give}\n")
        assert loader.plan().restarts == ()
        assert (await loader.reconcile()).restarts == ()
        assert journal == [("took", "one")]
        rewrite(tmp_path, take)
        assert loader.plan().restarts == ("t",)


async def test_consumers_restart_once_and_are_foretold(tmp_path: Path) -> None:
    """Also when they change themselves."""
    give = "- {{id: g, name: './p.py:give', config: {{value: {}}}}}\n"
    take = "- {{id: t, name: './p.py:take', config: {{n: {}}}}}\n"
    async with running(
        tmp_path, "system_prompt", p=PLUGIN, manifest=take.format(1) + give.format("one")
    ) as (root, loader):
        journal = loader.running["t"].plugin.__globals__["journal"]
        rewrite(tmp_path, take.format(1) + give.format("two"))
        assert loader.plan().restarts == ("t",)
        assert "restart t" in str(loader.plan())
        await loader.reconcile()
        rewrite(tmp_path, take.format(2) + give.format("three"))
        assert loader.plan().restarts == ()
        await loader.reconcile()
        assert journal == [("took", "one"), ("took", "two"), ("took", "three")]
        text = await prompt(root)
        rewrite(tmp_path, take.format(2) + give.format("boom"))
        with pytest.raises(ReconcileError):
            await loader.reconcile()
        assert journal[3:] == [("took", "three")]
        assert await prompt(root) == text


async def test_a_service_may_change_hands_between_rows(tmp_path: Path) -> None:
    """The old holder goes before the new one comes."""
    row = "- {{id: {0}, name: './p.py:give', config: {{value: {0}}}}}\n"
    async with running(tmp_path, "system_prompt", p=PLUGIN, manifest=row.format("a")) as (
        root,
        loader,
    ):
        rewrite(tmp_path, row.format("b"))
        await loader.reconcile()
        assert root.get("thing") == "b"
        rewrite(tmp_path, row.format("b") + row.format("c"))
        with pytest.raises(ReconcileError, match="thing"):
            await loader.reconcile()
        assert root.get("thing") == "b"


async def test_a_row_that_ended_itself_runs_again_at_the_next_reconcile(tmp_path: Path) -> None:
    """What the file says runs. The row and its group stay enabled."""
    manifest = "- {id: g, group: true, config: [{id: q, name: './p.py:quitter'}]}\n"
    async with running(tmp_path, "system_prompt", p=PLUGIN, manifest=manifest) as (root, loader):
        await root.get("quitter").dispose()
        assert states(loader) == {"system_prompt": "active", "g": "active"}
        assert (tmp_path / "harness.yaml").read_text() == manifest
        rewrite(tmp_path, manifest + say("bad", "boom"))
        with pytest.raises(ReconcileError):
            await loader.reconcile()
        assert "q" not in states(loader)
        rewrite(tmp_path, manifest)
        assert loader.plan().ids("add") == ("q",)
        await loader.reconcile()
        assert states(loader)["q"] == "active"


async def test_rows_that_did_not_work_before_are_no_reason_to_fail(tmp_path: Path) -> None:
    """A broken row that nobody touched stays as it is, and is tried again."""
    manifest = "- name: ./later.py\n" + say("broken", "boom")
    async with running(tmp_path, "system_prompt", p=PLUGIN, manifest=manifest) as (root, loader):
        assert list(loader.refused) == ["./later.py"]
        broken = loader.running["broken"]
        rewrite(tmp_path, manifest + say("a"))
        await loader.reconcile()
        assert loader.running["broken"] is broken
        assert "a" in await prompt(root)
        assert list(loader.refused) == ["./later.py"]
        (tmp_path / "later.py").write_text("def apply(ctx): ctx.provide('later', 1)\n")
        await loader.reconcile()
        assert loader.refused == {}
        assert root.get("later") == 1
        rewrite(tmp_path, "- name: ./later.py\n" + say("broken", "fine"))
        await loader.reconcile()
        assert states(loader)["broken"] == "active"


async def test_a_file_that_changed_meanwhile_does_not_spoil_the_way_back(tmp_path: Path) -> None:
    """What ran runs again from the kept module, also below a group that restarts."""
    rows = "{id: i, name: ./inner.py}"
    manifest = (
        "- {id: v, name: './p.py:give', config: {value: one}}\n"
        f"- {{id: g, group: true, inject: [thing], config: [{rows}]}}\n"
        "- {id: x, name: ./top.py}\n"
    )
    plugin = "def apply(ctx): ctx.provide(__name__.rpartition('.')[2], __name__)\n"
    async with running(
        tmp_path, "system_prompt", p=PLUGIN, inner=plugin, top=plugin, manifest=manifest
    ) as (root, loader):
        seen = root.get("inner"), root.get("top")
        (tmp_path / "inner.py").write_text("1/0\n")
        (tmp_path / "top.py").write_text("1/0\n")
        rewrite(tmp_path, "- {id: v, name: './p.py:give', config: {value: boom}}\n")
        with pytest.raises(ReconcileError):
            await loader.reconcile()
        assert (root.get("inner"), root.get("top")) == seen
        rewrite(tmp_path, manifest.replace("one", "boom"))
        with pytest.raises(ReconcileError):
            await loader.reconcile()
        assert (root.get("inner"), root.get("top")) == seen


async def test_reconciles_wait_for_each_other_and_outlive_their_caller(tmp_path: Path) -> None:
    """The last state of the file runs in the end; a cancelled caller leaves nothing half done."""
    slow = """
    import anyio

    async def apply(ctx, config):
        await anyio.sleep(0.01)
        ctx.provide("slow", config["n"])
    """
    row = "- {{id: s, name: ./slow.py, config: {{n: {}}}}}\n"
    async with running(tmp_path, "system_prompt", slow=slow, manifest=row.format(0)) as (
        root,
        loader,
    ):
        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                for number in range(1, 6):
                    rewrite(tmp_path, row.format(number))
                    tasks.start_soon(loader.reconcile)
                    await anyio.lowlevel.checkpoint()
        assert root.get("slow") == 5
        rewrite(tmp_path, row.format(6))
        with anyio.move_on_after(0.001):
            await loader.reconcile()
        assert not await loader.reconcile()
        assert root.get("slow") == 6
        assert states(loader)["s"] == "active"


async def test_assemblies_wait_while_rows_change(tmp_path: Path) -> None:
    """No prompt is ever without a row that is there before and after (law L8)."""
    slow = """
    import anyio

    async def apply(ctx, config):
        await anyio.sleep(0.01)
        ctx.system_prompt.section("slow", "slow", order=5)

    inject = ["system_prompt"]
    """
    row = "- {{id: s, name: ./slow.py, config: {{n: {}}}}}\n"
    async with running(tmp_path, "system_prompt", slow=slow, manifest=row.format(0)) as (
        root,
        loader,
    ):
        texts: list[str] = []

        async def look() -> None:
            for _ in range(20):
                texts.append(await prompt(root))
                await anyio.sleep(0.001)

        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(look)
                for number in range(1, 6):
                    rewrite(tmp_path, row.format(number))
                    await loader.reconcile()
        assert all("slow" in text for text in texts)


SELF = """
    import anyio

    def apply(ctx, config):
        async def work():
            try:
                call = getattr(ctx.get("loader"), config["call"])
                config["calls"].append(await call(*config["args"]))
            finally:
                config["calls"].append("over")
        ctx.provide("work", lambda: ctx.start_soon(work))
        ctx.provide("seen", config)
        ctx.effect(lambda: lambda: config["calls"].append("down"))
"""


async def test_a_row_may_ask_to_be_disabled(tmp_path: Path) -> None:
    """Its own code is cancelled, and then it is written to the file: no deadlock."""
    manifest = "- {id: me, name: ./p.py, config: {call: disable, args: [me], calls: []}}\n"
    async with running(tmp_path, p=SELF, manifest=manifest) as (root, loader):
        calls = root.get("seen")["calls"]
        with anyio.fail_after(5):
            root.get("work")()
            while loader.running or "disabled" not in (tmp_path / "harness.yaml").read_text():
                await anyio.lowlevel.checkpoint()
        assert calls == ["over", "down"]
        assert (tmp_path / "harness.yaml").read_text() == manifest.replace(
            "[]}}", "[]}, disabled: true}"
        )


async def test_a_consumer_may_replace_its_provider(tmp_path: Path) -> None:
    """It is restarted by that like any consumer."""
    row = "- {id: t, name: './p.py:give', config: {value: %s}}\n"
    own = "- {id: me, name: ./self.py, inject: [thing], "
    own += "config: {call: reconcile, args: [], calls: []}}\n"
    async with running(tmp_path, p=PLUGIN, self=SELF, manifest=row % "a" + own) as (root, loader):
        rewrite(tmp_path, row % "b" + own)
        fiber = loader.running["me"]
        with anyio.fail_after(5):
            root.get("work")()
            while root.get("thing") != "b" or fiber.state is not FiberState.ACTIVE:
                await anyio.lowlevel.checkpoint()
        assert not await loader.reconcile()


async def test_a_row_may_change_its_own_config_in_place(tmp_path: Path) -> None:
    """Nothing is cancelled then."""
    plugin = """
    def apply(ctx, config):
        seen = []
        ctx.on_update(seen.append)
        async def work():
            await ctx.get("loader").set_config("me", {"n": 2})
            seen.append("done")
        ctx.provide("work", lambda: ctx.start_soon(work))
        ctx.provide("seen", seen)
    """
    manifest = "- {id: me, name: ./p.py, config: {n: 1}}\n"
    async with running(tmp_path, p=plugin, manifest=manifest) as (root, _):
        with anyio.fail_after(5):
            root.get("work")()
            while len(root.get("seen")) < 2:
                await anyio.lowlevel.checkpoint()
        assert root.get("seen") == [{"n": 2}, "done"]


async def test_code_that_tears_down_cannot_reconcile(tmp_path: Path) -> None:
    """A clear error instead of a deadlock."""
    plugin = """
    def apply(ctx, config):
        async def down():
            try:
                await ctx.kernel.services.peek("loader", None).find(ctx).value.reconcile()
            except Exception as error:
                config["errors"].append(error)
        return down
    """
    manifest = "- {id: me, name: ./p.py, config: {errors: []}}\n"
    async with running(tmp_path, p=plugin, manifest=manifest) as (_, loader):
        fiber = loader.running["me"]
        errors = fiber.config["errors"]
        with anyio.fail_after(5):
            await fiber.dispose()
        assert [type(error) for error in errors] == [InactiveFiberError]


async def test_a_tree_may_be_closed_while_rows_change(tmp_path: Path) -> None:
    """The change ends, and everything is down."""
    slow = """
    import anyio

    async def apply(ctx, config):
        ctx.effect(lambda: lambda: config["log"].append("down"))
        await anyio.sleep(0.02)
    """
    row = "- {{id: s, name: ./slow.py, config: {{n: {}, log: []}}}}\n"
    with anyio.fail_after(10):
        async with (
            anyio.create_task_group() as tasks,
            running(tmp_path, slow=slow, manifest=row.format(1)) as (_, loader),
        ):
            rewrite(tmp_path, row.format(2))

            async def reconcile() -> None:
                with contextlib.suppress(InactiveFiberError, ReconcileError):
                    await loader.reconcile()

            tasks.start_soon(reconcile)
            await anyio.sleep(0.005)
        assert loader.running == loader.mounted == {}


async def test_environment_variables_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A changed variable is a changed config."""
    monkeypatch.setenv("LOADER_TEST", "one")
    manifest = "- {id: g, name: './p.py:give', config: {value: '${env:LOADER_TEST}'}}\n"
    async with running(tmp_path, "system_prompt", p=PLUGIN, manifest=manifest) as (root, loader):
        assert not await loader.reconcile()
        monkeypatch.setenv("LOADER_TEST", "two")
        assert (await loader.reconcile()).ids("update") == ("g",)
        assert root.get("thing") == "two"


async def test_a_default_plugin_gives_way_to_a_row(tmp_path: Path) -> None:
    """And comes back when the row goes."""
    async with running(tmp_path, "system_prompt", p=PLUGIN, manifest=say("a")) as (root, loader):
        rewrite(tmp_path, "- {name: system_prompt, config: {persona: Me.}}\n" + say("a"))
        assert (await loader.reconcile()).ids("update") == ("system_prompt",)
        assert "Me." in await prompt(root)
        rewrite(tmp_path, "- {id: mine, name: system_prompt, config: {persona: You.}}\n" + say("a"))
        await loader.reconcile()
        assert "You." in await prompt(root)
        rewrite(tmp_path, say("a"))
        await loader.reconcile()
        assert "You." not in await prompt(root)
        assert "a" in await prompt(root)


async def test_nothing_is_left_after_many_reconciles(tmp_path: Path) -> None:
    """Law L2."""
    plugin = "def apply(ctx): ctx.provide('extra', 1)\n"
    extra = "- {id: g, group: true, config: [{id: x, name: ./extra.py}]}\n"
    async with running(tmp_path, "system_prompt", p=PLUGIN, extra=plugin, manifest=say("a")) as (
        root,
        loader,
    ):
        async with assert_no_residue(root):
            for _ in range(5):
                rewrite(tmp_path, say("a", "b") + extra)
                await loader.reconcile()
                rewrite(tmp_path, extra + say("bad", "boom"))
                with pytest.raises(ReconcileError):
                    await loader.reconcile()
                rewrite(tmp_path, say("a"))
                await loader.reconcile()
        assert loader.refused == loader.claims == loader.prepared == {}


async def test_another_plugin_in_a_row_stands_where_the_first_one_stood(tmp_path: Path) -> None:
    """In the prompt too: what is called the same first, then what is of the same kind."""
    plugins = """
    def first(ctx):
        for name in ("a", "b"):
            ctx.system_prompt.section(name, f"first {name}", order=5)

    def second(ctx):
        for name in ("c", "b", "d"):
            ctx.system_prompt.section(name, f"second {name}", order=5)

    first.inject = second.inject = ["system_prompt"]
    """
    row = "- {{id: r, name: './q.py:{}'}}\n"
    async with running(
        tmp_path, p=PLUGIN, q=plugins, manifest=QUIET + row.format("first") + say("z")
    ) as (root, loader):
        place = loader.running["r"].place
        assert await prompt(root) == "first a\n\nfirst b\n\nz"
        rewrite(tmp_path, QUIET + row.format("nothing") + say("z"))
        with pytest.raises(ReconcileError):
            await loader.reconcile()
        rewrite(tmp_path, QUIET + row.format("second") + say("z", "boom"))
        with pytest.raises(ReconcileError):
            await loader.reconcile()
        assert await prompt(root) == "first a\n\nfirst b\n\nz"
        rewrite(tmp_path, QUIET + row.format("second") + say("z"))
        await loader.reconcile()
        assert await prompt(root) == "second c\n\nsecond b\n\nz\n\nsecond d"
        assert loader.running["r"].place == place
        assert [child.name for child in root.fiber.children][-2:] == ["second", "say"]


QUIET = "- {name: system_prompt, config: {include_harness_identity: false}}\n"


async def test_a_changed_row_may_go_on_with_rows_of_its_own_that_were_broken(
    tmp_path: Path,
) -> None:
    """What it was given and has not changed was broken before; what has changed must work."""
    plugin = """
    def apply(ctx, config):
        ctx.system_prompt.section("giver", config["text"], order=5)
        ctx.loader.mount(config["rows"])

    inject = ["system_prompt", "loader"]
    """
    row = "- {{id: g, name: ./giver.py, config: {{text: {}, rows: [{}]}}}}\n"
    broken = "{id: i, name: './p.py:say', config: {name: i, text: boom}}"
    async with running(
        tmp_path, p=PLUGIN, giver=plugin, manifest=QUIET + row.format("one", broken)
    ) as (root, loader):
        assert await prompt(root) == "one"
        rewrite(tmp_path, QUIET + row.format("two", broken))
        await loader.reconcile()
        assert await prompt(root) == "two"
        other = broken.replace("name: i", "name: j")
        rewrite(tmp_path, QUIET + row.format("three", other))
        with pytest.raises(ReconcileError, match="no luck"):
            await loader.reconcile()
        assert await prompt(root) == "two"
        rewrite(tmp_path, QUIET + row.format("four", other.replace("boom", "fine")))
        await loader.reconcile()
        assert await prompt(root) == "four\n\nfine"
