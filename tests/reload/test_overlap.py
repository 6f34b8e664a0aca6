"""Plugins with `overlap = True`: the next life begins before the present one ends."""

from __future__ import annotations

import gc
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from harness_core import Context, Fiber, FiberState, Service, create_scope, scope_target
from harness_core.errors import (
    ConfigError,
    DuplicateRegistrationError,
    PluginError,
    SelfDisposalError,
    ServiceConflictError,
)
from harness_core.kernel.swap import Replacement, swap
from harness_core.prompt import SystemPrompt, render_context_snapshot, render_prompt
from harness_core.testing import assert_no_residue, ledger

from .project import open_project
from .test_reloader import Tree

pytestmark = pytest.mark.asyncio

DEADLINE = 20.0


class Overlapping:
    """A plugin of which two may live at once; `body` is its body."""

    name = "twin"
    overlap = True

    def __init__(self, body: Callable[..., Any], *inject: str) -> None:
        self.body = body
        self.inject = ["system_prompt", *inject]

    def apply(self, ctx: Context) -> Any:
        return self.body(ctx)


class Stage:
    """A live tree, and what happened in it."""

    def __init__(self, root: Context) -> None:
        self.root = root
        self.journal: list[str] = []

    def told(self) -> list[str]:
        """Return what happened since the last time."""
        told, self.journal = self.journal, []
        return told

    async def swap(self, *pairs: tuple[Fiber, object]) -> None:
        with anyio.fail_after(DEADLINE):
            await swap(self.root, [Replacement(fiber, plugin) for fiber, plugin in pairs])

    async def prompt(self) -> str:
        with anyio.fail_after(DEADLINE):
            assembly = await self.root.system_prompt.assemble()
        snapshot = render_context_snapshot(assembly)
        return "\n\n".join(text for text in (render_prompt(assembly), snapshot) if text)

    def version(self, number: int, *, asynchronous: bool = True) -> Overlapping:
        """Return a version that registers something of every kind under the same names."""

        def register(ctx: Context) -> Callable[[], None]:
            self.journal.append(f"up {number}")
            prompt = ctx.system_prompt
            prompt.section("rules", "rules {{version}}", order=5)
            prompt.context("now", f"now {number}", order=5)
            prompt.variable("version", str(number))
            prompt.tools(lambda: [{"name": f"tool{number}", "description": "", "parameters": {}}])
            ctx.provide("store", f"store {number}")
            ctx.accessor("answer", lambda _: number)
            ctx.on("ping", lambda: self.journal.append(f"ping {number}"))
            scope = create_scope(ctx, "agent", parent="everybody")
            scope.ctx.system_prompt.section("own", f"own {number}", order=6)
            scope.ctx.on("ping", lambda: self.journal.append(f"scope ping {number}"))
            ctx.inject(["store"], lambda inner: self.journal.append(f"child {inner.store}"))
            return lambda: self.journal.append(f"down {number}")

        async def register_later(ctx: Context) -> Callable[[], None]:
            await anyio.lowlevel.checkpoint()
            down = register(ctx)
            await anyio.lowlevel.checkpoint()
            return down

        return Overlapping(register_later if asynchronous else register)

    def user(self) -> Callable[..., Any]:
        """Return a plugin that uses the service."""

        def user(ctx: Context) -> Callable[[], None]:
            self.journal.append(f"user up {ctx.store}")
            return lambda: self.journal.append(f"user down {ctx.store}")

        user.inject = ["store"]  # type: ignore[attr-defined]
        return user


@asynccontextmanager
async def open_stage() -> AsyncIterator[Stage]:
    async with Context() as root:
        await root.plugin(SystemPrompt, include_harness_identity=False)
        yield Stage(root)


def neighbour(ctx: Context) -> None:
    ctx.system_prompt.section("neighbour", "neighbour", order=5)
    ctx.system_prompt.context("neighbour", "neighbour", order=5)


