"""The plan: pure, and says of each row what is done with it and why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness_core.loader import Loader, Resolver, read_manifest
from harness_core.loader.manifest import read_entries
from harness_core.loader.plan import make_plan

ROW = {"id": "r", "name": "a", "config": {"n": 1}}


def group(name: str, *rows: Any, **more: Any) -> dict[str, Any]:
    """Return a group."""
    return {"id": name, "group": True, "config": list(rows), **more}


CASES: dict[str, tuple[list[Any], list[Any], list[str]]] = {
    "nothing": ([ROW], [ROW], []),
    "another key order": (
        [{**ROW, "config": {"a": 1, "b": 2}}],
        [{**ROW, "config": {"b": 2, "a": 1}}],
        [],
    ),
    "true is not 1": (
        [{**ROW, "config": {"n": 1}}],
        [{**ROW, "config": {"n": True}}],
        ["update r (a): config"],
    ),
    "1.0 is not 1": (
        [{**ROW, "config": {"n": [1]}}],
        [{**ROW, "config": {"n": [1.0]}}],
        ["update r (a): config"],
    ),
    "not a number is itself": (
        [{**ROW, "config": {"n": float("nan")}}],
        [{**ROW, "config": {"n": float("nan")}}],
        [],
    ),
    "name": ([ROW], [{**ROW, "name": "b"}], ["replace r (b): name"]),
    "name and config": (
        [ROW],
        [{**ROW, "name": "b", "config": None}],
        ["replace r (b): name"],
    ),
    "realms": (
        [ROW],
        [{**ROW, "inject": ["x"], "isolate": "y", "intercept": {"z": {}}}],
        ["replace r (a): inject, isolate, intercept"],
    ),
    "to a group": ([ROW], [group("r")], ["replace r: group"]),
    "into a group": (
        [ROW, group("g")],
        [group("g", ROW)],
        ['move r (a): into the group "g"'],
    ),
    "out of a group that goes": (
        [group("g", ROW)],
        [ROW],
        ["move r (a): out of all groups", "remove g"],
    ),
    "moved and changed": (
        [group("g", ROW)],
        [group("h", {**ROW, "config": {"n": 2}})],
        ["add h", 'move r (a): into the group "h"', "update r (a): config", "remove g"],
    ),
    "into another realm": (
        [ROW, group("g", isolate="x")],
        [group("g", ROW, isolate="x")],
        ["replace r (a): its groups"],
    ),
    "between groups of one label": (
        [group("g", ROW, isolate={"x": "s"}), group("h", isolate={"x": "s"})],
        [group("g", isolate={"x": "s"}), group("h", ROW, isolate={"x": "s"})],
        ['move r (a): into the group "h"'],
    ),
    "between groups of their own": (
        [group("g", ROW, isolate="x"), group("h", isolate="x")],
        [group("g", isolate="x"), group("h", ROW, isolate="x")],
        ["replace r (a): its groups"],
    ),
    "a group with another realm": (
        [group("g", ROW)],
        [group("g", ROW, isolate="x")],
        ["replace g: isolate", "replace r (a): its groups"],
    ),
    "a group disabled": (
        [group("g", ROW)],
        [group("g", ROW, disabled=True)],
        ["disable g", "disable r (a)"],
    ),
    "a row of a disabled group": (
        [group("g", ROW, disabled=True), {"id": "k", "name": "k"}],
        [group("g", {**ROW, "config": {"n": 2}}, disabled=True), {"id": "k", "name": "k"}],
        [],
    ),
    "enabled by leaving its group": (
        [group("g", ROW, disabled=True)],
        [ROW],
        ["enable r (a)", "remove g"],
    ),
    "a new row that is disabled": ([], [{**ROW, "disabled": True}], []),
    "inner groups go first": (
        [group("g", group("h", ROW))],
        [],
        ["remove r (a)", "remove h", "remove g"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_done_with_a_row(case: str) -> None:
    """One line for each row that is not kept."""
    before, after, expected = CASES[case]
    plan = make_plan(read_entries(before), read_entries(after))
    assert [str(change) for change in plan if change.action != "keep"] == expected
    assert bool(plan) == bool(expected)
    assert str(plan) == ("\n".join(expected) or "nothing changes")


def test_a_row_that_does_not_run_is_added() -> None:
    """It is enabled, and ended some time ago."""
    rows = read_entries([ROW])
    assert str(make_plan(rows, rows, missing={"r"})) == "add r (a): it does not run"


def test_a_loader_that_has_not_started_plans_to_add_everything(tmp_path: Path) -> None:
    """Nothing is imported for that."""
    (tmp_path / "harness.yaml").write_text("- name: ./nothing.py\n- {name: x, disabled: true}\n")
    manifest = read_manifest(tmp_path / "harness.yaml")
    plan = Loader(manifest, Resolver(tmp_path)).plan()
    assert [(change.action, change.id, change.place.line) for change in plan] == [
        ("add", "./nothing.py", 1),
        ("keep", "x", 2),
    ]
