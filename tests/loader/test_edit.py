"""Edits through the API: written back with comments, order and layout kept, or not at all."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from harness_core.errors import ManifestError
from harness_core.loader import Loader, ReconcileError

from .harness import running, states

PLUGIN = """
    def give(ctx, config):
        if config.get("boom"):
            raise ValueError("no luck")
        ctx.provide(config.get("as", "thing"), config)
"""

MANIFEST = """\
# The header stays.

- id: first        # who is first
  name: './p.py:give'   # quoted as it was
  # about its config
  config:
    as:   one      # odd spacing
    # about the key
    key: ${env:LOADER_KEY:-secret}   # never written
    list: [1,  2]
    deep: {a: 1,   b: "two"}

# about the second
- {id: second, name: ./p.py:give, config: {as: two}}   # flow

- id: group
  group: true
  config:
    - id: inner    # in a group
      name: ./p.py:give
      config: {as: three}
    # after inner
# the end
"""

FIRST = {"as": "one", "key": "secret", "list": [1, 2], "deep": {"a": 1, "b": "two"}}

Change = Callable[[Loader], Awaitable[Any]]


async def edited(directory: Path, change: Change, manifest: str = MANIFEST) -> str:
    """Run a manifest, make one edit, and return what the file then holds."""
    async with running(directory, p=PLUGIN, manifest=manifest) as (_, loader):
        before = loader.running
        fibers = dict(before)
        await change(loader)
        assert not loader.plan(), "the file and the tree agree"
        kept = loader.running.keys() & fibers.keys()
        assert all(loader.running[one] is fibers[one] or fibers[one].is_ending for one in kept)
    assert not any(name.startswith(".") for name in os.listdir(directory))
    return (directory / "harness.yaml").read_bytes().decode()


CASES: dict[str, tuple[Change, tuple[tuple[str, str], ...]]] = {
    "nothing": (lambda loader: loader.set_config("first", FIRST), ()),
    "a value": (
        lambda loader: loader.set_config("first", {**FIRST, "list": [1, 3]}),
        (("[1,  2]", "[1, 3]"),),
    ),
    "an inner value": (
        lambda loader: loader.set_config("first", {**FIRST, "deep": {"a": 2, "b": "two"}}),
        (("{a: 1,   b", "{a: 2,   b"),),
    ),
    "a new key": (
        lambda loader: loader.set_config("first", {**FIRST, "new": "x: y"}),
        (('b: "two"}\n', 'b: "two"}\n    new: "x: y"\n'),),
    ),
    "a new key that is deep": (
        lambda loader: loader.set_config("first", {**FIRST, "new": {"a": {"b": [1]}}}),
        (('b: "two"}\n', 'b: "two"}\n    new:\n      a:\n        b: [1]\n'),),
    ),
    "a key less": (
        lambda loader: loader.set_config("first", {k: FIRST[k] for k in ("as", "key", "deep")}),
        (("    list: [1,  2]\n", ""),),
    ),
    "another key in a flow mapping": (
        lambda loader: loader.set_config("second", {"as": "two", "count": None}),
        (("{as: two}", "{as: two, count: null}"),),
    ),
    "disable": (
        lambda loader: loader.disable("first"),
        (('b: "two"}\n', 'b: "two"}\n  disabled: true\n'),),
    ),
    "disable in a flow mapping": (
        lambda loader: loader.disable("second"),
        (("{as: two}}", "{as: two}, disabled: true}"),),
    ),
    "disable in a group": (
        lambda loader: loader.disable("inner"),
        (("{as: three}\n", "{as: three}\n      disabled: true\n"),),
    ),
    "remove": (
        lambda loader: loader.remove("second"),
        (("- {id: second, name: ./p.py:give, config: {as: two}}   # flow\n", ""),),
    ),
    "remove a group": (
        lambda loader: loader.remove("group"),
        (
            (
                MANIFEST[MANIFEST.index("- id: group") : MANIFEST.index("    # after inner")],
                "",
            ),
        ),
    ),
    "add": (
        lambda loader: loader.add({"id": "new", "name": "./p.py:give", "config": {"as": "four"}}),
        (
            (
                "{as: three}\n",
                "{as: three}\n- id: new\n  name: ./p.py:give\n  config: {as: four}\n",
            ),
        ),
    ),
    "add to a group": (
        lambda loader: loader.add({"name": "./p.py:give", "config": {"as": "four"}}, "group"),
        (
            (
                "{as: three}\n",
                "{as: three}\n    - name: ./p.py:give\n      config: {as: four}\n",
            ),
        ),
    ),
}


@pytest.mark.asyncio
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("case", CASES)
async def test_only_what_was_edited_changes(tmp_path: Path, case: str, end: str) -> None:
    """Every other character of the file is what it was."""
    change, replacements = CASES[case]
    expected = MANIFEST
    for old, new in replacements:
        assert expected.count(old) == 1
        expected = expected.replace(old, new)
    if end == "\r\n":
        (tmp_path / "p.py").write_text(textwrap.dedent(PLUGIN))
        (tmp_path / "harness.yaml").write_bytes(MANIFEST.replace("\n", end).encode())
        async with running(tmp_path) as (_, loader):
            await change(loader)
        found = (tmp_path / "harness.yaml").read_bytes().decode()
    else:
        found = await edited(tmp_path, change)
    assert found == expected.replace("\n", end)


@pytest.mark.asyncio
async def test_disable_and_enable_again(tmp_path: Path) -> None:
    """The key stays where it was written."""

    async def change(loader: Loader) -> None:
        await loader.disable("group")
        assert states(loader).keys() == {"first", "second"}
        await loader.enable("group")
        assert "inner" in states(loader)

    expected = MANIFEST.replace("{as: three}\n", "{as: three}\n  disabled: false\n")
    assert await edited(tmp_path, change) == expected


@pytest.mark.asyncio
async def test_what_a_reference_stands_for_is_never_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in lists that change, and when the config is given as it was read."""
    monkeypatch.setenv("LOADER_SECRET", "hunter2")
    manifest = """
    - id: r
      name: ./p.py:give
      config: {keys: ["${env:LOADER_SECRET}", b], deep: {key: "x-${env:LOADER_SECRET}"}}
    """

    async def change(loader: Loader) -> None:
        config = dict(loader.running["r"].config)
        assert config["keys"] == ["hunter2", "b"]
        await loader.set_config("r", {**config, "keys": ["a", *config["keys"]], "n": 1})
        assert loader.running["r"].config["keys"] == ["a", "hunter2", "b"]
        await loader.disable("r")
        await loader.enable("r")

    text = await edited(tmp_path, change, textwrap.dedent(manifest))
    assert "hunter2" not in text
    assert text.count("${env:LOADER_SECRET}") == 2