neighbour.inject = ["system_prompt"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_the_new_body_runs_first_and_nothing_is_ever_down(asynchronous: bool) -> None:
    async with open_stage() as stage:
        fiber = await stage.root.plugin(stage.version(1, asynchronous=asynchronous))
        await stage.root.plugin(neighbour)
        await stage.root.plugin(stage.user())
        before = await stage.prompt()
        registered = ledger(stage.root)
        assert stage.told() == ["up 1", "child store 1", "user up store 1"]

        await stage.swap((fiber, stage.version(2, asynchronous=asynchronous)))

        assert stage.told() == [
            "up 2",
            "child store 2",
            "user down store 1",
            "user up store 2",
            "down 1",
        ]
        assert fiber.state is FiberState.ACTIVE
        assert ledger(stage.root) == registered
        assert await stage.prompt() == before.replace("1", "2")
        assembly = await stage.root.system_prompt.assemble(scope="agent")
        assert "own 2" in render_prompt(assembly)
        assert [tool.name for tool in assembly.tools] == ["tool2"]
        assert stage.root.store == "store 2"
        assert stage.root.answer == 2
        stage.root.emit("ping")
        assert stage.told() == ["ping 2", "scope ping 2"]


async def test_disposal_and_restart_are_those_of_any_plugin() -> None:
    async with open_stage() as stage:
        await stage.root.plugin(neighbour)
        with assert_no_residue(stage.root):
            fiber = await stage.root.plugin(stage.version(1))
            await stage.swap((fiber, stage.version(2)))
            await fiber.restart()
            assert stage.told()[-3:] == ["down 2", "up 2", "child store 2"]
            assert [child.path for child in fiber.children] == [
                "root/twin/scope",
                "root/twin/<lambda>",
            ]
            assert ledger(fiber).path == "root/twin"
            await fiber.dispose()
        assert stage.told() == ["down 2"]
        assert stage.root.kernel.tree.lives == 0
        assert stage.root.kernel.tree.silent == {}


async def test_a_new_body_that_fails_leaves_the_old_life_alone() -> None:
    async with open_stage() as stage:
        fiber = await stage.root.plugin(stage.version(1))
        await stage.root.plugin(stage.user())
        await stage.root.plugin(neighbour)
        before = await stage.prompt()
        stage.told()

        async def late(ctx: Context) -> None:
            await stage.version(2).body(ctx)
            raise ValueError("too late")

        def early(ctx: Context) -> None:
            stage.version(2, asynchronous=False).body(ctx)
            raise ValueError("too early")

        async def cancelled(ctx: Context) -> None:
            await stage.version(2).body(ctx)
            raise anyio.get_cancelled_exc_class()("from nowhere")

        def child_fails(ctx: Context) -> None:
            def child(_: Context) -> None:
                raise ValueError("the child fails")

            stage.version(2, asynchronous=False).body(ctx)
            ctx.plugin(child)

        def task_fails(ctx: Context) -> None:
            async def crash() -> None:
                raise ValueError("the task fails")

            ctx.start_soon(crash)
            ctx.effect(lambda: anyio.sleep(0.01))

        for body in (late, early, cancelled, child_fails, task_fails):
            with (
                assert_no_residue(stage.root),
                pytest.raises((ValueError, PluginError)) as raised,
            ):
                await stage.swap((fiber, Overlapping(body)))
            assert "twin" in "".join(raised.value.__notes__)
            assert "down 1" not in stage.journal, body
            assert "user" not in "".join(stage.told()), body
            assert await stage.prompt() == before
            assert stage.root.store == "store 1"
            stage.root.emit("ping")
            assert stage.told() == ["ping 1", "scope ping 1"]
        await stage.swap((fiber, stage.version(3)))
        assert await stage.prompt() == before.replace("1", "3")


async def test_a_user_that_fails_with_the_new_service_gets_the_old_one_back() -> None:
    async with open_stage() as stage:
        fiber = await stage.root.plugin(stage.version(1))

        def picky(ctx: Context) -> Callable[[], None]:
            stage.journal.append(f"picky up {ctx.store}")
            if ctx.store == "store 2":
                raise ValueError("not this one")
            return lambda: stage.journal.append(f"picky down {ctx.store}")

        picky.inject = ["store"]  # type: ignore[attr-defined]
        user = await stage.root.plugin(picky)
        before = await stage.prompt()
        stage.told()
        with assert_no_residue(stage.root), pytest.raises(ValueError, match="not this one"):
            await stage.swap((fiber, stage.version(2)))
        assert stage.told() == [
            "up 2",
            "child store 2",
            "picky down store 1",
            "picky up store 2",
            "down 2",
            "picky up store 1",
        ]
        assert user.state is FiberState.ACTIVE
        assert await stage.prompt() == before
        stage.root.emit("ping")
        assert stage.told() == ["ping 1", "scope ping 1"]


async def test_while_both_live_no_assembly_begins_and_one_of_them_hears() -> None:
    async with open_stage() as stage:
        fiber = await stage.root.plugin(stage.version(1))
        before = await stage.prompt()
        stage.told()
        proceed, reached = anyio.Event(), anyio.Event()

        async def slow(ctx: Context) -> None:
            await stage.version(2).body(ctx)
            reached.set()
            await proceed.wait()

        texts: list[str] = []

        async def assemble() -> None:
            texts.append(await stage.prompt())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stage.swap, (fiber, Overlapping(slow)))
            await reached.wait()
            stage.told()
            for _ in range(3):
                tasks.start_soon(assemble)
            await anyio.wait_all_tasks_blocked()
            assert texts == []
            stage.root.emit("ping")
            assert stage.told() == ["ping 1", "scope ping 1"]
            assert stage.root.store == "store 1"
            assert stage.root.answer == 1
            assert fiber.state is FiberState.ACTIVE
            proceed.set()
        assert texts == [before.replace("1", "2")] * 3


