"""Other Python libraries, in the rows whose work they can do whole.

A peer that is not installed is left out. The README says why each is missing from other rows.
"""

from __future__ import annotations

import importlib
import importlib.util
import itertools
from collections.abc import Awaitable, Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, Final

from benchmarks.floor import Registry
from benchmarks.rows import FLOW, TICK, Row
from benchmarks.shared import Key, counters, differences, flow, flow_end, ignore, value_of
from benchmarks.subject import LocalSubject, Subject

PI_CORDIS: Final = "pi-cordis-py"
LETODEREA: Final = "arclet-letoderea"
PLUGGY: Final = "pluggy"
BLINKER: Final = "blinker"

MODULES: Final = {
    PI_CORDIS: "cordis",
    LETODEREA: "arclet.letoderea",
    PLUGGY: "pluggy",
    BLINKER: "blinker",
}
"""Each peer's distribution and the module that it brings."""


def installed(peer: str) -> bool:
    """Say whether a peer can be imported."""
    top = MODULES[peer].partition(".")[0]
    return importlib.util.find_spec(top) is not None


def _gains(heard: list[int], before: list[int]) -> list[int]:
    return [now - then for now, then in zip(heard, before, strict=True)]


async def blinker_emit(row: Row) -> Subject:
    """Send a signal to its receivers."""
    from blinker import Signal

    heard, listeners = counters(row.work["listeners"])
    signal = Signal(TICK)
    receivers = [partial(_drop_sender, listener) for listener in listeners]
    for receiver in receivers:
        signal.connect(receiver, weak=False)

    async def result() -> list[int]:
        before = list(heard)
        signal.send(None, value=1)
        return _gains(heard, before)

    async def run(count: int) -> None:
        for _ in range(count):
            signal.send(None, value=1)

    return LocalSubject(BLINKER, result=result, run=run)


def _drop_sender(listener: Callable[[int], None], _sender: object, value: int) -> None:
    listener(value)


async def blinker_emit_scoped(row: Row) -> Subject:
    """Send a signal from one of many senders, each with a receiver of its own."""
    from blinker import Signal

    heard, listeners = counters(row.work["scopes"])
    keys = [Key(str(index)) for index in range(row.work["scopes"])]
    signal = Signal(TICK)
    for key, listener in zip(keys, listeners, strict=True):
        signal.connect(partial(_drop_sender, listener), sender=key, weak=False)
    key = keys[row.work["target"]]

    async def result() -> list[list[int]]:
        before = list(heard)
        signal.send(key, value=1)
        return differences(heard, before)

    async def run(count: int) -> None:
        for _ in range(count):
            signal.send(key, value=1)

    return LocalSubject(BLINKER, result=result, run=run)


async def pluggy_emit(row: Row) -> Subject:
    """Call a hook that this many plugins implement."""
    import pluggy

    spec = pluggy.HookspecMarker("bench")
    impl = pluggy.HookimplMarker("bench")

    @spec
    def tick(value: int) -> None:
        """Hear a value."""

    heard, listeners = counters(row.work["listeners"])
    manager = pluggy.PluginManager("bench")
    manager.add_hookspecs(type("Specs", (), {"tick": staticmethod(tick)}))
    for listener in listeners:
        manager.register(SimpleNamespace(tick=impl(listener)))
    hook = manager.hook

    async def result() -> list[int]:
        before = list(heard)
        hook.tick(value=1)
        return _gains(heard, before)

    async def run(count: int) -> None:
        for _ in range(count):
            hook.tick(value=1)

    return LocalSubject(PLUGGY, result=result, run=run)


async def letoderea_emit(row: Row) -> Subject:
    """Publish an event to the subscribers of one scope."""
    from arclet import letoderea

    @letoderea.make_event(name=TICK)
    class Tick:
        value: int

    heard, listeners = counters(row.work["listeners"])
    scope: Any = letoderea.Scope.of("bench-emit")
    for listener in listeners:
        scope.register(listener, Tick)

    async def result() -> list[int]:
        before = list(heard)
        await letoderea.publish(Tick(1), scope=scope)
        return _gains(heard, before)

    async def run(count: int) -> None:
        for _ in range(count):
            await letoderea.publish(Tick(1), scope=scope)

    async def close() -> None:
        scope.dispose()

    return LocalSubject(LETODEREA, result=result, run=run, close=close)


async def letoderea_emit_scoped(row: Row) -> Subject:
    """Publish an event to one of many scopes, each with a subscriber."""
    from arclet import letoderea

    @letoderea.make_event(name=f"{TICK}-scoped")
    class Tick:
        value: int

    heard, listeners = counters(row.work["scopes"])
    scopes: list[Any] = [
        letoderea.Scope.of(f"bench-{index}") for index in range(row.work["scopes"])
    ]
    for scope, listener in zip(scopes, listeners, strict=True):
        scope.register(listener, Tick)
    target = scopes[row.work["target"]]

    async def result() -> list[list[int]]:
        before = list(heard)
        await letoderea.publish(Tick(1), scope=target)
        return differences(heard, before)

    async def run(count: int) -> None:
        for _ in range(count):
            await letoderea.publish(Tick(1), scope=target)

    async def close() -> None:
        for scope in scopes:
            scope.dispose()

    return LocalSubject(LETODEREA, result=result, run=run, close=close)


