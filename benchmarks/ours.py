"""This project's side: the work done through the public door, as a plugin author would do it."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks.rows import FLOW, TICK, Row, Work
from benchmarks.shared import (
    Key,
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
from harness_core import Context, create_scope, scope_target
from harness_core.prompt import (
    AssembledContext,
    AssembledSection,
    PromptAssembly,
    SystemPrompt,
    ToolProviderResult,
    ToolSchema,
    render_context_snapshot,
    render_prompt,
)


class Tree:
    """A live tree: the root, the prompt service, and a host plugin that injects it."""

    def __init__(self, root: Context, host: Context) -> None:
        self.root = root
        self.host = host

    @classmethod
    async def plant(cls, work: Work | None = None) -> Tree:
        """Open a tree and mount the prompt service with the work's persona and tool order."""
        root = Context()
        await root.__aenter__()
        config: Work = {"persona": (work or {}).get("persona", "")}
        if work and work.get("tool_order"):
            config["tool_order"] = work["tool_order"]
        await root.plugin(SystemPrompt, config)
        hosts: list[Context] = []

        def host(ctx: Context) -> None:
            hosts.append(ctx)

        host.inject = ["system_prompt"]  # type: ignore[attr-defined]
        await root.plugin(host)
        return cls(root, hosts[0])

    async def close(self) -> None:
        """Dispose the tree whole."""
        await self.root.__aexit__(None, None, None)


def register(ctx: Context, part: Work) -> None:
    """Register the described sections, contexts and variables for a context."""
    prompt = ctx.system_prompt
    for entry in part.get("sections", ()):
        prompt.section(entry["name"], text_of(entry["text"]), order=entry["order"])
    for entry in part.get("contexts", ()):
        prompt.context(entry["name"], text_of(entry["text"]), order=entry["order"])
    for name, value in part.get("variables", {}).items():
        prompt.variable(name, value_of(value))


def mint(host: Context, scopes: list[Work]) -> dict[str | None, Key | None]:
    """Mint the described scopes, fill them, and return their keys by id."""
    keys: dict[str | None, Key | None] = {None: None}
    for described in scopes:
        key = keys[described["id"]] = Key(described["id"])
        register(create_scope(host, key, parent=keys[described["parent"]]).ctx, described)
    return keys


def plain(assembly: PromptAssembly, prompt: str, snapshot: str) -> Work:
    """Return an assembly as JSON data."""
    return {
        "sections": [[entry.name, entry.text] for entry in assembly.sections],
        "contexts": [[entry.name, entry.text] for entry in assembly.contexts],
        "tools": [
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
            for tool in assembly.tools
        ],
        "variables": dict(assembly.variables),
        "prompt": prompt,
        "snapshot": snapshot,
    }


async def assemble(row: Row) -> Subject:
    """Assemble and render both texts."""
    work = row.work
    tree = await Tree.plant(work)
    register(tree.host, work)
    if work["tools"]:
        schemas = [ToolSchema(**tool) for tool in work["tools"]]
        provided = ToolProviderResult(schemas)
        tree.host.system_prompt.tools(lambda _: provided)
    keys = mint(tree.host, work["scopes"])
    for described in work["listeners"]:
        listener = assembly_listener(described, AssembledSection, AssembledContext)
        tree.host.on("system-prompt/assemble", listener)
    targets = [keys[target] for target in work["targets"]]
    turn = 0
    prompt = tree.host.system_prompt

    async def once(key: Key | None) -> tuple[PromptAssembly, str, str]:
        assembly = await prompt.assemble(scope=key)
        return assembly, render_prompt(assembly), render_context_snapshot(assembly)

    async def result() -> list[Work]:
        return [plain(*await once(key)) for key in ends(targets)]

    async def run(count: int) -> None:
        nonlocal turn
        for _ in range(count):
            await once(targets[turn])
            turn = (turn + 1) % len(targets)

    return LocalSubject("ours", result=result, run=run, close=tree.close)


async def emit(row: Row) -> Subject:
    """Emit an event to plain listeners."""
    tree = await Tree.plant()
    heard, listeners = counters(row.work["listeners"])
    for listener in listeners:
        tree.host.on(TICK, listener)
    root = tree.root

    async def result() -> list[int]:
        before = list(heard)
        root.emit(TICK, 1)
        return [now - then for now, then in zip(heard, before, strict=True)]

    async def run(count: int) -> None:
        for _ in range(count):
            root.emit(TICK, 1)

    return LocalSubject("ours", result=result, run=run, close=tree.close)


async def emit_scoped(row: Row) -> Subject:
    """Emit to one of many scopes; the target is made for each emit, as a caller would."""
    tree = await Tree.plant()
    heard, listeners = counters(row.work["scopes"])
    keys = [Key(str(index)) for index in range(row.work["scopes"])]
    for key, listener in zip(keys, listeners, strict=True):
        create_scope(tree.host, key).ctx.on(TICK, listener)
    root, key = tree.root, keys[row.work["target"]]

    async def result() -> list[list[int]]:
        before = list(heard)
        root.emit(TICK, 1, target=scope_target(None, key))
        return differences(heard, before)

    async def run(count: int) -> None:
        for _ in range(count):
            root.emit(TICK, 1, target=scope_target(None, key))

    return LocalSubject("ours", result=result, run=run, close=tree.close)