async def test_an_assembly_that_has_begun_ends_on_what_it_began_with() -> None:
    async with open_stage() as stage:
        proceed, reached = anyio.Event(), anyio.Event()

        def version(number: int) -> Overlapping:
            async def text() -> str:
                reached.set()
                await proceed.wait()
                return f"slow {number}"

            def body(ctx: Context) -> None:
                ctx.system_prompt.section("slow", text, order=1)
                ctx.system_prompt.section("quick", f"quick {number}", order=2)

            return Overlapping(body)

        fiber = await stage.root.plugin(version(1))
        texts: list[str] = []

        async def assemble() -> None:
            texts.append(await stage.prompt())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(assemble)
            await reached.wait()
            await stage.swap((fiber, version(2)))
            tasks.start_soon(assemble)
            proceed.set()
        assert sorted(texts) == ["slow 1\n\nquick 1", "slow 2\n\nquick 2"]


async def test_what_the_new_version_no_longer_has_goes_and_what_is_new_comes() -> None:
    async with open_stage() as stage:

        def old(ctx: Context) -> None:
            for name in ("a", "b", "c"):
                ctx.system_prompt.section(name, name, order=5)
            ctx.provide("gone", 1)

        def new(ctx: Context) -> None:
            for name in ("d", "c", "a"):
                ctx.system_prompt.section(name, name.upper(), order=5)
            ctx.provide("come", 2)

        fiber = await stage.root.plugin(Overlapping(old))
        await stage.root.plugin(neighbour)
        seen: list[Any] = []

        def waits(ctx: Context) -> None:
            seen.append((ctx.get("gone"), ctx.get("come")))

        for key in ("gone", "come"):
            stage.root.inject([key], waits)
        await stage.swap((fiber, Overlapping(new)))
        text = await stage.prompt()
        assert [line for line in text.split("\n\n") if len(line) == 1] == ["A", "C", "D"]
        assert text.index("neighbour") < text.index("D")
        assert stage.root.get("gone") is None
        assert seen[-1][1] == 2


