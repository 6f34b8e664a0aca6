"""The floor: the least Python that does the same work by hand, to compare with.

It calls the same providers and listeners and ends in the same texts, tools, variables and counts.
What it leaves out, everywhere: ownership, errors that name anybody, duplicates in scopes, dynamic
chains, change tracking, asynchronous providers, provenance, teardown that goes on after a failure.
Each builder's docstring says what else.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from functools import partial
from operator import attrgetter
from typing import Any

from benchmarks.rows import Row, Work
from benchmarks.shared import (
    Key,
    Listener,
    Text,
    assembly_listener,
    counters,
    differences,
    ends,
    flow,
    flow_end,
    ignore,
    text_of,
    traced_bytes,
    value_of,
)
from benchmarks.subject import LocalSubject, Subject

IDENTITY = "You are an AI agent powered by DeepSeek Harness."
PREAMBLE = (
    "Current runtime context. This snapshot supersedes earlier runtime-context snapshots.\n\n"
)
REST = "<unlisted-tools>"
replace_references = re.compile(r"\{\{([a-z][a-z0-9_]*)\}\}").sub


class Tool:
    """A tool's schema."""

    __slots__ = ("description", "name", "parameters")

    def __init__(self, name: str, description: str, parameters: Work) -> None:
        self.name = name
        self.description = description
        self.parameters = parameters


class Record:
    """A section or a context of an assembly."""

    __slots__ = ("name", "text")

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text


class Assembly:
    """What an assembly comes to."""

    __slots__ = ("contexts", "sections", "tools", "variables")

    def __init__(
        self,
        sections: list[Record],
        contexts: list[Record],
        tools: list[Tool],
        variables: dict[str, str],
    ) -> None:
        self.sections = sections
        self.contexts = contexts
        self.tools = tools
        self.variables = variables


class AssembleContext:
    """What a provider gets."""

    __slots__ = ("scope",)

    def __init__(self, scope: Key | None) -> None:
        self.scope = scope


class Plan:
    """What takes part in one scope's assemblies, shadowed and sorted beforehand."""

    __slots__ = ("contexts", "sections", "variables")

    def __init__(self, layers: list[Work]) -> None:
        self.sections = _in_order(layers, "sections")
        self.contexts = _in_order(layers, "contexts")
        values = {name: v for layer in layers for name, v in layer.get("variables", {}).items()}
        self.variables = [(name, value_of(value)) for name, value in values.items()]


def _in_order(layers: list[Work], part: str) -> list[tuple[str, Text]]:
    """Merge a part of the layers, nearest last and winning, and sort it by order."""
    nearest = {entry["name"]: entry for layer in layers for entry in layer.get(part, ())}
    entries = sorted(nearest.values(), key=lambda entry: float(entry["order"]))
    return [(entry["name"], text_of(entry["text"])) for entry in entries]


def plans_for(work: Work) -> tuple[dict[Key | None, Plan], dict[str | None, Key | None]]:
    """Make the plan of every target's scope, and the key of every scope."""
    everybody = {
        "sections": [
            {"name": "harness:identity", "text": IDENTITY, "order": -100},
            {"name": "deployment:persona", "text": work["persona"], "order": 0},
            *work["sections"],
        ],
        "contexts": work["contexts"],
        "variables": work["variables"],
    }
    keys: dict[str | None, Key | None] = {None: None}
    chains: dict[str | None, list[Work]] = {None: [everybody]}
    for scope in work["scopes"]:
        keys[scope["id"]] = Key(scope["id"])
        chains[scope["id"]] = [*chains[scope["parent"]], scope]
    return {keys[target]: Plan(chains[target]) for target in work["targets"]}, keys


