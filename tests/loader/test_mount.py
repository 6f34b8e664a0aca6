"""Mounting rows: order, groups, realms, failure of one row, and no residue."""

from __future__ import annotations

import gc
import sys
import weakref
from pathlib import Path

import pytest

from harness_core import Context, FiberState
from harness_core.errors import ManifestError

from .harness import running, states

pytestmark = pytest.mark.asyncio

SERVICE = """
    from harness_core import Service

    class Database(Service, key="database"):
        def __init__(self, ctx, config):
            self.name = config.get("name", "plain") if config else "plain"

    def user(ctx, config=None):
        ctx.provide("seen_" + (config or {}).get("as", "user"), ctx.database.name)

    user.inject = ["database"]
"""


def nothing(_: Context) -> None:
    """Do nothing, as a plugin."""


async def test_rows_wait_for_each_other_in_any_order(tmp_path: Path) -> None:
    """A consumer may stand before its provider."""
    manifest = "- {id: u, name: './p.py:user'}\n- {id: d, name: './p.py:Database'}\n"
    async with running(tmp_path, p=SERVICE, manifest=manifest) as (root, loader):
        assert states(loader) == {"u": "active", "d": "active"}
        assert root.get("seen_user") == "plain"


async def test_a_faulty_row_stops_no_other(tmp_path: Path) -> None:
    """It is noted with its place; what it imported is gone."""
    manifest = """
    - name: nothing_here
    - {id: broken, name: ./broken.py}
    - {id: d, name: './p.py:Database'}
    """
    async with running(tmp_path, p=SERVICE, broken="1/0", manifest=manifest) as (_, loader):
        assert states(loader) == {"d": "active"}
        assert list(loader.refused) == ["nothing_here", "broken"]
        places = [(fault.line, fault.column) for fault in loader.refused.values()]
        assert places == [(2, 9), (3, 22)]


async def test_a_row_whose_config_is_wrong_fails_at_the_faulty_value(tmp_path: Path) -> None:
    """The place is that of the value, or of the unknown key."""
    manifest = """
    - name: workspace
      config:
        cwd: .
        user: 5
    - id: second
      name: workspace
      config:
        platfrom: x
    - id: third
      name: workspace
      config: [1]
    """
    async with running(tmp_path, "system_prompt", manifest=manifest) as (_, loader):
        faults = [row.fault for row in loader.mounted.values() if row.fault is not None]
        assert [(fault.line, fault.column) for fault in faults] == [(5, 11), (9, 5), (12, 11)]
        assert "user: expected str, got 5 (int)" in faults[0].message
        assert "did you mean 'platform'?" in faults[1].message


async def test_a_row_whose_body_raises_names_row_and_line(tmp_path: Path) -> None:
    """The place is the row's name; the message has the line that raised, and the cause."""
    broken = "def apply(ctx):\n    raise ValueError('no luck')\n"
    async with running(tmp_path, broken=broken, manifest="- name: ./broken.py\n") as (_, loader):
        (row,) = loader.mounted.values()
        fault = row.fault
        assert fault is not None
        assert (fault.line, fault.column) == (1, 9)
        assert 'plugin "./broken.py" failed: ValueError: no luck' in fault.message
        assert "broken.py:2" in fault.message
        assert isinstance(fault.__cause__, ValueError)


async def test_groups_are_fibers_and_disabled_ones_are_left_out(tmp_path: Path) -> None:
    """A disabled group takes its rows with it."""
    manifest = """
    - id: on
      group: true
      config: [{id: d, name: './p.py:Database'}]
    - id: off
      group: true
      disabled: true
      config: [{id: e, name: './p.py:Database'}]
    - {id: u, name: './p.py:user', disabled: true}
    """
    async with running(tmp_path, p=SERVICE, manifest=manifest) as (root, loader):
        assert states(loader) == {"on": "active", "d": "active"}
        assert [fiber.path for fiber in loader.mounted] == ["root/on/database", "root/on"]
        assert root.get("seen_user") is None


async def test_isolate_gives_rows_realms_of_their_own_and_labels_share_them(
    tmp_path: Path,
) -> None:
    """Two databases, each with its user."""
    manifest = """
    - {id: d1, name: './p.py:Database', config: {name: one}, isolate: {database: first}}
    - {id: d2, name: './p.py:Database', config: {name: two}}
    - {id: u1, name: './p.py:user', config: {as: one}, isolate: {database: first}}
    - {id: u2, name: './p.py:user', config: {as: two}}
    - {id: u3, name: './p.py:user', config: {as: three}, isolate: database}
    """
    async with running(tmp_path, p=SERVICE, manifest=manifest) as (root, loader):
        assert (root.get("seen_one"), root.get("seen_two")) == ("one", "two")
        assert states(loader)["u3"] == "pending"


async def test_intercept_reaches_what_the_row_uses(tmp_path: Path) -> None:
    """Outer groups first, inner rows over them."""
    plugin = """
    def apply(ctx):
        ctx.provide("seen", ctx.intercepted("database"))
    """
    manifest = """
    - id: g
      group: true
      intercept: {database: {timeout: 1, retries: 2}}
      config: [{name: ./p.py, intercept: {database: {timeout: 3}}}]
    """
    async with running(tmp_path, p=plugin, manifest=manifest) as (root, _):
        assert root.get("seen") == {"timeout": 3, "retries": 2}