async def waterfall(row: Row) -> Subject:
    """Pass a value through listeners that each await the rest."""
    tree = await Tree.plant()
    for _ in range(row.work["listeners"]):
        tree.host.on(FLOW, flow)
    root = tree.root

    async def result() -> int:
        value: int = await root.waterfall(FLOW, 2, inner=flow_end)
        return value

    async def run(count: int) -> None:
        for _ in range(count):
            await root.waterfall(FLOW, 2, inner=flow_end)

    return LocalSubject("ours", result=result, run=run, close=tree.close)


def guest(ctx: Context, config: dict[str, int]) -> None:
    """The plugin of the mount rows."""
    at = config["at"]
    prompt = ctx.system_prompt
    prompt.section(f"guest-{at}:a", "First words.", order=10)
    prompt.section(f"guest-{at}:b", "Second words.", order=20)
    prompt.section(f"guest-{at}:c", "Third words.", order=30)
    prompt.variable(f"guest_{at}", value_of("value"))
    ctx.on(TICK, ignore)


guest.inject = ["system_prompt"]  # type: ignore[attr-defined]


def count_changes(tree: Tree) -> list[int]:
    """Listen to every change of the registry and return the count, in a list of one."""
    changes = [0]

    def count_change(*_: Any) -> None:
        changes[0] += 1

    tree.host.on("system-prompt/change", count_change, unfiltered=True)
    return changes


async def mount(row: Row) -> Subject:
    """Mount plugins one after another, then dispose them one after another."""
    tree = await Tree.plant()
    host = tree.host
    changes = count_changes(tree)

    async def up() -> list[Any]:
        fibers = []
        for at in range(row.work["live"]):
            fiber = host.plugin(guest, {"at": at})
            await fiber
            fibers.append(fiber)
        return fibers

    async def down(fibers: list[Any]) -> None:
        for fiber in fibers:
            await fiber.dispose()

    async def names() -> list[list[str]]:
        assembly = await host.system_prompt.assemble()
        return [[entry.name for entry in assembly.sections], list(assembly.variables)]

    async def result() -> list[Any]:
        before = changes[0]
        fibers = await up()
        during = await names()
        await down(fibers)
        return [during, await names(), changes[0] - before]

    async def run(count: int) -> None:
        for _ in range(count):
            await down(await up())

    return LocalSubject("ours", result=result, run=run, close=tree.close, unit=row.work["live"])


async def scope(row: Row) -> Subject:
    """Mint a scope, register three sections in it, dispose it."""
    tree = await Tree.plant()
    host = tree.host
    mint(host, row.work["beside"])
    changes = count_changes(tree)
    own = row.work["own"]
    key = Key(own["id"])
    (a, a_text, a_order), (b, b_text, b_order), (c, c_text, c_order) = (
        (entry["name"], entry["text"], entry["order"]) for entry in own["sections"]
    )

    def up() -> Any:
        minted = create_scope(host, key)
        prompt = minted.ctx.system_prompt
        prompt.section(a, a_text, order=a_order)
        prompt.section(b, b_text, order=b_order)
        prompt.section(c, c_text, order=c_order)
        return minted

    async def names() -> list[str]:
        return [entry.name for entry in (await host.system_prompt.assemble(scope=key)).sections]

    async def result() -> list[Any]:
        before = changes[0]
        minted = up()
        during = await names()
        await minted.dispose()
        return [during, await names(), changes[0] - before]

    async def run(count: int) -> None:
        for _ in range(count):
            await up().dispose()

    return LocalSubject("ours", result=result, run=run, close=tree.close)


async def read(_row: Row) -> Subject:
    """Read the prompt service from a context that injects it."""
    tree = await Tree.plant()
    host = tree.host

    async def result() -> str:
        return "function" if callable(host.system_prompt.section) else "nothing"

    async def run(count: int) -> None:
        for _ in itertools.repeat(None, count):
            host.system_prompt  # noqa: B018

    return LocalSubject("ours", result=result, run=run, close=tree.close)


async def memory(row: Row) -> Subject:
    """Count what a live scope keeps: the caller's keys, texts and functions are not counted."""
    tree = await Tree.plant()
    host = tree.host
    described = row.work["scopes"]
    values = [value_of(each["variables"]["agent"]) for each in described]

    async def fill(keys: list[Key]) -> list[Any]:
        live = []
        for key, value, each in zip(keys, values, described, strict=False):
            minted = create_scope(host, key)
            prompt = minted.ctx.system_prompt
            for entry in each["sections"]:
                prompt.section(entry["name"], entry["text"], order=entry["order"])
            prompt.variable("agent", value)
            live.append(minted)
        if row.work["assemble"]:
            for key in keys:
                await prompt.assemble(scope=key)
        return live

    async def result() -> int:
        return len(described)

    async def measure() -> float:
        for minted in await fill([Key("warm-up")]):
            await minted.dispose()
        keys = [Key(each["id"]) for each in described]
        live: list[Any] = []

        async def build() -> None:
            live.extend(await fill(keys))

        size = await traced_bytes(build, len(described))
        for minted in live:
            await minted.dispose()
        return size

    return LocalSubject("ours", result=result, measure=measure, close=tree.close)


BUILDERS: dict[str, Callable[[Row], Awaitable[Subject]]] = {
    "assemble": assemble,
    "emit": emit,
    "emit_scoped": emit_scoped,
    "waterfall": waterfall,
    "mount": mount,
    "scope": scope,
    "read": read,
    "memory": memory,
}


async def build(row: Row) -> Subject:
    """Build a row's work on this project."""
    return await BUILDERS[row.kind](row)
