"""Scopes and the prompt: who sees what, who hears what, and that an assembly is a snapshot (L7).

Random chains of scopes are built, moved and disposed, and texts, variables, suppressors and
listeners registered in them, directly and by plugins. The model is lists and dictionaries.
"""

from __future__ import annotations

from typing import Any

import anyio
import attrs
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from harness_core import (
    Context,
    Effect,
    Fiber,
    Scope,
    ScopeBinding,
    bind_scope_parent,
    create_scope,
    inject,
    scope_chain_of,
    scope_of,
    scope_parent_of,
    scope_target,
)
from harness_core.errors import DuplicateRegistrationError, ScopeError
from harness_core.prompt import PromptAssembly, SystemPrompt, render_prompt

from .machine import Boom, TreeMachine, laws

IDENTITY = "You are an AI agent powered by DeepSeek Harness."
NAMES = ("one", "two", "three")
ORDERS = (-5, 1, 1.5, 100)
KINDS = ("section", "context", "variable", "suppressor", "listener")


class Key:
    """A scope key."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __repr__(self) -> str:
        return f"k{self.number}"


@attrs.frozen(eq=False)
class Entry:
    """One registration: what the model knows of it."""

    kind: str
    name: str
    order: float
    text: str
    provided: bool


@attrs.define(eq=False)
class Place:
    """A scope as the model has it. `entries` are those of its layer, in the order they count."""

    key: Key | None
    parent: Place | None = None
    scope: Scope | None = None
    binding: ScopeBinding | None = None
    entries: list[Entry] = attrs.Factory(list)

    def chain(self) -> list[Place]:
        """Itself and its ancestors, nearest first."""
        return [self, *(self.parent.chain() if self.parent is not None else [])]


@attrs.define(eq=False)
class Mounted:
    """A plugin that registers a batch of entries in one scope."""

    fiber: Fiber
    place: Place
    entries: list[Entry]


class Scopes(TreeMachine):
    def __init__(self) -> None:
        self.everywhere = Place(None)
        self.places: list[Place] = []
        self.effects: dict[Entry, Effect] = {}
        self.mounted: list[Mounted] = []
        self.heard: list[str] = []
        self.called: list[str] = []
        self.numbers = 0
        super().__init__()

    async def set_up(self) -> None:
        self.service = await self.root.plugin(SystemPrompt)
        self.everywhere.entries = [
            Entry("section", "harness:identity", -100, "", False),
            Entry("section", "deployment:persona", 0, "", False),
        ]

    # The model

    def number(self) -> int:
        self.numbers += 1
        return self.numbers

    def layers(self, place: Place | None) -> list[Place]:
        """The layers that a scope sees, farthest first."""
        return [self.everywhere, *(reversed(place.chain()) if place is not None else ())]

    def visible(self, place: Place | None, kind: str) -> list[Entry]:
        """What takes part, in order: the nearest of a name, where its farthest stood."""
        merged: dict[str, Entry] = {}
        for layer in self.layers(place):
            for entry in layer.entries:
                if entry.kind == kind:
                    merged[entry.name] = entry
        return sorted(merged.values(), key=lambda entry: entry.order)

    def suppressed(self, place: Place | None) -> set[str]:
        entries = [e for layer in self.layers(place) for e in layer.entries]
        return {entry.name for entry in entries if entry.kind == "suppressor"}

    def expected(self, place: Place | None) -> dict[str, Any]:
        """An assembly for a scope, as plain data."""
        suppressed = self.suppressed(place)
        return {
            "sections": [(e.name, e.text) for e in self.visible(place, "section")],
            "contexts": [
                (e.name, e.text) for e in self.visible(place, "context") if e.name not in suppressed
            ],
            "variables": {e.name: e.text for e in self.visible(place, "variable")},
        }

    def data_of(self, assembly: PromptAssembly) -> dict[str, Any]:
        ours = ("harness:identity", "deployment:persona")
        return {
            "sections": [(s.name, "" if s.name in ours else s.text) for s in assembly.sections],
            "contexts": [(c.name, c.text) for c in assembly.contexts],
            "variables": dict(assembly.variables),
        }

    # Registering

    def entry(self, kind: str, name: str, order: float, provided: bool) -> Entry:
        return Entry(kind, name, order, f"text {self.number()}", provided)

    def is_taken(self, place: Place, entry: Entry) -> bool:
        named = entry.kind in ("section", "context", "variable")
        return named and any((e.kind, e.name) == (entry.kind, entry.name) for e in place.entries)

    def register(self, ctx: Context, entry: Entry) -> Effect:
        prompt = ctx.system_prompt

        def provider() -> str:
            self.called.append(entry.text)
            return entry.text

        text: Any = provider if entry.provided else entry.text
        if entry.kind == "section":
            return prompt.section(entry.name, text, order=entry.order)  # type: ignore[no-any-return]
        if entry.kind == "context":
            return prompt.context(entry.name, text, order=entry.order)  # type: ignore[no-any-return]
        if entry.kind == "variable":
            return prompt.variable(entry.name, text)  # type: ignore[no-any-return]
        if entry.kind == "suppressor":
            return prompt.suppress_runtime_context(entry.name)  # type: ignore[no-any-return]
        return ctx.on("law", lambda: self.heard.append(entry.text))

    def living(self) -> list[Place]:
        return [self.everywhere, *(place for place in self.places if place.scope is not None)]

    def context_of(self, place: Place) -> Context:
        return place.scope.ctx if place.scope is not None else self.root

    # Rules

    @rule(data=st.data(), rebindable=st.booleans())
    def mint(self, data: st.DataObject, rebindable: bool) -> None:
        parent = data.draw(st.sampled_from([None, *self.places]))
        place = Place(Key(self.number()), parent)

        async def step() -> None:
            assert place.key is not None
            key = parent.key if parent is not None else None
            if rebindable:
                place.binding = bind_scope_parent(place.key, key)
                place.scope = create_scope(self.root, place.key)
            else:
                place.scope = create_scope(self.root, place.key, parent=key)
            assert scope_of(place.scope.ctx) is place.key

        self.run(step())
        self.places.append(place)

    @precondition(lambda self: any(place.binding for place in self.places))
    @rule(data=st.data())
    def rebind(self, data: st.DataObject) -> None:
        place = data.draw(st.sampled_from([one for one in self.places if one.binding]))
        parent = data.draw(st.sampled_from([None, *self.places]))
        assert place.binding is not None
        cycle = parent is not None and place in parent.chain()
        try:
            place.binding.rebind(parent.key if parent is not None else None)
        except ScopeError:
            assert cycle
        else:
            assert not cycle
            place.parent = parent

    @precondition(lambda self: len(self.living()) > 1)
    @rule(data=st.data())
    def dispose_scope(self, data: st.DataObject) -> None:
        """What was registered through it goes; its children see what is left of their chain."""
        place = data.draw(st.sampled_from(self.living()[1:]))

        async def step() -> None:
            assert place.scope is not None
            await place.scope.dispose()

        self.run(step())
        place.scope = None
        place.entries = []
        self.mounted = [one for one in self.mounted if one.place is not place]

    @rule(
        data=st.data(),
        kind=st.sampled_from(KINDS),
        name=st.sampled_from(NAMES),
        order=st.sampled_from(ORDERS),
        provided=st.booleans(),
    )
    def add(self, data: st.DataObject, kind: str, name: str, order: float, provided: bool) -> None:
        place = data.draw(st.sampled_from(self.living()))
        entry = self.entry(kind, name, order, provided)
        taken = self.is_taken(place, entry)

        async def step() -> None:
            try:
                self.effects[entry] = self.register(self.context_of(place), entry)
            except DuplicateRegistrationError as error:
                assert taken
                assert (error.of, error.name) == (kind, name)
                assert error.layer == ("global" if place is self.everywhere else "scope")
            else:
                assert not taken

        self.run(step())
        if not taken:
            place.entries.append(entry)

    @precondition(lambda self: any(e in self.effects for p in self.living() for e in p.entries))
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        among = [(p, e) for p in self.living() for e in p.entries if e in self.effects]
        place, entry = data.draw(st.sampled_from(among))

        async def step() -> None:
            await self.effects.pop(entry)()

        self.run(step())
        place.entries.remove(entry)

    @rule(
        data=st.data(),
        batch=st.lists(
            st.tuples(
                st.sampled_from(KINDS),
                st.sampled_from(NAMES),
                st.sampled_from(ORDERS),
                st.booleans(),
            ),
            min_size=1,
            max_size=4,
        ),
        asynchronous=st.booleans(),
        fails=st.booleans(),
    )
    def mount(self, data: st.DataObject, batch: list[Any], asynchronous: bool, fails: bool) -> None:
        """A plugin's registrations come and go as one; a refused one takes the others along."""
        place = data.draw(st.sampled_from(self.living()))
        entries = [self.entry(*one) for one in batch]
        after = list(place.entries)
        refused = False
        for entry in entries:
            refused = refused or self.is_taken(Place(None, entries=after), entry)
            after.append(entry)

        @inject("system_prompt")
        def body(ctx: Context) -> None:
            for entry in entries:
                self.register(ctx, entry)
            if fails:
                raise Boom

        @inject("system_prompt")
        async def slow(ctx: Context) -> None:
            await anyio.sleep(0.01)
            body(ctx)

        async def step() -> None:
            fiber = self.context_of(place).plugin(slow if asynchronous else body)
            try:
                await fiber
            except DuplicateRegistrationError:
                assert refused
                await fiber.dispose()
            except Boom:
                assert fails
                assert not refused
                await fiber.dispose()
            else:
                assert not refused
                assert not fails
                place.entries = after
                self.mounted.append(Mounted(fiber, place, entries))

        self.run(step())

    @precondition(lambda self: self.mounted)
    @rule(data=st.data(), again=st.booleans())
    def unmount_or_restart(self, data: st.DataObject, again: bool) -> None:
        """A plugin that restarts keeps every place it had; nothing changes in any assembly."""
        mounted = data.draw(st.sampled_from(self.mounted))

        async def step() -> None:
            if again:
                await mounted.fiber.restart()
            else:
                await mounted.fiber.dispose()

        self.run(step())
        if not again:
            self.mounted.remove(mounted)
            place = mounted.place
            place.entries = [e for e in place.entries if e not in mounted.entries]

    @rule()
    def restart_the_service(self) -> None:
        """What others have registered outlives the prompt service, in its place."""

        async def step() -> None:
            await self.service.restart()
            await self.settle()

        self.run(step())

    @rule(data=st.data())
    def assemble_during_change(self, data: st.DataObject) -> None:
        """An assembly works on the registry as it stood when it began (L7)."""
        place = data.draw(st.sampled_from([None, *self.places]))
        other = data.draw(st.sampled_from(self.living()))
        names = [
            name for name in NAMES if not self.is_taken(other, Entry("section", name, 0, "", False))
        ]
        before = self.expected(place)
        results: list[dict[str, Any]] = []

        async def step() -> None:
            gate = anyio.Event()

            async def provider() -> str:
                await gate.wait()
                return "gate"

            async def assemble() -> None:
                key = place.key if place is not None else None
                results.append(self.data_of(await self.root.system_prompt.assemble(scope=key)))

            waiting = self.root.system_prompt.variable("gate", provider)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(assemble)
                tasks.start_soon(assemble)
                await anyio.sleep(1)
                await waiting()
                late = [
                    self.context_of(other).system_prompt.section(name, "late", order=1)
                    for name in names
                ]
                for effect in late[::2]:
                    await effect()
                gate.set()
            for effect in late:
                await effect()

        self.run(step())
        # A variable of the whole tree is its last or stands where it is shadowed: compare apart.
        for result in results:
            assert result["variables"].pop("gate") == "gate"
            assert result == before
        assert len(results) == 2

    @rule(data=st.data())
    def change_an_assembly(self, data: st.DataObject) -> None:
        """Changing an assembly changes neither the registry nor another assembly (L7)."""
        place = data.draw(st.sampled_from([None, *self.places]))
        key = place.key if place is not None else None

        async def step() -> None:
            prompt = self.root.system_prompt
            spoiled, other = await prompt.assemble(scope=key), await prompt.assemble(scope=key)
            for part in (*spoiled.sections, *spoiled.contexts):
                part.text = "spoiled"
                part.name = "spoiled"
            spoiled.sections.clear()
            spoiled.contexts.clear()
            spoiled.variables.clear()
            assert self.data_of(other) == self.expected(place)

        self.run(step())

    # What must hold after each rule

    @invariant()
    def every_scope_sees_what_the_model_says(self) -> None:
        async def step() -> None:
            for place in (None, *self.places):
                self.called.clear()
                key = place.key if place is not None else None
                assembly = await self.root.system_prompt.assemble(scope=key)
                expected = self.expected(place)
                assert self.data_of(assembly) == expected, place
                texts = [
                    IDENTITY if n == "harness:identity" else t for n, t in expected["sections"]
                ]
                assert render_prompt(assembly) == "\n\n".join(filter(None, texts))
                self.no_shadowed_provider_was_called(place)

        self.run(step())

    def no_shadowed_provider_was_called(self, place: Place | None) -> None:
        suppressed = self.suppressed(place)
        effective = [
            entry.text
            for kind in ("section", "context", "variable")
            for entry in self.visible(place, kind)
            if entry.provided and not (kind == "context" and entry.name in suppressed)
        ]
        assert sorted(self.called) == sorted(effective)

    @invariant()
    def chains_are_as_the_model_says(self) -> None:
        for place in self.places:
            assert scope_chain_of(place.key) == [one.key for one in place.chain()]
            parent = place.parent.key if place.parent is not None else None
            assert scope_parent_of(place.key) is parent

    @invariant()
    def events_flow_up(self) -> None:
        """A listener hears what happens in its scope and below; untagged ones hear all (3)."""

        async def step() -> None:
            for place in (None, *self.places):
                self.heard.clear()
                key = place.key if place is not None else None
                self.root.emit("law", target=scope_target(None, key))
                hearing = [self.everywhere, *(place.chain() if place is not None else ())]
                expected = [e.text for one in hearing for e in one.entries if e.kind == "listener"]
                assert sorted(self.heard) == sorted(expected)
            self.heard.clear()
            self.root.emit("law")
            everybody = [self.everywhere, *self.places]
            texts = [e.text for one in everybody for e in one.entries if e.kind == "listener"]
            assert sorted(self.heard) == sorted(texts)

        self.run(step())

    @invariant()
    def emptied_layers_are_reclaimed(self) -> None:
        layers = self.root.system_prompt.layers
        filled = [
            place.key
            for place in self.places
            if any(entry.kind != "listener" for entry in place.entries)
        ]
        assert sorted(map(repr, layers.scopes())) == sorted(map(repr, filled))
        for place in self.places:
            assert (layers.peek(place.key) is not None) == (place.key in filled)

    def teardown(self) -> None:
        async def step() -> None:
            for effect in list(self.effects.values())[::-1]:
                await effect()
            for mounted in self.mounted:
                await mounted.fiber.dispose()
            for place in self.living()[1:]:
                assert place.scope is not None
                await place.scope.dispose()

        try:
            if not self.has_failed():
                self.run(step())
                assert self.run(self.residue()) == []
        finally:
            super().teardown()


TestScopes = Scopes.TestCase
TestScopes.settings = laws(examples=200, steps=20)