async def test_state_is_handed_over_by_carry() -> None:
    async with open_stage() as stage:

        def body(ctx: Context) -> None:
            lives = ctx.carry("lives", [])
            lives.append("another")
            ctx.provide("lives", lives)

        fiber = await stage.root.plugin(Overlapping(body))
        await stage.swap((fiber, Overlapping(body)))
        await fiber.restart()
        assert stage.root.lives == ["another"] * 3


async def test_a_service_object_may_be_carried_from_life_to_life() -> None:
    class Store(Service, key="kept"):
        def mark(self) -> None:
            self.ctx.on("ping", lambda: None)

    async with open_stage() as stage:

        def body(ctx: Context) -> None:
            ctx.provide("kept", ctx.carry("kept", Store()))

        def fails(ctx: Context) -> None:
            body(ctx)
            raise ValueError("no")

        fiber = await stage.root.plugin(Overlapping(body))
        user = stage.root.inject(["kept"], lambda ctx: ctx.kept.mark())
        await stage.swap((fiber, Overlapping(body)))
        assert user.state is FiberState.ACTIVE
        with pytest.raises(ValueError, match="no"):
            await stage.swap((fiber, Overlapping(fails)))
        assert stage.root.kept.home.fiber.state is FiberState.ACTIVE
        stage.root.kept.mark()


async def test_providers_begin_before_their_users_and_end_after_them() -> None:
    async with open_stage() as stage:

        def provider(number: int) -> Overlapping:
            def body(ctx: Context) -> Callable[[], None]:
                stage.journal.append(f"provider up {number}")
                ctx.provide("base", number)
                return lambda: stage.journal.append(f"provider down {number}")

            return Overlapping(body)

        def user(number: int) -> Overlapping:
            def body(ctx: Context) -> Callable[[], None]:
                stage.journal.append(f"user up {number} with {ctx.base}")
                ctx.provide("upper", number)
                return lambda: stage.journal.append(f"user down {number} with {ctx.base}")

            return Overlapping(body, "base")

        def top(ctx: Context) -> Callable[[], None]:
            stage.journal.append(f"top up {ctx.base} {ctx.upper}")
            return lambda: stage.journal.append(f"top down {ctx.base} {ctx.upper}")

        above = stage.root.plugin(user(1))  # mounted first: mount order never matters
        below = await stage.root.plugin(provider(1))
        stage.root.inject(["base", "upper"], top)
        stage.told()
        await stage.swap((above, user(2)), (below, provider(2)))
        assert stage.told() == [
            "provider up 2",
            "user up 2 with 2",
            "top down 1 1",
            "top up 2 2",
            "user down 1 with 1",
            "provider down 1",
        ]


async def test_what_uses_a_plugin_that_goes_down_goes_down_with_it() -> None:
    async with open_stage() as stage:

        def plain(number: int) -> Callable[..., Any]:
            def plain(ctx: Context) -> Callable[[], None]:
                stage.journal.append(f"plain up {number}")
                ctx.provide("base", number)
                return lambda: stage.journal.append(f"plain down {number}")

            return plain

        def user(number: int) -> Overlapping:
            def body(ctx: Context) -> Callable[[], None]:
                stage.journal.append(f"user up {number}")
                return lambda: stage.journal.append(f"user down {number}")

            return Overlapping(body, "base")

        below = await stage.root.plugin(plain(1))
        above = await stage.root.plugin(user(1))
        stage.told()
        await stage.swap((above, user(2)), (below, plain(2)))
        assert stage.told() == ["user down 1", "plain down 1", "plain up 2", "user up 2"]