async def test_a_row_may_inject_more_than_its_plugin(tmp_path: Path) -> None:
    """It then waits for that too; config, name and services of the plugin stay what they are."""
    manifest = """
    - {id: w, name: workspace, inject: [database], config: {user: me}}
    - {id: s, name: './p.py:Second', inject: database, config: {name: late}}
    """
    second = SERVICE + '\n    class Second(Database, key="second"):\n        pass\n'
    async with running(tmp_path, "system_prompt", p=second, manifest=manifest) as (root, loader):
        waiting = {row.entry.id: row.fiber.waiting_for for row in loader.mounted.values()}
        assert waiting["w"] == ["database"]
        assert waiting["s"] == ["database"]
        effect = root.provide("database", object())
        assert states(loader)["w"] == "active"
        assert root.get("second").name == "late"
        assert (await root.system_prompt.assemble()).variables["user"] == "me"
        await effect()
        assert states(loader)["w"] == "pending"


async def test_a_group_may_inject_and_comes_back_with_its_service(tmp_path: Path) -> None:
    """Its rows are mounted anew."""
    manifest = "- {id: g, group: true, inject: [go], config: [{id: d, name: './p.py:Database'}]}\n"
    async with running(tmp_path, p=SERVICE, manifest=manifest) as (root, loader):
        assert states(loader) == {"g": "pending"}
        for _ in range(2):
            effect = root.provide("go", object())
            assert states(loader) == {"g": "active", "d": "active"}
            await effect()
            assert states(loader) == {"g": "pending"}


async def test_defaults_are_mounted_unless_a_row_names_them(tmp_path: Path) -> None:
    """Anywhere in the file, also disabled."""
    async with running(tmp_path, "system_prompt", manifest="[]\n") as (root, loader):
        assert states(loader) == {"system_prompt": "active"}
    manifest = "- {id: g, group: true, config: [{name: system_prompt, disabled: true}]}\n"
    async with running(tmp_path, "system_prompt", manifest=manifest) as (root, loader):
        assert states(loader) == {"g": "active"}
        assert root.get("system_prompt") is None


async def test_nothing_of_a_file_stays_after_its_fiber_is_disposed(tmp_path: Path) -> None:
    """Law L2: no module, no row, and the plugin can be collected."""
    before = set(sys.modules)
    plugin = "class Marker:\n    pass\n\ndef apply(ctx):\n    ctx.provide('marker', Marker())\n"
    async with running(tmp_path, p=plugin, manifest="- name: ./p.py\n") as (root, loader):
        (row,) = loader.mounted.values()
        effects = len(root.fiber.effects())
        collected = weakref.ref(type(root.get("marker")))
        await row.fiber.dispose()
        assert loader.mounted == {}
        assert len(root.fiber.effects()) == effects - 2  # the module, and the plugin
        assert {name for name in set(sys.modules) - before if "harness_file" in name} == set()
        del row
        gc.collect()
        assert collected() is None


async def test_a_file_survives_restarts_of_its_fiber(tmp_path: Path) -> None:
    """Its module is there as long as the row is."""
    plugin = """
    from __future__ import annotations
    import attrs, sys

    class Inner:
        pass

    @attrs.frozen
    class Config:
        numbers: list[int] = attrs.field(factory=list)

    def apply(ctx, config: Config):
        ctx.provide("seen", (config.numbers, __name__ in sys.modules))
    """
    manifest = "- {name: ./p.py, config: {numbers: [1]}}\n"
    async with running(tmp_path, p=plugin, manifest=manifest) as (root, loader):
        (row,) = loader.mounted.values()
        await row.fiber.restart()
        assert root.get("seen") == ([1], True)
        await row.fiber.update({"numbers": [2]})
        assert root.get("seen") == ([2], True)


async def test_rows_of_a_plugin_are_mounted_below_it_all_or_nothing(tmp_path: Path) -> None:
    """`ctx.loader.mount(rows)` takes plain data, and names the faulty row."""
    manifest = "- {id: d, name: './p.py:Database'}\n"
    async with running(tmp_path, p=SERVICE, manifest=manifest) as (root, loader):
        child = root.plugin(nothing)
        modules = set(sys.modules)
        with pytest.raises(ManifestError, match='unknown plugin "nobody"'):
            child.ctx.get("loader").mount([{"name": "./p.py:user"}, {"name": "nobody"}])
        assert child.children == ()
        assert set(sys.modules) == modules
        (user,) = child.ctx.get("loader").mount([{"name": "./p.py:user"}])
        assert user.parent is child
        assert user.state is FiberState.ACTIVE
        await child.dispose()
        assert states(loader) == {"d": "active"}


async def test_a_loader_lends_its_rows_no_rights(tmp_path: Path) -> None:
    """What a plugin mounts through it reads only what it injects."""
    reader = """
    def apply(ctx):
        ctx.database
    """
    manifest = "- {id: d, name: './p.py:Database'}\n"
    async with running(tmp_path, p=SERVICE, reader=reader, manifest=manifest) as (root, _):
        child = root.plugin(nothing)
        (fiber,) = child.ctx.get("loader").mount([{"name": "./reader.py"}])
        assert fiber.state is FiberState.FAILED
        assert "without injecting it" in str(fiber.error)
