"""`assert_no_residue` names what a block leaves: kind, label, owner, file and line."""

# ruff: noqa: PT012, SIM117  (the block is what is tested)

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from harness_core import Context, Event, Service, create_scope, inject, override
from harness_core.prompt import SystemPrompt
from harness_core.testing import (
    Residue,
    ResidueError,
    assert_no_residue,
    ledger,
    observe,
    run_with_virtual_clock,
)


class Key:
    """A scope key."""


class Layered(Service, key="layered"):
    """A service with a registry of its own, as first-party plugins have."""

    def __init__(self) -> None:
        from harness_core import NamedEntries, ScopedLayers

        self.rules: Any = ScopedLayers(lambda _: NamedEntries(KeyError))

    def rule(self, name: str) -> None:
        self.rules.effect(self.ctx, lambda layer: layer.insert(name, name), label=f"rule {name}")


Leaving = Callable[[Context], Any]


def _line(marker: str) -> int:
    lines = inspect.getsource(sys.modules[__name__]).splitlines()
    return next(n for n, line in enumerate(lines, 1) if line.rstrip().endswith(f"# {marker}"))


def leave_section(root: Context) -> None:
    create_scope(root, Key()).ctx.system_prompt.section("guide", "text", order=1)  # section


def leave_task(root: Context) -> None:
    root.start_soon(anyio.sleep_forever, name="sleeper")  # task


LEAVING: dict[str, tuple[Leaving, str, str]] = {
    "fiber": (lambda root: root.plugin(lambda _: None), "fiber", "root/anonymous"),
    "effect": (lambda root: root.effect(lambda: print, label="mine"), "effect", "mine"),
    "listener": (lambda root: root.on("law", print), "listener", '"law"'),
    "service": (lambda root: root.provide("value", 1), "service", '"value"'),
    "layer": (leave_section, "layer", "section guide"),
    "own layer": (lambda root: root.layered.rule("no"), "layer", "entry no"),
    "override": (lambda root: override(root, "value", 1).__enter__(), "override", "value"),
    "accessor": (lambda root: root.accessor("own", print), "accessor", '"own"'),
    "event": (lambda root: root.on(Event("declared"), print), "listener", "declared"),
    "consumer": (
        lambda root: root.plugin(inject("nobody")(lambda _: None)),
        "consumer",
        '"nobody"',
    ),
    "task": (leave_task, "task", "sleeper"),
}


def run(test: Callable[[Context], Awaitable[None]]) -> None:
    async def main() -> None:
        async with Context() as root:
            await root.plugin(SystemPrompt)
            await root.plugin(Layered)
            await test(root)

    run_with_virtual_clock(main)


def found(error: ResidueError, kind: str, label: str) -> list[Residue]:
    return [one for one in error.left if one.kind == kind and label in one.label + one.owner]


@pytest.mark.parametrize("what", LEAVING)
def test_each_kind_of_residue_is_found(what: str) -> None:
    leave, kind, label = LEAVING[what]

    async def test(root: Context) -> None:
        with pytest.raises(ResidueError) as caught:
            async with assert_no_residue(root):
                leave(root)
                await anyio.sleep(1)
        assert found(caught.value, kind, label), str(caught.value)
        with pytest.raises(AssertionError, match=r"left .* behind"), assert_no_residue(root):
            # Also as a plain context manager, and for what comes on top of what was left.
            root.on("again", print)

    run(test)


def test_it_says_where() -> None:
    async def test(root: Context) -> None:
        with pytest.raises(ResidueError) as caught:
            async with assert_no_residue(root):
                leave_section(root)
                leave_task(root)
                await anyio.sleep(1)
        error = caught.value
        for kind, label, marker in (("layer", "guide", "section"), ("effect", "sleeper", "task")):
            (residue,) = [one for one in found(error, kind, label) if one.line]
            assert (residue.file, residue.line) == (__file__, _line(marker))
            assert f"{__file__}:{_line(marker)}" in str(error)

    run(test)


def test_what_comes_and_goes_is_no_residue() -> None:
    async def test(root: Context) -> None:
        async with assert_no_residue(root, modules=True, links=True):

            @inject("system_prompt")
            async def plugin(ctx: Context) -> None:
                ctx.system_prompt.section("a", "b", order=1)
                ctx.start_soon(anyio.sleep_forever)
                ctx.on("law", print)
                ctx.inject(["layered"], lambda ctx: ctx.layered.rule("yes"))

            fiber = await root.plugin(plugin)
            await fiber.restart()
            await fiber.dispose()

    run(test)


def test_a_restart_is_no_residue() -> None:
    async def test(root: Context) -> None:
        def plugin(ctx: Context) -> None:
            ctx.on("law", print)
            ctx.start_soon(anyio.sleep_forever)

        fiber = await root.plugin(plugin)
        before = ledger(root)
        async with assert_no_residue(root):
            await fiber.restart()
        assert ledger(root) == before

    run(test)


def test_one_more_of_the_same_is_residue() -> None:
    async def test(root: Context) -> None:
        def add() -> None:
            root.on("law", print)

        add()
        with pytest.raises(ResidueError) as caught, assert_no_residue(root):
            add()
        assert len(found(caught.value, "listener", "law")) == 1

    run(test)


def test_a_task_that_nobody_owns_is_found() -> None:
    async def test(root: Context) -> None:
        async def stray() -> None:
            await anyio.sleep_forever()

        async with anyio.create_task_group() as tasks:
            with pytest.raises(ResidueError) as caught, assert_no_residue(root):
                tasks.start_soon(stray, name="stray")
                await anyio.sleep(1)
            with assert_no_residue(root, tasks=False):
                tasks.start_soon(stray)
            tasks.cancel_scope.cancel()
        (residue,) = caught.value.left
        assert (residue.kind, residue.file) == ("task", __file__)
        assert "stray" in residue.label

    run(test)


def test_modules_and_links_on_request() -> None:
    async def test(root: Context) -> None:
        key, parent = Key(), Key()
        with assert_no_residue(root):
            sys.modules["harness_left_behind"] = types.ModuleType("harness_left_behind")
            await create_scope(root, key, parent=parent).dispose()
        with pytest.raises(ResidueError, match="module harness_left_behind_too"):
            with assert_no_residue(root, modules=True):
                sys.modules["harness_left_behind_too"] = types.ModuleType("x")
        with pytest.raises(ResidueError, match="link"), assert_no_residue(root, links=True):
            await create_scope(root, parent, parent=Key()).dispose()
        del sys.modules["harness_left_behind"], sys.modules["harness_left_behind_too"]

    run(test)


def test_the_error_of_the_block_comes_first() -> None:
    async def test(root: Context) -> None:
        with pytest.raises(ZeroDivisionError) as caught, assert_no_residue(root):
            root.on("law", print)
            raise ZeroDivisionError
        assert 'listener "law"' in caught.value.__notes__[0]

    run(test)


def test_what_is_still_under_way_is_residue() -> None:
    async def test(root: Context) -> None:
        async def slow() -> None:
            await anyio.sleep(1)

        fiber = await root.plugin(lambda _: slow)
        with assert_no_residue(root):
            pass
        before = observe(root)
        fiber.dispose()
        assert any(one.kind == "task" for one in observe(root).added_since(before))
        await fiber.dispose()
        assert not observe(root).added_since(before)

    run(test)