async def test_an_ordinary_plugin_that_fails_takes_the_succession_back() -> None:
    async with open_stage() as stage:
        fiber = await stage.root.plugin(stage.version(1))

        def plain(ctx: Context) -> None:
            stage.journal.append("plain up")

        def broken(ctx: Context) -> None:
            raise ValueError("broken")

        other = await stage.root.plugin(plain)
        before = await stage.prompt()
        stage.told()
        with assert_no_residue(stage.root), pytest.raises(ValueError, match="broken"):
            await stage.swap((fiber, stage.version(2)), (other, broken))
        assert stage.told() == ["up 2", "child store 2", "down 2", "plain up"]
        assert await stage.prompt() == before


async def test_the_attribute_may_come_and_go_with_a_version() -> None:
    async with open_stage() as stage:

        def version(number: int, overlap: bool) -> Overlapping:
            made = stage.version(number)
            made.overlap = overlap  # type: ignore[misc]
            return made

        fiber = await stage.root.plugin(version(1, False))
        for number, overlap, order in (
            (2, True, ["down 1", "up 2"]),
            (3, True, ["up 3", "down 2"]),
            (4, False, ["down 3", "up 4"]),
        ):
            stage.told()
            await stage.swap((fiber, version(number, overlap)))
            assert [one for one in stage.told() if "child" not in one] == order
            assert f"rules {number}" in await stage.prompt()


async def test_a_next_life_may_need_other_services() -> None:
    async with open_stage() as stage:
        stage.root.provide("first", 1)
        second = stage.root.provide("second", 2)

        def body(ctx: Context) -> Callable[[], None]:
            found = ctx.get("first"), ctx.get("second")
            stage.journal.append(f"up {found}")
            return lambda: stage.journal.append("down")

        fiber = await stage.root.plugin(Overlapping(body, "first"))
        await stage.swap((fiber, Overlapping(body, "second")))
        assert stage.told() == ["up (1, 2)", "up (1, 2)", "down"]
        second()
        assert stage.told() == ["down"]
        assert fiber.waiting_for == ["second"]
        stage.root.provide("second", 3)
        assert stage.told() == ["up (1, 3)"]
        await stage.swap((fiber, Overlapping(body, "third")))
        assert fiber.waiting_for == ["third"]
        assert stage.told() == ["down"]
        stage.root.provide("third", 3)
        await fiber
        assert stage.told() == ["up (1, 3)"]


async def test_a_service_that_goes_during_a_succession_ends_both_lives() -> None:
    async with open_stage() as stage:
        base = stage.root.provide("base", 1)
        reached, proceed = anyio.Event(), anyio.Event()

        def old(ctx: Context) -> Callable[[], None]:
            stage.journal.append("old up")
            return lambda: stage.journal.append("old down")

        async def new(ctx: Context) -> Callable[[], None]:
            stage.journal.append("new up")
            reached.set()
            await proceed.wait()
            return lambda: stage.journal.append("new down")

        with assert_no_residue(stage.root):
            fiber = await stage.root.plugin(Overlapping(old, "base"))
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(stage.swap, (fiber, Overlapping(new, "base")))
                await reached.wait()
                await base()
                assert stage.told() == ["old up", "new up", "old down"]
                proceed.set()
            assert fiber.waiting_for == ["base"]
            base = stage.root.provide("base", 2)
            await fiber
            assert stage.told() == ["new up"]
            await fiber.dispose()
            base()
        assert stage.root.kernel.tree.lives == 0


async def test_disposal_during_a_succession_ends_both_lives() -> None:
    async with open_stage() as stage:
        reached = anyio.Event()

        async def never(ctx: Context) -> None:
            await stage.version(2).body(ctx)
            reached.set()
            await anyio.sleep_forever()

        with assert_no_residue(stage.root):
            fiber = await stage.root.plugin(stage.version(1))
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(stage.swap, (fiber, Overlapping(never)))
                await reached.wait()
                await fiber.dispose()
            assert fiber.state is FiberState.DISPOSED
        assert stage.root.kernel.tree.lives == 0
        assert stage.root.kernel.tree.silent == {}