@pytest.mark.asyncio
async def test_an_edit_that_does_not_work_leaves_file_and_tree(tmp_path: Path) -> None:
    """A failing body, an unknown plugin, a row that does not exist, what is no plain value."""
    async with running(tmp_path, p=PLUGIN, manifest=MANIFEST) as (root, loader):
        before = dict(loader.running)
        with pytest.raises(ReconcileError, match="no luck"):
            await loader.set_config("first", {"boom": True})
        with pytest.raises(ReconcileError, match="nobody"):
            await loader.add({"name": "nobody"})
        with pytest.raises(ManifestError, match="duplicate id"):
            await loader.add({"id": "inner", "name": "./p.py:give"})
        with pytest.raises(LookupError, match='no row "frist"; did you mean "first"'):
            await loader.disable("frist")
        with pytest.raises(TypeError, match="plain values"):
            await loader.set_config("first", {"x": object()})
        with pytest.raises(ValueError, match="is a group"):
            await loader.set_config("group", {})
        assert loader.running == before
        assert (tmp_path / "harness.yaml").read_text() == MANIFEST
        assert not any("tmp" in name for name in os.listdir(tmp_path))
        assert root.get("one")["key"] == "secret"


@pytest.mark.asyncio
async def test_the_file_is_replaced_with_its_permissions_and_through_links(tmp_path: Path) -> None:
    """In one step; who has it open reads the old one to its end."""
    real = tmp_path / "real"
    real.mkdir()
    async with running(tmp_path, p=PLUGIN, manifest=MANIFEST) as (_, loader):
        file = tmp_path / "harness.yaml"
        os.chmod(file, 0o640)
        file.rename(real / "there.yaml")
        file.symlink_to(real / "there.yaml")
        number = (real / "there.yaml").stat().st_ino
        await loader.disable("second")
        assert file.is_symlink()
        assert (real / "there.yaml").stat().st_mode & 0o777 == 0o640
        assert (real / "there.yaml").stat().st_ino != number


