"""Random trees of scopes, tools and restrictions against a model that is nothing but sets.

After each step, for each scope: what the prompt shows, what lookup finds, what a call runs, which
guidance is there and what `why_visible` says are the answer of the model.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any

import attrs
import pytest
from harness_plugins.tools.api import DuplicateToolError, RestrictionError, Tools
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from harness_core import Context, Effect, Fiber, Scope, create_scope
from harness_core.prompt import SystemPrompt
from harness_core.testing import TreeHost

from .tree import tool

NAMES = ("a", "b", "c", "d")
SCOPES = ("s0", "s1", "s2", "s3")
names = st.sampled_from(NAMES)
places = st.sampled_from((None, *SCOPES))
subsets = st.lists(names, unique=True, max_size=3)


@attrs.define
class Layer:
    """What the model knows of one scope."""

    tools: dict[str, str] = attrs.field(factory=dict)
    limits: dict[int, tuple[frozenset[str] | None, frozenset[str]]] = attrs.field(factory=dict)


def inside(step: Callable[..., Coroutine[Any, Any, None]]) -> Any:
    """Run a rule inside the tree's loop."""

    @functools.wraps(step)
    def run(self: Machine, **drawn: Any) -> None:
        self.loop.run_until_complete(step(self, **drawn))

    return run