async def test_a_cancelled_caller_leaves_one_life() -> None:
    async with open_stage() as stage:
        fiber = await stage.root.plugin(stage.version(1))
        reached, proceed = anyio.Event(), anyio.Event()

        async def slow(ctx: Context) -> None:
            await stage.version(2).body(ctx)
            reached.set()
            await proceed.wait()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stage.swap, (fiber, Overlapping(slow)))
            await reached.wait()
            tasks.cancel_scope.cancel()
        proceed.set()
        assert "rules 2" in await stage.prompt()
        assert stage.root.kernel.tree.lives == 1


async def test_a_crash_ends_the_plugin_once() -> None:
    async with open_stage() as stage:
        errors: list[tuple[Fiber, str]] = []
        stage.root.on("fiber/error", lambda fiber, error: errors.append((fiber, str(error))))
        crash = anyio.Event()

        def body(ctx: Context) -> Callable[[], None]:
            async def task() -> None:
                await crash.wait()
                raise ValueError("crashed")

            ctx.start_soon(task)
            return lambda: stage.journal.append("down")

        fiber = await stage.root.plugin(Overlapping(body))
        crash.set()
        await anyio.wait_all_tasks_blocked()
        assert fiber.state is FiberState.FAILED
        assert errors == [(fiber, "crashed")]
        assert stage.told() == ["down"]
        crash = anyio.Event()
        await fiber.restart()
        assert fiber.state is FiberState.ACTIVE


async def test_a_body_that_fails_is_reported_once() -> None:
    async with open_stage() as stage:
        errors: list[tuple[Fiber, str]] = []
        stage.root.on("fiber/error", lambda fiber, error: errors.append((fiber, str(error))))
        states: list[str] = []
        stage.root.on("fiber/state", lambda fiber, _: states.append(fiber.state.value))

        def now(ctx: Context) -> None:
            raise ValueError("now")

        async def later(ctx: Context) -> None:
            await anyio.lowlevel.checkpoint()
            raise ValueError("later")

        for body in (now, later):
            fiber = stage.root.plugin(Overlapping(body))
            with pytest.raises(ValueError, match=body.__name__):
                await fiber
            assert errors == [(fiber, body.__name__)]
            assert states == ["loading", "unloading", "failed"]
            errors.clear()
            states.clear()
            await fiber.dispose()
            states.clear()


async def test_code_of_the_plugin_speaks_of_its_fiber() -> None:
    async with open_stage() as stage:
        contexts: list[Context] = []
        fiber = await stage.root.plugin(Overlapping(contexts.append))
        (ctx,) = contexts
        assert ctx.fiber.path == fiber.path == "root/twin"
        assert ctx.fiber.plugin_name == "twin"
        refused: list[BaseException] = []

        async def end() -> None:
            try:
                await ctx.fiber.dispose()
            except SelfDisposalError as error:
                refused.append(error)
                raise

        ctx.start_soon(end)
        await anyio.wait_all_tasks_blocked()
        assert len(refused) == 1
        assert fiber.state is FiberState.DISPOSED


async def test_names_collide_with_everybody_else_as_always() -> None:
    async with open_stage() as stage:
        await stage.root.plugin(neighbour)
        stage.root.provide("taken", 1)
        fiber = await stage.root.plugin(stage.version(1))

        def section(ctx: Context) -> None:
            ctx.system_prompt.section("neighbour", "mine", order=1)

        def twice(ctx: Context) -> None:
            ctx.system_prompt.section("rules", "mine", order=1)
            ctx.system_prompt.section("rules", "mine", order=1)

        def service(ctx: Context) -> None:
            ctx.provide("taken", 2)

        def service_twice(ctx: Context) -> None:
            ctx.provide("store", 2)
            ctx.provide("store", 2)

        def attribute(ctx: Context) -> None:
            ctx.accessor("answer", lambda _: 1)
            ctx.accessor("answer", lambda _: 1)

        for body, error in (
            (section, DuplicateRegistrationError),
            (twice, DuplicateRegistrationError),
            (service, ServiceConflictError),
            (service_twice, ServiceConflictError),
            (attribute, PluginError),
        ):
            with assert_no_residue(stage.root), pytest.raises(error):
                await stage.swap((fiber, Overlapping(body)))
        assert "rules 1" in await stage.prompt()