class Floor:
    """Assembles and renders from finished plans."""

    def __init__(self, work: Work) -> None:
        self.plans, self.keys = plans_for(work)
        self.listeners: list[Listener] = [
            assembly_listener(each, Record, Record) for each in work["listeners"]
        ]
        schemas = [Tool(**tool) for tool in work["tools"]]
        self.provide_tools: Callable[[AssembleContext], list[Tool]] = lambda _: schemas
        self.tool_order: list[str] | None = work["tool_order"]

    def tools(self, context: AssembleContext) -> list[Tool]:
        """Ask for the tools and put them in order."""
        ordered = sorted(self.provide_tools(context), key=attrgetter("name"))
        if self.tool_order is None:
            return ordered
        listed: dict[str, list[Tool]] = {name: [] for name in self.tool_order}
        rest = listed[REST]
        for tool in ordered:
            listed.get(tool.name, rest).append(tool)
        return [tool for group in listed.values() for tool in group]

    async def assemble(self, scope: Key | None) -> Assembly:
        """Evaluate one scope's plan and pass the result through the listeners."""
        plan = self.plans[scope]
        context = AssembleContext(scope)
        variables = {name: value(context) for name, value in plan.variables}
        tools = self.tools(context)
        assembly = Assembly(
            [
                Record(name, text if text.__class__ is str else text(context))  # type: ignore[operator]
                for name, text in plan.sections
            ],
            [
                Record(name, text if text.__class__ is str else text(context))  # type: ignore[operator]
                for name, text in plan.contexts
            ],
            tools,
            variables,
        )
        if not self.listeners:
            return assembly
        return await self._step(0, assembly, context)

    async def _step(self, at: int, assembly: Assembly, context: AssembleContext) -> Assembly:
        if at == len(self.listeners):
            return assembly
        rest = partial(self._step, at + 1, assembly, context)
        changed: Assembly = await self.listeners[at](assembly, context, rest)
        return changed


def render(records: list[Record], variables: dict[str, str]) -> str:
    """Put the values into the texts and join those that are not empty.

    One pass over the joined text is the quickest way; an empty value could empty a whole text,
    which would then have to go, so only then are the texts done one by one.
    """

    def value(match: re.Match[str]) -> str:
        return variables[match[1]]

    texts = [record.text for record in records]
    if all(variables.values()):
        joined = "\n\n".join([text for text in texts if text])
        return replace_references(value, joined) if "{{" in joined else joined
    return "\n\n".join(filter(None, [replace_references(value, text) for text in texts]))


def render_snapshot(records: list[Record], variables: dict[str, str]) -> str:
    """Render the runtime context under its preamble."""
    body = render(records, variables)
    return PREAMBLE + body if body else ""


def plain(assembly: Assembly, prompt: str, snapshot: str) -> Work:
    """Return an assembly as JSON data."""
    return {
        "sections": [[entry.name, entry.text] for entry in assembly.sections],
        "contexts": [[entry.name, entry.text] for entry in assembly.contexts],
        "tools": [
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
            for tool in assembly.tools
        ],
        "variables": assembly.variables,
        "prompt": prompt,
        "snapshot": snapshot,
    }


async def assemble_floor(row: Row) -> Subject:
    """Leaves out: the registry itself. What takes part is shadowed and sorted before the clock."""
    floor = Floor(row.work)
    targets = [floor.keys[target] for target in row.work["targets"]]
    turn = 0

    async def once(key: Key | None) -> tuple[Assembly, str, str]:
        assembly = await floor.assemble(key)
        prompt = render(assembly.sections, assembly.variables)
        return assembly, prompt, render_snapshot(assembly.contexts, assembly.variables)

    async def result() -> list[Work]:
        return [plain(*await once(key)) for key in ends(targets)]

    async def run(count: int) -> None:
        nonlocal turn
        for _ in range(count):
            await once(targets[turn])
            turn = (turn + 1) % len(targets)

    return LocalSubject("floor", result=result, run=run)


async def emit_floor(row: Row) -> Subject:
    """Leaves out: everything but a loop over a list."""
    heard, listeners = counters(row.work["listeners"])

    def emit(value: int) -> None:
        for listener in listeners:
            listener(value)

    async def result() -> list[int]:
        before = list(heard)
        emit(1)
        return [now - then for now, then in zip(heard, before, strict=True)]

    async def run(count: int) -> None:
        for _ in range(count):
            emit(1)

    return LocalSubject("floor", result=result, run=run)


