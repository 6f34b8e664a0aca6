"""A machine that edits rows at random and reconciles, against a model of what must run.

The model knows, for each row, which plugin with which config runs, in which group, and since which
life; a reconcile that fails must leave the tree, and the prompt to the letter, as it was.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import attrs
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from harness_core import Context, Fiber
from harness_core.loader import Loader, ReconcileError, settle
from harness_core.loader.yaml_write import flow_text
from harness_core.prompt import render_prompt

from .harness import running, write_files

T = TypeVar("T")

PLUGIN = """
    lives = {}

    def body(ctx, config):
        lives[config["id"]] = lives.get(config["id"], 0) + 1
        ctx.system_prompt.section(config["id"], f"{config['id']}={config['value']}", order=5)
        if config["value"] == "boom":
            raise ValueError("no luck")

    def one(ctx, config):
        body(ctx, config)

    async def two(ctx, config):
        import anyio
        await anyio.sleep(0)
        body(ctx, config)

    def three(ctx, config):
        body(ctx, config)
        ctx.on_update(lambda new: new["value"] != "boom" and False)

    def give(ctx, config):
        body(ctx, config)
        ctx.provide("thing", config["value"])

    def take(ctx, config):
        body(ctx, config)

    one.inject = two.inject = three.inject = give.inject = ["system_prompt"]
    take.inject = ["system_prompt", "thing"]