async def test_names_may_move_within_the_plugin_from_version_to_version() -> None:
    async with open_stage() as stage:

        def direct(ctx: Context) -> None:
            ctx.system_prompt.section("rules", "direct", order=5)

        def by_a_child(ctx: Context) -> None:
            def child(inner: Context) -> None:
                inner.system_prompt.section("rules", "by a child", order=5)

            ctx.inject(["system_prompt"], child)

        fiber = await stage.root.plugin(Overlapping(direct))
        await stage.swap((fiber, Overlapping(by_a_child)))
        assert await stage.prompt() == "by a child"
        await stage.swap((fiber, Overlapping(direct)))
        assert await stage.prompt() == "direct"


async def test_events_aimed_at_a_scope_reach_one_life() -> None:
    async with open_stage() as stage:
        fiber = await stage.root.plugin(stage.version(1))
        await stage.swap((fiber, stage.version(2)))
        stage.told()
        stage.root.emit("ping", target=scope_target(None, "agent"))
        assert stage.told() == ["ping 2", "scope ping 2"]


# Config


class Counting:
    """A plugin with a config."""

    name = "twin"
    overlap = True
    inject = ("system_prompt",)

    def __init__(self, stage: Stage, in_place: bool = False) -> None:
        self.stage = stage
        self.in_place = in_place

    def apply(self, ctx: Context, config: Any) -> Callable[[], None]:
        number = config["number"]
        self.stage.journal.append(f"up {number}")
        if number < 0:
            raise ValueError("negative")
        ctx.system_prompt.section("number", str(number), order=1)
        if self.in_place:
            ctx.on_update(lambda new: self.stage.journal.append(f"in place {new['number']}"))
        return lambda: self.stage.journal.append(f"down {number}")


async def test_another_config_takes_over_in_the_same_way() -> None:
    async with open_stage() as stage:
        fiber = await stage.root.plugin(Counting(stage), number=1)
        stage.told()
        await fiber.update({"number": 2})
        assert stage.told() == ["up 2", "down 1"]
        assert await stage.prompt() == "2"
        with assert_no_residue(stage.root), pytest.raises(ValueError, match="negative"):
            await fiber.update({"number": -1})
        assert stage.told() == ["up -1"]
        assert await stage.prompt() == "2"
        assert fiber.config == {"number": 2}


async def test_an_update_in_place_reaches_the_present_life() -> None:
    async with open_stage() as stage:
        fiber = await stage.root.plugin(Counting(stage, in_place=True), number=1)
        await stage.swap((fiber, Counting(stage, in_place=True)))
        stage.told()
        await fiber.update({"number": 2})
        assert stage.told() == ["in place 2"]
        assert fiber.config == {"number": 2}


async def test_an_invalid_config_starts_nothing() -> None:
    async with open_stage() as stage:
        fiber = await stage.root.plugin(stage.version(1))
        stage.told()
        with pytest.raises(ConfigError):
            await fiber.update({"number": 1})
        assert stage.told() == []


async def test_the_attribute_must_say_yes_or_no() -> None:
    async with open_stage() as stage:

        def plugin(ctx: Context) -> None: ...

        plugin.overlap = "yes"  # type: ignore[attr-defined]
        with pytest.raises(PluginError, match="overlap is 'yes': expected True or False"):
            stage.root.plugin(plugin)


