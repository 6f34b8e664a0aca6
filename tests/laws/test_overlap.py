"""Swaps of plugins, some of which may live twice at once, against a model of who serves.

Whatever fails, and at whatever phase: the old versions serve, what may live twice was never down,
every prompt is the one before or the one after, and nothing is left.
"""

from __future__ import annotations

from typing import Any, Literal

import anyio
import anyio.lowlevel
import attrs
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from harness_core import Context, Fiber, FiberState
from harness_core.errors import ConfigError, PluginError
from harness_core.kernel.swap import Replacement, swap
from harness_core.prompt import SystemPrompt, render_prompt
from harness_core.testing import ledger

from .machine import Boom, TreeMachine, laws

NEEDS: dict[int, tuple[int, ...]] = {0: (), 1: (0,), 2: (0,), 3: (1, 2), 4: ()}
"""Which plugins use the services of which others."""

Fault = Literal["", "at once", "later", "cancelled", "child", "task", "no config"]
FAULTS: tuple[Fault, ...] = ("at once", "later", "cancelled", "child", "task", "no config")


@attrs.frozen
class Version:
    """One version of one plugin."""

    plugin: int
    number: int
    overlap: bool
    slow: bool
    fault: Fault = ""


class Plugin:
    """What is mounted for a version."""

    def __init__(self, version: Version, journal: list[str]) -> None:
        self.version, self.journal = version, journal
        self.name = f"p{version.plugin}"
        self.overlap = version.overlap
        self.inject = ["system_prompt", *(f"k{needed}" for needed in NEEDS[version.plugin])]
        if version.fault == "no config":
            self.Config = _Strict

    def apply(self, ctx: Context) -> Any:
        return self._slow(ctx) if self.version.slow else self._body(ctx)

    async def _slow(self, ctx: Context) -> None:
        await anyio.sleep(0.01)
        self._body(ctx)
        await anyio.sleep(0.01)
        if self.version.fault == "later":
            raise Boom(self.name)

    def _body(self, ctx: Context) -> None:
        version, name = self.version, self.name
        tag = f"{version.plugin}.{version.number}"
        self.journal.append(f"up {tag}")

        async def down() -> None:
            self.journal.append(f"down {tag}")
            await anyio.sleep(0.01 if version.slow else 0)

        ctx.effect(lambda: down)  # before the service is there, so undone when its users are gone
        used = ",".join(getattr(ctx, f"k{one}") for one in NEEDS[version.plugin])
        ctx.system_prompt.section(name, f"{tag}({used})", order=5)
        ctx.on("ping", lambda: self.journal.append(f"ping {tag}"))
        ctx.carry("numbers", []).append(version.number)
        ctx.provide(f"k{version.plugin}", tag)
        if version.fault == "at once" or (version.fault == "later" and not version.slow):
            raise Boom(name)
        if version.fault == "cancelled":
            raise anyio.get_cancelled_exc_class()("from nowhere")
        if version.fault == "child":
            ctx.plugin(_failing)
        if version.fault == "task":
            ctx.start_soon(_crash)
            ctx.effect(lambda: anyio.sleep(0.05), label="keeps the swap from ending first")


@attrs.frozen
class _Strict:
    missing: str


def _failing(ctx: Context) -> None:
    raise Boom("child")


async def _crash() -> None:
    raise Boom("task")


VERSIONS = st.fixed_dictionaries(
    {"overlap": st.sampled_from([True, True, False]), "slow": st.booleans()}
)