"""


async def _result(future: asyncio.Future[T]) -> T:
    return await future


async def _end(fiber: Fiber) -> None:
    await fiber.dispose()


IDS = [f"r{number}" for number in range(5)]
GROUPS = ["g0", "g1", "g2"]
KINDS = ["one", "two", "three", "take"]
VALUES = ["a", "b", "c", "boom"]


@attrs.frozen
class ModelRow:
    """One row of the file."""

    kind: str
    value: str
    group: str | None = None
    disabled: bool = False


@attrs.define
class Model:
    """What the file says."""

    rows: dict[str, ModelRow] = attrs.field(factory=dict[str, ModelRow])
    groups: dict[str, tuple[str | None, bool]] = attrs.field(
        factory=dict[str, "tuple[str | None, bool]"]
    )
    order: list[str] = attrs.field(factory=list[str])
    thing: str | None = None
    """The value of the one row that provides a service."""

    def copy(self) -> Model:
        return Model(dict(self.rows), dict(self.groups), list(self.order), self.thing)

    def is_on(self, group: str | None) -> bool:
        while group is not None:
            group, disabled = self.groups[group]
            if disabled:
                return False
        return True

    def runs(self) -> dict[str, ModelRow]:
        """Return the rows that must run."""
        return {
            one: row
            for one, row in self.rows.items()
            if not row.disabled
            and self.is_on(row.group)
            and (row.kind != "take" or self.thing is not None)
        }

    def text(self) -> str:
        data = self._list(None)
        if self.thing is not None:
            config = {"id": "thing", "value": self.thing}
            data.append({"id": "thing", "name": "plugs:give", "config": config})
        return "".join(f"- {flow_text(row)}\n" for row in data) or "[]\n"

    def _list(self, group: str | None) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for one in self.order:
            if one in self.rows and self.rows[one].group == group:
                row = self.rows[one]
                config = {"id": one, "value": row.value}
                data = {"id": one, "name": f"plugs:{row.kind}", "config": config}
                found.append(data | ({"disabled": True} if row.disabled else {}))
            elif one in self.groups and self.groups[one][0] == group:
                inner = self._list(one)
                data = {"id": one, "group": True, "config": inner}
                found.append(data | ({"disabled": True} if self.groups[one][1] else {}))
        return found


class Reconciling(RuleBasedStateMachine):
    """Edits, then reconciles; what runs is then the file, or what ran before."""

    @initialize()
    def boot(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.over = asyncio.Event()
        self.directory = Path(tempfile.mkdtemp())
        write_files(self.directory, plugs=PLUGIN, manifest="[]\n")
        self.model = Model()
        self.applied = Model()
        opened: asyncio.Future[tuple[Context, Loader]] = self.loop.create_future()
        self.host = self.loop.create_task(self._host(opened))
        self.root, self.loader = self.do(_result(opened))
        self.fibers: dict[str, Fiber] = {}
        self.prompt = self.do(self._prompt())

    def teardown(self) -> None:
        if hasattr(self, "loop"):
            self.over.set()
            self.do(_result(self.host))
            self.loop.close()
            shutil.rmtree(self.directory)

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        async def bounded() -> T:
            return await asyncio.wait_for(work, 20)

        return self.loop.run_until_complete(bounded())

    async def _host(self, opened: asyncio.Future[tuple[Context, Loader]]) -> None:
        """Open and close the tree in one and the same task."""
        async with running(self.directory, "system_prompt") as pair:
            opened.set_result(pair)
            await self.over.wait()

    async def _prompt(self) -> str:
        return render_prompt(await self.root.system_prompt.assemble())

    # Editing

    @rule(
        one=st.sampled_from(IDS),
        kind=st.sampled_from(KINDS),
        value=st.sampled_from(VALUES),
        disabled=st.booleans(),
        data=st.data(),
    )
    def write_row(
        self, one: str, kind: str, value: str, disabled: bool, data: st.DataObject
    ) -> None:
        group = data.draw(st.sampled_from([None, *self.model.groups]))
        self.model.rows[one] = ModelRow(kind, value, group, disabled)
        if one not in self.model.order:
            self.model.order.append(one)

    @rule(one=st.sampled_from(IDS), value=st.sampled_from(VALUES))
    def change_value(self, one: str, value: str) -> None:
        if one in self.model.rows:
            self.model.rows[one] = attrs.evolve(self.model.rows[one], value=value)

    @rule(one=st.sampled_from(IDS), data=st.data())
    def move_row(self, one: str, data: st.DataObject) -> None:
        if one in self.model.rows:
            group = data.draw(st.sampled_from([None, *self.model.groups]))
            self.model.rows[one] = attrs.evolve(self.model.rows[one], group=group)

    @rule(one=st.sampled_from(IDS))
    def drop_row(self, one: str) -> None:
        self.model.rows.pop(one, None)

    @rule(one=st.sampled_from(GROUPS), disabled=st.booleans(), data=st.data())
    def write_group(self, one: str, disabled: bool, data: st.DataObject) -> None:
        outer = [group for group in self.model.groups if group < one]
        group = data.draw(st.sampled_from([None, *outer]))
        self.model.groups[one] = (group, disabled)
        if one not in self.model.order:
            self.model.order.append(one)

    @rule(one=st.sampled_from(GROUPS))
    def dissolve_group(self, one: str) -> None:
        if one in self.model.groups:
            outer, _ = self.model.groups.pop(one)
            for inner, row in self.model.rows.items():
                if row.group == one:
                    self.model.rows[inner] = attrs.evolve(row, group=outer)
            for inner, (group, disabled) in self.model.groups.items():
                if group == one:
                    self.model.groups[inner] = (outer, disabled)

    @rule(value=st.sampled_from([None, *VALUES]))
    def write_provider(self, value: str | None) -> None:
        self.model.thing = value

    @rule(seed=st.randoms(use_true_random=False))
    def shuffle(self, seed: Any) -> None:
        seed.shuffle(self.model.order)

    @precondition(lambda self: self.fibers)
    @rule(data=st.data())
    def a_row_ends_itself(self, data: st.DataObject) -> None:
        one = data.draw(st.sampled_from(sorted(self.fibers)))
        self.do(_end(self.fibers.pop(one)))
        self.prompt = self.do(self._prompt())

    # Reconciling

    @rule()
    def reconcile(self) -> None:
        (self.directory / "harness.yaml").write_text(self.model.text())
        wanted, before = self.model.runs(), self.applied.runs()
        faulty = {one for one, row in wanted.items() if row.value == "boom"} | (
            {"thing"} if self.model.thing == "boom" else set()
        )
        if self.model.thing == "boom":
            faulty -= {one for one, row in wanted.items() if row.kind == "take"}
        planned = self.loader.plan()
        try:
            done = self.do(self.loader.reconcile())
        except ReconcileError as error:
            assert error.faults.keys() == faulty, (error.faults, faulty)
            assert error.line is not None
            assert self.do(self._prompt()) == self.prompt
            assert {one: self.loader.running[one] for one in self.fibers} == self.fibers
            return
        assert not faulty
        assert done == planned
        fibers = {one: self.loader.running[one] for one in wanted}
        for one, row in wanted.items():
            old = before.get(one)
            if old is not None and one in self.fibers and old.kind == row.kind:
                assert fibers[one] is self.fibers[one], "it keeps its very fiber"
        self.applied, self.fibers = self.model.copy(), fibers
        text = self.do(self._prompt())
        if not done:
            assert text == self.prompt
        self.prompt = text

    @invariant()
    def what_runs_is_what_was_applied(self) -> None:
        if not hasattr(self, "loop"):
            return
        assert self.do(settle(self.root.fiber, 10)) == []
        wanted = self.applied.runs()
        sections = {f"{one}={wanted[one].value}" for one in self.fibers}
        if self.applied.thing is not None:
            sections.add(f"thing={self.applied.thing}")
        found = self.prompt.split("\n\n")
        assert self.do(self._prompt()) == self.prompt
        assert set(found[1:]) == sections
        assert len(found) == len(sections) + 1
        for one, fiber in self.fibers.items():
            parent = fiber.parent
            assert parent is not None
            group = wanted[one].group
            assert parent.name == (group if group is not None else "root")
            assert fiber.config["value"] == wanted[one].value
            assert fiber in parent.children
        assert self.loader.claims == {}
        assert self.loader.prepared == {}


@pytest.fixture(autouse=True)
def _plugins_are_importable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write_files(tmp_path, plugs=PLUGIN)
    monkeypatch.syspath_prepend(tmp_path)


def test_edits_and_reconciles_at_random() -> None:
    """The file runs, or what ran before."""
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(
        Reconciling,
        settings=settings(
            max_examples=40,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