@pytest.mark.asyncio
async def test_files_of_all_shapes(tmp_path: Path) -> None:
    """An empty list, flow lists, a byte-order mark, no line end at the end."""
    new = {"name": "./p.py:give"}
    assert await edited(tmp_path, lambda loader: loader.add(new), "# c\n[]\n") == (
        "# c\n- name: ./p.py:give\n"
    )
    assert (
        await edited(
            tmp_path,
            lambda loader: loader.add(new),
            "[{id: a, name: './p.py:give', config: {as: a}}]",
        )
        == "[{id: a, name: './p.py:give', config: {as: a}}, {name: ./p.py:give}]"
    )
    one = "\ufeff- {id: a, name: './p.py:give', config: {as: a}}"
    assert await edited(tmp_path, lambda loader: loader.remove("a"), one) == "\ufeff[]"
    assert await edited(tmp_path, lambda loader: loader.add(new), one) == (
        one + "\n- name: ./p.py:give"
    )
    bare = "- name: ./p.py:give\n  config:\n"
    assert (
        await edited(tmp_path, lambda loader: loader.set_config("./p.py:give", {"as": "b"}), bare)
        == "- name: ./p.py:give\n  config: {as: b}\n"
    )
    group = "- id: g\n  group: true\n  config: [{name: './p.py:give'}]\n"
    assert await edited(tmp_path, lambda loader: loader.remove("./p.py:give"), group) == (
        "- id: g\n  group: true\n  config: []\n"
    )
    lone = "- id: g\n  group: true\n  config:\n  - name: './p.py:give' # only\n"
    assert await edited(tmp_path, lambda loader: loader.remove("./p.py:give"), lone) == (
        "- id: g\n  group: true\n  config:\n    [] # only\n"
    )
    empty = "- id: g\n  group: true\n"
    assert await edited(tmp_path, lambda loader: loader.add(new, "g"), empty) == (
        "- id: g\n  group: true\n  config:\n    - name: ./p.py:give\n"
    )


SAVING = """
    from pathlib import Path

    def give(ctx, config):
        if "save" in config:
            file = Path({file!r})
            file.write_text({text!r})
        ctx.provide(config.get("as", "thing"), config)
"""
SAVED = "# saved meanwhile\n- {id: first, name: './p.py:give', config: {as: one}}\n"


@pytest.mark.asyncio
@pytest.mark.parametrize("rest", ["- {id: more, name: './p.py:give', config: {as: two}}\n", "- {"])
async def test_a_save_while_an_edit_is_under_way_is_not_lost(tmp_path: Path, rest: str) -> None:
    """The edit is made again, in what the file says then; or not at all, if that is faulty."""
    file = tmp_path / "harness.yaml"
    plugin = SAVING.format(file=str(file), text=SAVED + rest)
    before = "- {id: first, name: './p.py:give', config: {as: one}}\n"
    async with running(tmp_path, p=plugin, manifest=before) as (root, loader):
        if rest == "- {":
            with pytest.raises(ManifestError):
                await loader.set_config("first", {"as": "one", "save": True})
            assert file.read_text() == SAVED + rest
            assert root.get("one") == {"as": "one"}
            return
        plan = await loader.set_config("first", {"as": "one", "save": True})
        assert str(plan) == "update first (./p.py:give): config\nadd more (./p.py:give)"
        assert file.read_text() == SAVED.replace("one}", "one, save: true}") + rest
        assert root.get("one") == {"as": "one", "save": True}
        assert root.get("two") == {"as": "two"}
        assert not any("tmp" in name for name in os.listdir(tmp_path))