async def emit_scoped_floor(row: Row) -> Subject:
    """Leaves out: untagged listeners, parents, filters of the base object."""
    heard, listeners = counters(row.work["scopes"])
    keys = [Key(str(index)) for index in range(row.work["scopes"])]
    by_key = {key: [listener] for key, listener in zip(keys, listeners, strict=True)}
    key = keys[row.work["target"]]

    def emit(key: Key, value: int) -> None:
        for listener in by_key.get(key, ()):
            listener(value)

    async def result() -> list[list[int]]:
        before = list(heard)
        emit(key, 1)
        return differences(heard, before)

    async def run(count: int) -> None:
        for _ in range(count):
            emit(key, 1)

    return LocalSubject("floor", result=result, run=run)


async def waterfall_floor(row: Row) -> Subject:
    """Leaves out: checks that `next` is called once and that something is returned."""
    listeners = [flow] * row.work["listeners"]

    async def waterfall(value: int, inner: Callable[[], Awaitable[int]]) -> int:
        def step(at: int) -> Awaitable[int]:
            if at == len(listeners):
                return inner()
            return listeners[at](value, partial(step, at + 1))

        return await step(0)

    async def run(count: int) -> None:
        for _ in range(count):
            await waterfall(2, flow_end)

    return LocalSubject("floor", result=lambda: waterfall(2, flow_end), run=run)


class Registry:
    """Sections, variables and listeners in plain dicts; changes are told to listeners."""

    def __init__(self) -> None:
        self.sections: dict[str, tuple[float, str]] = {
            "harness:identity": (-100, IDENTITY),
            "deployment:persona": (0, ""),
        }
        self.variables: dict[str, Callable[[Any], str]] = {}
        self.listeners: dict[str, list[Callable[..., Any]]] = {}
        self.on_change: list[Callable[[], None]] = []

    def changed(self) -> None:
        """Tell whoever listens."""
        for listener in self.on_change:
            listener()

    def names(self) -> list[list[str]]:
        """Return the names of all sections in order, and of all variables."""
        return [sorted(self.sections, key=lambda n: self.sections[n][0]), list(self.variables)]


class Guest:
    """One mounted plugin's view: registers for it, and remembers how to take back."""

    __slots__ = ("registry", "undo")

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.undo: list[Callable[[], None]] = []

    def section(self, name: str, text: str, *, order: float) -> None:
        """Register a section."""
        sections = self.registry.sections
        if name in sections:
            raise ValueError(name)
        sections[name] = (order, text)
        self._registered(sections, name)

    def variable(self, name: str, value: Callable[[Any], str]) -> None:
        """Register a variable."""
        variables = self.registry.variables
        if name in variables:
            raise ValueError(name)
        variables[name] = value
        self._registered(variables, name)

    def on(self, event: str, listener: Callable[..., Any]) -> None:
        """Register a listener."""
        listeners = self.registry.listeners.setdefault(event, [])
        listeners.append(listener)
        self.undo.append(partial(listeners.remove, listener))

    def _registered(self, where: dict[str, Any], name: str) -> None:
        def take_back() -> None:
            del where[name]
            self.registry.changed()

        self.undo.append(take_back)
        self.registry.changed()

    def dispose(self) -> None:
        """Take everything back, last in first out."""
        while self.undo:
            self.undo.pop()()


def guest(ctx: Guest, config: dict[str, int]) -> None:
    """The plugin of the mount rows."""
    at = config["at"]
    ctx.section(f"guest-{at}:a", "First words.", order=10)
    ctx.section(f"guest-{at}:b", "Second words.", order=20)
    ctx.section(f"guest-{at}:c", "Third words.", order=30)
    ctx.variable(f"guest_{at}", value_of("value"))
    ctx.on("bench/tick", ignore)


async def mount_floor(row: Row) -> Subject:
    """Leaves out: injection, states, awaiting, roll-back, order kept over reloads."""
    registry = Registry()
    changes = [0]

    def count_change() -> None:
        changes[0] += 1

    registry.on_change.append(count_change)

    def up() -> list[Guest]:
        guests = []
        for at in range(row.work["live"]):
            mounted = Guest(registry)
            guest(mounted, {"at": at})
            guests.append(mounted)
        return guests

    def down(guests: list[Guest]) -> None:
        for mounted in guests:
            mounted.dispose()

    async def result() -> list[Any]:
        before = changes[0]
        guests = up()
        during = registry.names()
        down(guests)
        return [during, registry.names(), changes[0] - before]

    async def run(count: int) -> None:
        for _ in range(count):
            down(up())

    return LocalSubject("floor", result=result, run=run, unit=row.work["live"])