class Overlap(TreeMachine):
    """`serving` holds the version that each plugin must run, `order` who registered first."""

    async def set_up(self) -> None:
        await self.root.plugin(SystemPrompt, include_harness_identity=False)
        self.journal: list[str] = []
        self.fibers: dict[int, Fiber] = {}
        self.serving: dict[int, Version] = {}
        self.order: list[int] = []
        self.count = 0

    def _version(self, plugin: int, drawn: dict[str, bool], fault: Fault = "") -> Version:
        self.count += 1
        return Version(plugin, self.count, drawn["overlap"], drawn["slow"], fault)

    def _runs(self, plugin: int) -> bool:
        return plugin in self.serving and all(map(self._runs, NEEDS[plugin]))

    def _users(self, plugins: set[int]) -> set[int]:
        """Return these plugins and all that run on them."""
        found = set(plugins)
        for plugin in sorted(NEEDS):
            if not found.isdisjoint(NEEDS[plugin]):
                found.add(plugin)
        return {plugin for plugin in found if self._runs(plugin)}

    def _told(self) -> list[str]:
        told = self.journal[:]
        self.journal.clear()
        return told

    def _prompt(self) -> str:
        return "\n\n".join(self._text(plugin) for plugin in self.order if self._runs(plugin))

    def _tag(self, plugin: int) -> str:
        return f"{plugin}.{self.serving[plugin].number}"

    def _text(self, plugin: int) -> str:
        return f"{self._tag(plugin)}({','.join(map(self._tag, NEEDS[plugin]))})"

    # What happens

    @initialize(
        drawn=st.lists(VERSIONS, min_size=len(NEEDS), max_size=len(NEEDS)),
        order=st.permutations(sorted(NEEDS)),
    )
    def mount_all(self, drawn: list[dict[str, bool]], order: list[int]) -> None:
        for plugin in order:
            self.mount(plugin, drawn[plugin])

    @rule(plugin=st.sampled_from(sorted(NEEDS)), drawn=VERSIONS)
    def mount(self, plugin: int, drawn: dict[str, bool]) -> None:
        if plugin in self.serving:
            return
        self.serving[plugin] = version = self._version(plugin, drawn)

        async def work() -> None:
            self.fibers[plugin] = self.root.plugin(Plugin(version, self.journal))
            await self.settle()

        self.run(work())
        for told in self._told():
            up = int(told.removeprefix("up ").partition(".")[0])
            if up not in self.order:
                self.order.append(up)

    @rule(plugin=st.sampled_from(sorted(NEEDS)))
    def dispose(self, plugin: int) -> None:
        if plugin not in self.serving:
            return
        users = self._users({plugin})

        async def work() -> None:
            await self.fibers.pop(plugin).dispose()
            await self.settle()

        downs = {f"down {self._tag(user)}" for user in users}
        del self.serving[plugin]
        if plugin in self.order:
            self.order.remove(plugin)
        self.run(work())
        assert set(self._told()) == downs

    @rule(plugin=st.sampled_from(sorted(NEEDS)))
    def restart(self, plugin: int) -> None:
        if self._runs(plugin):
            self.run(self._and_settle(self.fibers[plugin].restart()))
            told = self._told()
            assert sorted(told) == sorted(
                f"{act} {self._tag(user)}"
                for user in self._users({plugin})
                for act in ("up", "down")
            )

    async def _and_settle(self, step: Any) -> None:
        await step
        await self.settle()

    @rule(drawn=st.dictionaries(st.sampled_from(sorted(NEEDS)), VERSIONS, min_size=1))
    def swap(self, drawn: dict[int, dict[str, bool]]) -> None:
        new = {one: self._version(one, how) for one, how in drawn.items() if one in self.serving}
        if not new:
            return
        before, beside = self._prompt(), self._beside(new)
        restarted = self._users(set(new))
        old = {plugin: self._tag(plugin) for plugin in restarted}
        self.serving.update(new)
        texts = self.run(self._swap(new))
        told = self._told()
        assert set(texts) <= {before, self._prompt()}
        assert texts[-1] == self._prompt()
        assert sorted(one for one in told if one.startswith("up")) == sorted(
            f"up {self._tag(plugin)}" for plugin in restarted
        )
        for plugin in restarted:
            for user in restarted:
                if plugin in NEEDS[user]:
                    assert told.index(f"down {old[user]}") < told.index(f"down {old[plugin]}")
                    assert told.index(f"up {self._tag(plugin)}") < told.index(
                        f"up {self._tag(user)}"
                    )
        for plugin in beside & restarted:
            assert told.index(f"up {self._tag(plugin)}") < told.index(f"down {old[plugin]}"), told
        for plugin in restarted - beside:
            assert told.index(f"up {self._tag(plugin)}") > told.index(f"down {old[plugin]}"), told

    @rule(
        drawn=st.dictionaries(st.sampled_from(sorted(NEEDS)), VERSIONS, min_size=1),
        data=st.data(),
        fault=st.sampled_from(FAULTS),
    )
    def swap_in_vain(
        self, drawn: dict[int, dict[str, bool]], data: st.DataObject, fault: Fault
    ) -> None:
        runs = [plugin for plugin in sorted(NEEDS) if self._runs(plugin)]
        if not runs:
            return
        guilty = data.draw(st.sampled_from(runs))
        new = {one: self._version(one, how) for one, how in drawn.items() if one in runs}
        new[guilty] = self._version(guilty, data.draw(VERSIONS), fault)
        beside = self._beside(new)
        before, numbers = self._prompt(), ledger(self.root)
        texts = self.run(self._swap(new, fails=True))
        told = self._told()
        assert set(texts) == {before}
        for plugin in beside:
            assert f"down {self._tag(plugin)}" not in told
        if fault == "no config":
            assert told == []
        elif guilty in beside:
            assert {f"down {self._tag(one)}" for one in runs}.isdisjoint(told)
        assert ledger(self.root) == numbers

    def _beside(self, new: dict[int, Version]) -> set[int]:
        """Return those of the new versions that begin while the old ones are there."""
        able = {
            plugin
            for plugin, version in new.items()
            if version.overlap and self.serving[plugin].overlap and self._runs(plugin)
        }
        size = -1
        while size != len(able):
            size = len(able)
            users = {one for one in sorted(NEEDS) if not able.isdisjoint(NEEDS[one])}
            able = able - self._users((new.keys() | users) - able)
        return able

    async def _swap(self, new: dict[int, Version], *, fails: bool = False) -> list[str]:
        """Swap; return the prompts that were assembled meanwhile, and at the end."""
        texts: list[str] = []
        over = anyio.Event()

        async def assemble() -> None:
            texts.append(await self._assemble())

        async def keep_assembling() -> None:
            async with anyio.create_task_group() as tasks:
                while not over.is_set():
                    tasks.start_soon(assemble)
                    await anyio.sleep(0.004)

        replacements = [
            Replacement(self.fibers[plugin], Plugin(version, self.journal))
            for plugin, version in new.items()
        ]
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(keep_assembling)
            await anyio.lowlevel.checkpoint()
            try:
                await swap(self.root, replacements)
                assert not fails
            except (Boom, PluginError, ConfigError) as error:
                assert fails, error
            over.set()
        texts.append(await self._assemble())
        await self.settle()
        return texts

    async def _assemble(self) -> str:
        return render_prompt(await self.root.system_prompt.assemble())

    # What is always true

    @invariant()
    def who_should_serve_serves(self) -> None:
        if self.has_failed():
            return
        assert self.run(self._assemble()) == self._prompt()
        for plugin, fiber in self.fibers.items():
            runs = self._runs(plugin)
            assert fiber.state is (FiberState.ACTIVE if runs else FiberState.PENDING)
            assert self.root.get(f"k{plugin}") == (self._tag(plugin) if runs else None)

    @invariant()
    def one_life_hears(self) -> None:
        if self.has_failed():
            return
        self._told()
        self.run(self._emit())
        assert sorted(self._told()) == sorted(
            f"ping {self._tag(plugin)}" for plugin in self.serving if self._runs(plugin)
        )

    async def _emit(self) -> None:
        self.root.emit("ping")

    @invariant()
    def nobody_lives_twice(self) -> None:
        if self.has_failed():
            return
        tree = self.root.kernel.tree
        assert tree.lives == sum(
            self.serving[plugin].overlap for plugin in self.serving if self._runs(plugin)
        )
        assert tree.silent == {}
        for slot in self.root.kernel.services._slots.values():
            assert slot.private is None
            consumers = [needs.fiber for needs in slot.consumers]
            assert len(consumers) == len(set(consumers))

    @precondition(lambda self: not self.serving)
    @invariant()
    def an_empty_tree_is_empty(self) -> None:
        if not self.has_failed():
            assert self.run(self.residue()) == []


TestOverlap = Overlap.TestCase
TestOverlap.settings = laws(60, steps=12)
