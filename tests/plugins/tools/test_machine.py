"""Random trees of scopes, tools, restrictions and presentations against a model of sets.

After each step, for each scope: what the prompt shows, what lookup finds, what a call of the
model's and a call of code run, which signatures and which guidance are there, and what
`why_visible` says, are the answer of the model.
"""

from __future__ import annotations

import ast
import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any

import attrs
import pytest
from harness_plugins import code_mode
from harness_plugins.tools.api import (
    DuplicatePresentationError,
    DuplicateToolError,
    PresentationError,
    RestrictionError,
    ToolCall,
    Tools,
)
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from harness_core import Context, Effect, Fiber, Scope, create_scope
from harness_core.prompt import PromptAssembly, SystemPrompt
from harness_core.testing import TreeHost

from .tree import tool

NAMES = ("a", "b", "c", "d")
RUN = "run_code"
SCOPES = ("s0", "s1", "s2", "s3")
names = st.sampled_from(NAMES)
places = st.sampled_from((None, *SCOPES))
subsets = st.lists(st.sampled_from((*NAMES, *NAMES, RUN)), unique=True, max_size=3)
modes = st.sampled_from(("native", "code", "both"))


@attrs.define
class Layer:
    """What the model knows of one scope."""

    tools: dict[str, str] = attrs.field(factory=dict)
    limits: dict[int, tuple[frozenset[str] | None, frozenset[str]]] = attrs.field(factory=dict)
    mode: str | None = None