class Scopes:
    """A dict of sections for each key, beside the global ones."""

    def __init__(self) -> None:
        self.everybody = Registry()
        self.layers: dict[Key, Guest] = {}

    def mint(self, key: Key) -> Guest:
        """Make a scope's own registry and remember it."""
        registry = Registry.__new__(Registry)
        registry.sections = {}
        registry.variables = {}
        registry.on_change = self.everybody.on_change
        scope = self.layers[key] = Guest(registry)
        return scope

    def drop(self, key: Key) -> None:
        """Take a scope's registrations back and forget it."""
        self.layers.pop(key).dispose()

    def names(self, key: Key) -> list[str]:
        """Return the names of the sections that the scope sees, in order."""
        sections = dict(self.everybody.sections)
        if key in self.layers:
            sections.update(self.layers[key].registry.sections)
        return sorted(sections, key=lambda name: sections[name][0])


def _fill(scope: Guest, described: Work) -> None:
    for section in described["sections"]:
        scope.section(section["name"], section["text"], order=section["order"])


async def scope_floor(row: Row) -> Subject:
    """Leaves out: parents, ownership by a fiber, waiting for quiet."""
    scopes = Scopes()
    changes = [0]

    def count_change() -> None:
        changes[0] += 1

    scopes.everybody.on_change.append(count_change)
    for described in row.work["beside"]:
        _fill(scopes.mint(Key(described["id"])), described)
    own = row.work["own"]
    key = Key(own["id"])
    (a, a_text, a_order), (b, b_text, b_order), (c, c_text, c_order) = (
        (entry["name"], entry["text"], entry["order"]) for entry in own["sections"]
    )

    def up() -> None:
        scope = scopes.mint(key)
        scope.section(a, a_text, order=a_order)
        scope.section(b, b_text, order=b_order)
        scope.section(c, c_text, order=c_order)

    async def result() -> list[Any]:
        before = changes[0]
        up()
        during = scopes.names(key)
        scopes.drop(key)
        return [during, scopes.names(key), changes[0] - before]

    async def run(count: int) -> None:
        for _ in range(count):
            up()
            scopes.drop(key)

    return LocalSubject("floor", result=result, run=run)


async def memory_floor(row: Row) -> Subject:
    """Leaves out: what `scope_floor` leaves out, and every plan."""
    described = row.work["scopes"]
    keys = [Key(scope["id"]) for scope in described]
    values = [value_of(scope["variables"]["agent"]) for scope in described]

    async def build() -> object:
        scopes = Scopes()
        for key, value, scope in zip(keys, values, described, strict=True):
            minted = scopes.mint(key)
            _fill(minted, scope)
            minted.variable("agent", value)
        return scopes

    async def result() -> int:
        return len(described)

    async def measure() -> float:
        return await traced_bytes(build, len(described))

    return LocalSubject("floor", result=result, measure=measure)


async def read_floor(_row: Row) -> Subject:
    """Leaves out: everything but one attribute of one object."""
    holder = Guest(Registry())

    async def result() -> str:
        return "function" if callable(holder.section) else "nothing"

    async def run(count: int) -> None:
        for _ in range(count):
            holder.registry  # noqa: B018

    return LocalSubject("floor", result=result, run=run)


BUILDERS: dict[str, Callable[[Row], Awaitable[Subject]]] = {
    "assemble": assemble_floor,
    "emit": emit_floor,
    "emit_scoped": emit_scoped_floor,
    "waterfall": waterfall_floor,
    "mount": mount_floor,
    "scope": scope_floor,
    "read": read_floor,
    "memory": memory_floor,
}


async def build(row: Row) -> Subject:
    """Build a row's work by hand."""
    return await BUILDERS[row.kind](row)