# Real files

MODULE = """\
from __future__ import annotations
overlap = True
inject = ["system_prompt"]
def apply(ctx):
    from . import helper
    ctx.get("journal").append("up {number}")
    ctx.system_prompt.section("rules", ctx.watch_file(ctx.get("text")), order=1)
    {fault}
    def down():
        from . import helper
        ctx.get("journal").append("down {number} " + helper.NUMBER)
    return down
"""


async def test_a_module_takes_over_from_its_old_version(tmp_path: Path) -> None:
    with open_project(tmp_path, observed=False) as project:
        async with Context() as root:
            journal: list[str] = []
            text = project.write("text.txt", "text 1")
            root.provide("journal", journal)
            root.provide("text", str(text))
            await root.plugin(SystemPrompt, include_harness_identity=False)
            tree = Tree(root, project)

            def save(number: int, fault: str = "") -> tuple[Path, Path]:
                return (
                    project.write("twins/plugin.py", MODULE.format(number=number, fault=fault)),
                    project.write("twins/helper.py", f"NUMBER = '{number}'"),
                )

            save(1)
            fiber = await tree.mount("twins.plugin")
            assert journal == ["up 1"]
            tree.good(await tree.reload(*save(2)))
            # While both lived, each was torn down among the modules it belongs to.
            assert journal == ["up 1", "up 2", "down 1 1"]

            (report,) = await tree.reload(*save(3, "raise ValueError('broken')"))
            assert isinstance(report.error, ValueError)
            assert list(tree.reloader.stale) == [fiber]
            assert journal == ["up 1", "up 2", "down 1 1", "up 3"]

            (report,) = await tree.reload(*save(4, "return ("))
            assert report.error is not None
            assert journal == ["up 1", "up 2", "down 1 1", "up 3"]

            tree.good(await tree.reload(*save(5)))
            assert journal[4:] == ["up 5", "down 2 2"]

            project.write("text.txt", "text 2")
            tree.good(await tree.reload(text))
            assert journal[6:] == ["up 5", "down 5 5"]
            assert await tree.prompt() == "text 2"
            await fiber.dispose()


async def test_tools_stand_behind_those_of_the_old_life_too() -> None:
    from harness_plugins import tools

    async with open_stage() as stage:
        await stage.root.plugin(tools)
        reached, proceed = anyio.Event(), anyio.Event()

        def version(number: int, *, slow: bool = False) -> Overlapping:
            async def body(ctx: Context) -> None:
                @ctx.tools.register()
                def shout(text: str) -> str:
                    """Say it louder."""
                    return f"{text}{'!' * number}"

                if slow:
                    reached.set()
                    await proceed.wait()

            return Overlapping(body, "tools")

        answers: list[str] = []

        async def ask() -> None:
            arguments = {"text": "hey"}
            result = await stage.root.tools.execute("shout", arguments, scope=None)
            answers.append(result.text)

        fiber = await stage.root.plugin(version(1))
        await ask()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stage.swap, (fiber, version(2, slow=True)))
            await reached.wait()
            assert stage.root.tools.get("shout", None) is not None
            tasks.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            proceed.set()
        assert answers == ["hey!", "hey!!"]
        assembly = await stage.root.system_prompt.assemble()
        assert [tool.name for tool in assembly.tools] == ["shout"]
        await fiber.dispose()
        assert (await stage.root.system_prompt.assemble()).tools == []


async def test_no_registry_keeps_a_life_that_has_ended() -> None:
    """A place knows the life that took it, so what is only a number must not be that place."""
    async with open_stage() as stage:

        def body(ctx: Context) -> None:
            ctx.system_prompt.section("twin", "words", order=50)

        fiber = await stage.root.plugin(Overlapping(body))
        life = weakref.ref(fiber.updater.life)
        assert life() is not None
        await fiber.dispose()
        del fiber
        gc.collect()
        assert life() is None