@attrs.frozen
class Expected:
    """What the model says of one scope: what the model calls, what code calls, and with what."""

    direct: dict[str, str]
    inner: dict[str, str]
    is_whole: bool
    """Whether there is what the presentation needs."""

    @property
    def visible(self) -> set[str]:
        """What can be called, in one way or the other."""
        return {*self.direct, *self.inner}


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
        self.effects: dict[int, tuple[Effect, str | None, str | int | None]] = {}
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
        self.code_mode: Fiber = await self.root.plugin(code_mode)
        self.keys: dict[str | None, Any] = {None: None}
        self.scopes: dict[str | None, Scope] = {}
        self.layers[None] = Layer()
        for index, key in enumerate(SCOPES):
            above = SCOPES[parents[index]] if 0 <= parents[index] < index else None
            self.keys[key] = type("Key", (), {"__repr__": lambda _, key=key: str(key)})()
            self.parents[key] = above
            self.mint(key)
        for name in (*NAMES, RUN):
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

    def native(self, where: str | None) -> dict[str, str]:
        """Return the tools that pass the restrictions, but for the one that runs code."""
        seen: dict[str, str] = {}
        for layer in self.chain(where):
            for allow, deny in layer.limits.values():
                passing = (set(seen) if allow is None else set(seen) & allow) - deny
                seen = {name: seen[name] for name in passing}
            seen |= layer.tools
        return seen

    def mode(self, where: str | None) -> str:
        """Return how a scope is presented."""
        modes = [layer.mode for layer in self.chain(where) if layer.mode is not None]
        return modes[-1] if modes else "native"

    def expected_of(self, where: str | None) -> Expected:
        """Return the answer of the model."""
        native, mode = self.native(where), self.mode(where)
        denied = any(
            RUN in deny for layer in self.chain(where) for _, deny in layer.limits.values()
        )
        direct = native if mode != "code" else {}
        if mode == "native":
            return Expected(direct, {}, True)
        if denied:
            return Expected(direct, {}, False)
        return Expected({**direct, RUN: ""}, native, True)

    def known(self, where: str | None) -> set[str]:
        """Return the names before restriction."""
        return {RUN, *(name for layer in self.chain(where) for name in layer.tools)}

    def keep(self, effect: Effect, where: str | None, what: str | int | None) -> None:
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

    @rule(where=places, mode=modes)
    @inside
    async def present(self, where: str | None, mode: str) -> None:
        """One for a level."""
        tools, layer = self.context(where).tools, self.layers[where]
        if layer.mode is not None:
            with pytest.raises(DuplicatePresentationError):
                tools.present_as(mode)
            return
        self.keep(tools.present_as(mode), where, None)
        layer.mode = mode

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
        if what is None:
            layer.mode = None
        elif isinstance(what, str):
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

    @rule()
    @inside
    async def restart_code_mode(self) -> None:
        """What runs code goes and comes back: nothing else is changed by that."""
        await self.code_mode.restart()
        self.expected = self.changes

    @invariant()
    @inside
    async def one_answer(self) -> None:
        """Schema, lookup, execution, signatures, guidance and explanation agree."""
        if not hasattr(self, "root"):
            return
        assert self.changes == self.expected
        for where in (None, *SCOPES):
            await self.compare(where)

    async def compare(self, where: str | None) -> None:
        """Ask everything that can be asked about one scope."""
        key, tools = self.keys[where], self.root.tools
        expected = self.expected_of(where)
        if expected.is_whole:
            assembly = await self.root.system_prompt.assemble(scope=key)
            self.compare_prompt(assembly, expected)
            assert tuple(assembly.tools) == tools.schemas(key)
        else:
            with pytest.raises(PresentationError):
                await self.root.system_prompt.assemble(scope=key)
        assert list(tools.visible(key)) == sorted(expected.visible)
        assert list(tools.in_code(key)) == sorted(expected.inner)
        assert set(tools.known_names(key)) == self.known(where)
        presentation = tools.presentation(key)
        assert presentation.mode == self.mode(where)
        assert (presentation.runner == RUN) == (RUN in expected.direct)
        for name in NAMES:
            await self.compare_calls(where, name, expected)

    def compare_prompt(self, assembly: PromptAssembly, expected: Expected) -> None:
        """Schemas, guidance and signatures."""
        assert [one.name for one in assembly.tools] == sorted(expected.direct)
        texts = {one.name: one.text for one in assembly.sections if one.text}
        guidance = {name[5:] for name in texts if name.startswith("tool:")}
        assert guidance == expected.visible == assembly.callable_tools
        assert ("code_mode" in texts) == (RUN in expected.direct)
        assert signatures(texts.get("code_mode", "")) == sorted(expected.inner)

    async def compare_calls(self, where: str | None, name: str, expected: Expected) -> None:
        """What a call of the model's and a call of code run, and why."""
        key, tools = self.keys[where], self.root.tools
        why = tools.why_visible(name, key)
        is_visible = name in expected.visible
        assert why.is_visible == is_visible == (tools.get(name, key) is not None)
        is_indirect = name in expected.inner and name not in expected.direct
        assert (why.through == RUN) == is_indirect
        restricted = name in self.known(where) and name not in self.native(where)
        assert bool(why.hidden_by) == restricted
        via = ToolCall(RUN, {}, key, None, tools.get(RUN, key))
        for callable_here, by in ((expected.direct, None), (expected.inner, via)):
            result = await tools.execute(name, {}, scope=key, via=by)
            if name in callable_here:
                assert result.text == callable_here[name]
            elif is_indirect:
                assert result.status == "denied"
                assert f"`await {name}(...)`" in result.text
            else:
                available = ", ".join(sorted(callable_here)) or "(none)"
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
        """Run real code in every scope that may, undo what is left, and close the tree."""
        await self.run_code()
        for effect, _, _ in self.effects.values():
            await effect()
        await self.code_mode.dispose()
        assert self.root.tools.layers.scopes() == []
        assert self.root.tools.layers.is_empty()
        await self.host.stop()

    async def run_code(self) -> None:
        """Call every name from code, in one scope that presents its tools so."""
        found = [(one, self.expected_of(one)) for one in (*SCOPES, None)]
        for where, expected in [pair for pair in found if RUN in pair[1].direct][:1]:
            result = await self.root.tools.execute(
                RUN, {"code": CODE}, scope=self.keys[where], call_id="c"
            )
            assert result.value == {name: expected.inner.get(name) for name in NAMES}


CODE = f"""
found = {{}}
for name in {NAMES}:
    function = globals().get(name)
    found[name] = await function() if function else None
found
"""


def signatures(text: str) -> list[str]:
    """Return the names of the functions that a section describes."""
    code = text.partition("```python\n")[2].rpartition("```")[0]
    return [node.name for node in ast.parse(code).body if isinstance(node, ast.AsyncFunctionDef)]


TestMachine = Machine.TestCase
TestMachine.settings = settings(
    max_examples=40,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