def _cordis_context() -> Any:
    """Return a new root context; the module carries no types."""
    return importlib.import_module("cordis").Context()


async def cordis_emit(row: Row) -> Subject:
    """Emit an event on a root context."""
    heard, listeners = counters(row.work["listeners"])
    ctx = _cordis_context()
    for listener in listeners:
        ctx.on(TICK, listener)

    async def result() -> list[int]:
        before = list(heard)
        ctx.emit(TICK, 1)
        return _gains(heard, before)

    async def run(count: int) -> None:
        for _ in range(count):
            ctx.emit(TICK, 1)

    return LocalSubject(PI_CORDIS, result=result, run=run)


async def cordis_waterfall(row: Row) -> Subject:
    """Pass a value through a waterfall of a root context."""
    ctx = _cordis_context()
    for _ in range(row.work["listeners"]):
        ctx.on(FLOW, partial(flow))

    async def result() -> int:
        value: int = await ctx.waterfall(FLOW, 2, flow_end)
        return value

    async def run(count: int) -> None:
        for _ in range(count):
            await ctx.waterfall(FLOW, 2, flow_end)

    return LocalSubject(PI_CORDIS, result=result, run=run)


async def _cordis_tree() -> tuple[Any, Registry]:
    """A context whose service `book` holds the floor's own registry of plain dicts."""
    ctx = _cordis_context()
    registry = Registry()
    ctx.provide("book")
    ctx.set("book", SimpleNamespace(store=registry))
    return ctx, registry


def _put(registry: Registry, where: dict[str, Any], name: str, what: Any) -> Callable[[], None]:
    """Put an entry into a dict, tell the listeners, and return how to take it back."""
    if name in where:
        raise ValueError(name)
    where[name] = what
    registry.changed()

    def take_back() -> None:
        del where[name]
        registry.changed()

    return take_back


def _cordis_guest(ctx: Any, config: dict[str, int]) -> None:
    at = config["at"]
    store = ctx.book.store
    for name, text, order in (
        (f"guest-{at}:a", "First words.", 10),
        (f"guest-{at}:b", "Second words.", 20),
        (f"guest-{at}:c", "Third words.", 30),
    ):
        ctx.effect(partial(_put, store, store.sections, name, (order, text)))
    ctx.effect(partial(_put, store, store.variables, f"guest_{at}", value_of("value")))
    ctx.on(TICK, ignore)


_cordis_guest.inject = ["book"]  # type: ignore[attr-defined]


async def cordis_mount(row: Row) -> Subject:
    """Mount and dispose plugins that register in plain dicts through effects."""
    ctx, registry = await _cordis_tree()
    changes = [0]

    def count_change() -> None:
        changes[0] += 1

    registry.on_change.append(count_change)

    async def up() -> list[Any]:
        fibers = []
        for at in range(row.work["live"]):
            fiber = ctx.plugin(_cordis_guest, {"at": at})
            await fiber
            fibers.append(fiber)
        return fibers

    async def down(fibers: list[Any]) -> None:
        for fiber in fibers:
            await fiber.dispose()

    async def result() -> list[Any]:
        before = changes[0]
        fibers = await up()
        during = registry.names()
        await down(fibers)
        return [during, registry.names(), changes[0] - before]

    async def run(count: int) -> None:
        for _ in range(count):
            await down(await up())

    return LocalSubject(PI_CORDIS, result=result, run=run, unit=row.work["live"])


async def cordis_read(_row: Row) -> Subject:
    """Read a service from a plugin's context."""
    ctx, _ = await _cordis_tree()
    hosts: list[Any] = []

    def host(ctx: Any, _config: Any = None) -> None:
        hosts.append(ctx)

    host.inject = ["book"]  # type: ignore[attr-defined]
    await ctx.plugin(host)
    inside = hosts[0]

    async def result() -> str:
        return "function" if callable(inside.book.store.changed) else "nothing"

    async def run(count: int) -> None:
        for _ in itertools.repeat(None, count):
            inside.book  # noqa: B018

    return LocalSubject(PI_CORDIS, result=result, run=run)


BUILDERS: dict[str, dict[str, Callable[[Row], Awaitable[Subject]]]] = {
    PI_CORDIS: {
        "emit": cordis_emit,
        "waterfall": cordis_waterfall,
        "mount": cordis_mount,
        "read": cordis_read,
    },
    LETODEREA: {"emit": letoderea_emit, "emit_scoped": letoderea_emit_scoped},
    PLUGGY: {"emit": pluggy_emit},
    BLINKER: {"emit": blinker_emit, "emit_scoped": blinker_emit_scoped},
}


async def build(row: Row) -> list[Subject]:
    """Build a row's work on every installed peer that can do it."""
    return [
        await builders[row.kind](row)
        for peer, builders in BUILDERS.items()
        if row.kind in builders and installed(peer)
    ]
