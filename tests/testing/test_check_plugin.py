"""`check_plugin`: a good plugin passes, a bad one is named with the line that is to blame."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import anyio
import pytest
from anyio.lowlevel import checkpoint

from harness_core import Context, Service, create_scope, inject
from harness_core.errors import PluginError
from harness_core.testing import PluginReport, check_plugin, run_with_virtual_clock


def _line(marker: str) -> int:
    lines = inspect.getsource(sys.modules[__name__]).splitlines()
    return next(n for n, line in enumerate(lines, 1) if line.rstrip().endswith(f"# {marker}"))


def check(plugin: Any, *args: Any, **options: Any) -> PluginReport:
    async def main() -> PluginReport:
        return await check_plugin(plugin, *args, **options)

    return run_with_virtual_clock(main)


@asynccontextmanager
async def connection() -> AsyncIterator[str]:
    await checkpoint()
    yield "connected"
    await anyio.sleep(0.1)


@inject("system_prompt")
async def good(ctx: Context, _: Any) -> AsyncIterator[Callable[..., Any]]:
    ctx.system_prompt.section("good", "text", order=1)
    await checkpoint()
    await ctx.enter(connection())
    ctx.start_soon(anyio.sleep_forever)

    async def undo() -> None:
        await anyio.sleep(0.1)

    yield undo
    await anyio.sleep(0.1)


def test_a_good_plugin_passes_at_each_of_its_checkpoints() -> None:
    report = check(good, {"any": "config"}, raises=True)
    assert report.ok
    # The body, its context manager, its task and its disposer, in both of its lives.
    assert report.checkpoints >= 10
    assert [run.kind for run in report.runs[1:4]] == ["failure", "disposal", "cancelled caller"]
    assert len(report.runs) == 1 + 3 * report.checkpoints
    assert all(run.place.startswith(__file__) for run in report.runs[1:4])
    assert str(report).endswith("all ok")


def test_it_is_deterministic() -> None:
    assert check(good, {}) == check(good, {})


class Leaky:
    """One way of leaving something behind."""

    kept: ClassVar[list[Any]] = []

    async def listener(self, ctx: Context) -> None:
        ctx.root.on("law", print)  # listener
        await checkpoint()

    async def scope(self, ctx: Context) -> None:
        create_scope(ctx.root, object())  # scope
        await checkpoint()

    async def task(self, _: Context) -> None:
        async def stray() -> None:
            await anyio.sleep(30)  # stray

        self.kept.append(asyncio.get_running_loop().create_task(stray()))
        await anyio.sleep(0.1)

    async def memory(self, ctx: Context) -> None:
        self.kept.append(ctx)


@pytest.mark.parametrize(
    ("way", "kind", "marker"),
    [
        ("listener", "listener", "listener"),
        ("scope", "effect", "scope"),
        ("task", "task", "stray"),
        ("memory", "memory", ""),
    ],
)
def test_what_is_left_is_named_with_its_line(way: str, kind: str, marker: str) -> None:
    report = check(getattr(Leaky(), way))
    Leaky.kept.clear()
    assert not report.ok
    left = [one for one in report.left if one.kind == kind]
    assert left
    if marker:
        assert (left[0].file, left[0].line) == (__file__, _line(marker))
        assert f"{__file__}:{_line(marker)}" in str(report)


def test_a_leak_that_only_an_interruption_brings_about() -> None:
    """The clean run is fine; the runs that fail in the middle are not."""

    class Registry:
        taken = False

    registry = Registry()

    async def forgets_to_give_back(_: Context) -> Callable[[], None]:
        assert not registry.taken, "taken already"
        registry.taken = True
        try:
            await anyio.sleep(0.1)  # in between
        except Exception:
            raise
        return lambda: setattr(registry, "taken", False)

    report = check(forgets_to_give_back)
    assert report.runs[0].ok
    faulty = [run for run in report.runs if not run.ok]
    assert faulty[0].kind == "failure"
    assert faulty[0].place == f"{__file__}:{_line('in between')}"
    assert any("would not load again" in fault for fault in faulty[0].faults)
    with pytest.raises(AssertionError, match="would not load again"):
        report.raise_if_faulty()


def test_a_disposer_that_needs_what_was_never_made() -> None:
    async def plugin(ctx: Context) -> None:
        held: dict[str, str] = {}
        ctx.effect(lambda: lambda: held["connection"], label="connection")
        await checkpoint()
        held["connection"] = "open"

    report = check(plugin)
    assert report.runs[0].ok
    assert any("KeyError" in fault and "connection" in fault for fault in report.faults)


def test_services_are_values_or_classes() -> None:
    class Database(Service, key="database"):
        pass

    used: list[Any] = []

    @inject("database", "value")
    def plugin(ctx: Context) -> None:
        used.append((type(ctx.database), ctx["value"]))

    report = check(plugin, services={"database": Database, "value": 5})
    assert report.ok
    assert set(used) == {(Database, 5)}


def test_a_service_that_is_not_given_is_an_error() -> None:
    with pytest.raises(PluginError, match=r"waits for nobody.*services="):
        check(inject("nobody")(lambda _: None))


def test_a_plugin_that_fails_when_left_alone_raises_its_own_error() -> None:
    def plugin(_: Context) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        check(plugin)


def test_a_teardown_that_hangs_is_a_fault() -> None:
    async def forever() -> None:
        await anyio.sleep_forever()

    report = check(lambda _: forever, grace=0.5)
    assert any("grace" in fault for fault in report.faults)
