"""L1 to L4 and L6: whatever a plugin does, it owns it, and it goes, in reverse, once.

Random trees of plugins are mounted, restarted, undone in part, disposed by many callers, and
disposed while they load. What they registered, and the order in which it is undone, is compared
with a model that knows no event loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import anyio
from anyio.lowlevel import checkpoint
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from harness_core import Context, EffectInfo, Fiber, FiberState
from harness_core.errors import InactiveFiberError
from harness_core.prompt import SystemPrompt
from harness_core.testing import observe

from .bodies import Body, Node, World, bodies, expect, is_calm, plugin_of
from .machine import Boom, TreeMachine, laws


def check_race(journal: list[str]) -> None:
    """Check a journal of which no model knows where it was cut: what was set up is undone, once.

    Of two registrations of one owner the later is undone first (L3).
    """
    set_up = [line[1:] for line in journal if line[0] == "+"]
    undone = [line[1:] for line in journal if line[0] == "-"]
    assert Counter(set_up) == Counter(undone), journal
    for owner in {name.rpartition(".")[0] for name in set_up}:
        mine = [name for name in set_up if name.rpartition(".")[0] == owner]
        gone = [name for name in undone if name.rpartition(".")[0] == owner]
        assert gone == mine[::-1], journal


class Ownership(TreeMachine):
    def __init__(self) -> None:
        self.world = World()
        self.model = Node("root", is_fiber=True)
        self.mounted = 0
        super().__init__()

    async def set_up(self) -> None:
        await self.root.plugin(SystemPrompt)

    # What there is

    def fibers(self) -> list[tuple[Node, Node]]:
        """Every living plugin's node with the node that holds it."""
        return [
            (held, owner)
            for owner in self.model.walk()
            for held in owner.holds
            if held.body is not None
        ]

    def context_of(self, node: Node) -> Context:
        return self.root if node is self.model else self.world.fibers[node.path].ctx

    def pick(self, data: st.DataObject, among: list[Any]) -> Any:
        return among[data.draw(st.integers(0, len(among) - 1))]

    # Rules

    @rule(body=bodies.filter(is_calm), data=st.data())
    def mount(self, body: Body, data: st.DataObject) -> None:
        owners = [self.model] + [node for node, _ in self.fibers() if not node.failed]
        owner = self.pick(data, owners)
        self.mounted += 1
        path = f"m{self.mounted}"
        node = expect(body, path)
        owner.holds.append(node)

        async def step() -> None:
            fiber = self.context_of(owner).plugin(plugin_of(body, path, self.world))
            await self.outcome(fiber, node)

        self.run(step())
        journal = self.world.take()
        if node.failed:  # rolled back: everything it had set up, newest first
            check_race(journal)

    async def outcome(self, fiber: Fiber, node: Node) -> None:
        try:
            await fiber
        except Boom as error:
            assert node.failed
            assert any(f'plugin "{fiber.name}"' in note for note in error.__notes__)  # L9
        assert fiber.state is (FiberState.FAILED if node.failed else FiberState.ACTIVE)
        await self.settle()  # of a synchronous effect that failed, the rollback may go on

    @precondition(lambda self: self.fibers())
    @rule(data=st.data())
    def restart(self, data: st.DataObject) -> None:
        node, owner = self.pick(data, self.fibers())
        fiber = self.world.fibers.get(node.path)
        if fiber is None:  # it failed before it began
            return
        expected = node.undoing()
        again = expect(node.body, node.path)
        at = owner.holds.index(node)
        owner.holds[at] = again

        async def step() -> None:
            try:
                await fiber.restart()
            except Boom:
                assert again.failed
            await self.settle()

        self.run(step())
        journal = self.world.take()
        assert [line for line in journal if line[0] != "+"][: len(expected)] == expected
        if expected and not again.failed:  # the old one was down before the new one began
            assert all(line[0] != "+" for line in journal[: len(expected)])

    @precondition(lambda self: self.fibers())
    @rule(data=st.data(), callers=st.integers(1, 4), impatient=st.integers(0, 3))
    def dispose(self, data: st.DataObject, callers: int, impatient: int) -> None:
        """Any number of callers share one teardown; those that give up do not stop it (L6)."""
        node, owner = self.pick(data, self.fibers())
        fiber = self.world.fibers.get(node.path)
        if fiber is None:
            return
        owner.holds.remove(node)
        finished: list[int] = []

        async def step() -> None:
            async def caller(number: int) -> None:
                await fiber.dispose()
                assert fiber.state is FiberState.DISPOSED
                finished.append(number)

            async with anyio.create_task_group() as waiting:
                for number in range(callers):
                    waiting.start_soon(caller, number)
                async with anyio.create_task_group() as giving_up:
                    for _ in range(impatient):
                        giving_up.start_soon(fiber.dispose().wait)
                    await checkpoint()
                    giving_up.cancel_scope.cancel()

        self.run(step())
        assert len(finished) == callers
        assert self.world.take() == node.undoing()
        self.closed_door(fiber)

    def closed_door(self, fiber: Fiber) -> None:
        """Nothing can be registered through what is gone (L4)."""

        async def step() -> None:
            attempts: tuple[Callable[[], Any], ...] = (
                lambda: fiber.ctx.effect(lambda: None),
                lambda: fiber.ctx.on("law", print),
                lambda: fiber.ctx.plugin(lambda _: None),
                lambda: fiber.ctx.provide("late", 1),
                lambda: fiber.ctx.start_soon(anyio.sleep, 0),
            )
            for attempt in attempts:
                try:
                    attempt()
                except InactiveFiberError as error:
                    assert error.fiber is fiber
                else:
                    raise AssertionError("a registration entered a closed door")

        self.run(step())

    @rule(data=st.data())
    def undo_early(self, data: st.DataObject) -> None:
        live = [
            (node, owner)
            for owner in self.model.walk()
            for node in owner.holds
            if node.label == node.path
        ]
        if not live:
            return
        node, owner = self.pick(data, live)
        owner.holds.remove(node)

        async def step() -> None:
            await self.world.effects[node.path]()
            await self.world.effects[node.path].dispose()  # idempotent

        self.run(step())
        assert self.world.take() == node.undoing()

    @precondition(lambda self: self.fibers())
    @rule(data=st.data(), turns=st.integers(0, 3))
    def undo_early_and_dispose(self, data: st.DataObject, turns: int) -> None:
        """A fiber waits for what is being undone already, at its place in the order (L3)."""
        node, owner = self.pick(data, self.fibers())
        early = [held for held in node.holds if held.label == held.path]
        fiber = self.world.fibers.get(node.path)
        if not early or fiber is None:
            return
        owner.holds.remove(node)
        first = self.pick(data, early)

        async def step() -> None:
            self.world.effects[first.path]()
            for _ in range(turns):
                await checkpoint()
            await fiber.dispose()

        self.run(step())
        journal = self.world.take()
        assert sorted(journal) == sorted(node.undoing()), "dispose() returned before the end"
        older = node.holds[: node.holds.index(first)]
        node.holds.remove(first)
        assert [line for line in journal if line not in first.undoing()] == node.undoing()
        last = max((journal.index(line) for line in first.undoing()), default=-1)
        for line in [line for held in older for line in held.undoing()]:
            assert last < journal.index(line), "what is older went before what is newer had gone"

    @rule(body=bodies, turns=st.integers(0, 12))
    def dispose_while_loading(self, body: Body, turns: int) -> None:
        """However far a body has come, its disposal leaves nothing of it (L2, L4)."""
        self.mounted += 1
        path = f"m{self.mounted}"

        async def step() -> list[str]:
            before = observe(self.root)
            fiber = self.root.plugin(plugin_of(body, path, self.world))
            for _ in range(turns):
                await checkpoint()
            await fiber.dispose()
            assert fiber.state is FiberState.DISPOSED
            left = observe(self.root).added_since(before)
            late = len(self.world.journal)
            await self.settle()
            assert len(self.world.journal) == late, "something ran after dispose() had returned"
            return [str(one) for one in left]

        assert self.run(step()) == []
        check_race(self.world.take())

    # What must hold after each rule

    @invariant()
    def the_tree_is_as_the_model_says(self) -> None:
        for node in self.model.walk():
            if node.is_fiber and node is not self.model:
                fiber = self.world.fibers.get(node.path)
                if fiber is not None:
                    assert labels_of(fiber.effects()) == node.labels()
        own = labels_of(self.root.fiber.effects())[2:]  # without the fixed ones of the machine
        assert own == self.model.labels()

    @invariant()
    def listeners_and_prompt_are_as_the_model_says(self) -> None:
        nodes = list(self.model.walk())
        heard = self.root.kernel.bus.listeners().get("law", [])
        assert len(heard) == sum(node.label == 'listener "law"' for node in nodes)

        async def names() -> list[str]:
            assembly = await self.root.system_prompt.assemble()
            return [section.name for section in assembly.sections]

        in_scopes = {
            held.path for node in nodes if node.label == 'plugin "scope"' for held in node.walk()
        }
        sections = [
            node.path
            for node in nodes
            if node.label.startswith("section ") and node.path not in in_scopes
        ]
        assert sorted(self.run(names())[2:]) == sorted(sections)

    def teardown(self) -> None:
        expected = self.model.undoing()

        async def step() -> None:
            for fiber in reversed(self.root.fiber.children[1:]):
                await fiber.dispose()

        try:
            if not self.has_failed():
                self.run(step())
                assert self.world.take() == expected
                assert self.run(self.residue()) == []
        finally:
            super().teardown()


def labels_of(effects: Any) -> Any:
    return [
        (info.label, labels_of(info.children)) for info in effects if isinstance(info, EffectInfo)
    ]


TestOwnership = Ownership.TestCase
TestOwnership.settings = laws(examples=200, steps=20)