class Machine(RuleBasedStateMachine):
    """The tree, and the model of it."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.host = TreeHost()
        self.parents: dict[str | None, str | None] = {}
        self.layers: dict[str | None, Layer] = {}
        self.effects: dict[int, tuple[Effect, str | None, str | int]] = {}
        self.count = 0
        self.changes = 0
        self.expected = 0

    @initialize(parents=st.lists(st.integers(-1, 2), min_size=4, max_size=4))
    @inside
    async def open(self, parents: list[int]) -> None:
        """Open a tree with four scopes below random others."""
        self.root: Context = await self.host.start()
        await self.root.plugin(SystemPrompt, include_harness_identity=False)
        self.service: Fiber = await self.root.plugin(Tools)
        self.keys: dict[str | None, Any] = {None: None}
        self.scopes: dict[str | None, Scope] = {}
        self.layers[None] = Layer()
        for index, key in enumerate(SCOPES):
            above = SCOPES[parents[index]] if 0 <= parents[index] < index else None
            self.keys[key] = type("Key", (), {"__repr__": lambda _, key=key: str(key)})()
            self.parents[key] = above
            self.mint(key)
        for name in NAMES:
            self.root.system_prompt.section(
                f"tool:{name}", f"<{name}>", order=100, requires_tools=[name]
            )
        self.root.on("system-prompt/change", self.note)

    def note(self) -> None:
        """Count the changes."""
        self.changes += 1

    def mint(self, key: str) -> None:
        """Make a scope anew."""
        above = self.keys[self.parents[key]]
        self.scopes[key] = create_scope(self.root, self.keys[key], parent=above)
        self.layers[key] = Layer()

    def context(self, where: str | None) -> Context:
        """Return what to register through."""
        return self.root if where is None else self.scopes[where].ctx

    def chain(self, where: str | None) -> list[Layer]:
        """Return the layers that a scope sees, global first."""
        found: list[Layer] = []
        while where is not None:
            found.append(self.layers[where])
            where = self.parents[where]
        return [self.layers[None], *reversed(found)]

    def visible(self, where: str | None) -> dict[str, str]:
        """Return what a scope can call: the answer of the model."""
        seen: dict[str, str] = {}
        for layer in self.chain(where):
            for allow, deny in layer.limits.values():
                passing = (set(seen) if allow is None else set(seen) & allow) - deny
                seen = {name: seen[name] for name in passing}
            seen |= layer.tools
        return seen

    def known(self, where: str | None) -> set[str]:
        """Return the names before restriction."""
        return {name for layer in self.chain(where) for name in layer.tools}

    def keep(self, effect: Effect, where: str | None, what: str | int) -> None:
        """Remember how to undo something."""
        self.effects[self.count] = (effect, where, what)
        self.count += 1
        self.expected += 1

    @rule(where=places, name=names)
    @inside
    async def register(self, where: str | None, name: str) -> None:
        """A name is taken once per level."""
        answer = f"{name}{self.count}"
        layer = self.layers[where]
        if name in layer.tools:
            with pytest.raises(DuplicateToolError):
                self.context(where).tools.register(tool(name, answer))
            return
        self.keep(self.context(where).tools.register(tool(name, answer)), where, name)
        layer.tools[name] = answer

    @rule(where=places, allow=st.none() | subsets, deny=st.none() | subsets)
    @inside
    async def restrict(
        self, where: str | None, allow: list[str] | None, deny: list[str] | None
    ) -> None:
        """Only in a scope, only known names, not without arguments."""
        named = {*(allow or ()), *(deny or ())}
        empty = allow is None and deny is None
        if where is None or empty or not named <= self.known(where):
            with pytest.raises(RestrictionError):
                self.context(where).tools.restrict(allow=allow, deny=deny)
            return
        number = self.count
        self.keep(self.context(where).tools.restrict(allow=allow, deny=deny), where, number)
        limit = (None if allow is None else frozenset(allow), frozenset(deny or ()))
        self.layers[where].limits[number] = limit

    @precondition(lambda self: self.effects)
    @rule(data=st.data())
    @inside
    async def undo(self, data: st.DataObject) -> None:
        """Any effect, in any order."""
        number = data.draw(st.sampled_from(sorted(self.effects)))
        effect, where, what = self.effects.pop(number)
        await effect()
        self.expected += 1
        layer = self.layers[where]
        if isinstance(what, str):
            del layer.tools[what]
        else:
            del layer.limits[what]

    @rule(key=st.sampled_from(SCOPES))
    @inside
    async def dispose_scope(self, key: str) -> None:
        """What was registered through it goes; those below it live on."""
        await self.scopes[key].dispose()
        mine = [number for number, (_, where, _) in self.effects.items() if where == key]
        for number in mine:
            del self.effects[number]
        self.expected += len(mine)
        self.mint(key)

    @rule(key=st.sampled_from(SCOPES), above=places)
    @inside
    async def rebind(self, key: str, above: str | None) -> None:
        """A scope moves below another, where that closes no circle."""
        at = above
        while at is not None:
            if at == key:
                return
            at = self.parents[at]
        binding = self.scopes[key].binding
        if binding is None:
            return
        binding.rebind(self.keys[above])
        self.parents[key] = above

    @rule()
    @inside
    async def restart(self) -> None:
        """The service comes back to what others have registered."""
        await self.service.restart()
        self.expected = self.changes

    @invariant()
    @inside
    async def one_answer(self) -> None:
        """Schema, lookup, execution, guidance and explanation agree with the model."""
        if not hasattr(self, "root"):
            return
        assert self.changes == self.expected
        for where in (None, *SCOPES):
            await self.compare(where)

    async def compare(self, where: str | None) -> None:
        """Ask everything that can be asked about one scope."""
        key, tools = self.keys[where], self.root.tools
        expected = self.visible(where)
        assembly = await self.root.system_prompt.assemble(scope=key)
        assert [one.name for one in assembly.tools] == sorted(expected)
        assert {section.name[5:] for section in assembly.sections if section.text} == set(expected)
        assert list(tools.visible(key)) == sorted(expected)
        assert set(tools.known_names(key)) == self.known(where)
        assert tuple(assembly.tools) == tools.schemas(key)
        for name in NAMES:
            result = await tools.execute(name, {}, scope=key)
            why = tools.why_visible(name, key)
            assert why.is_visible == (name in expected) == (tools.get(name, key) is not None)
            assert bool(why.hidden_by) == (name in self.known(where) and name not in expected)
            if name in expected:
                assert result.text == expected[name]
            else:
                available = ", ".join(sorted(expected)) or "(none)"
                assert result.text.split("; did you")[0] == (
                    f'unknown tool "{name}"; available tools: {available}'
                )

    def teardown(self) -> None:
        """Undo everything: nothing is left."""
        try:
            if hasattr(self, "root"):
                self.loop.run_until_complete(self.close())
        finally:
            self.loop.close()

    async def close(self) -> None:
        """Undo what is left, and close the tree."""
        for effect, _, _ in self.effects.values():
            await effect()
        assert self.root.tools.layers.scopes() == []
        assert self.root.tools.layers.is_empty()
        await self.host.stop()


TestMachine = Machine.TestCase
TestMachine.settings = settings(
    max_examples=40,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
