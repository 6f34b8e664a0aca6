"""The rest of the kit: the clock, checkpoints, the ledger, the host and the fixture."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from harness_core import Context, create_scope
from harness_core.testing import (
    Checkpoints,
    TreeHost,
    count_checkpoints,
    ledger,
    run_with_virtual_clock,
)


def test_virtual_time_jumps_and_keeps_its_order() -> None:
    async def main() -> None:
        woken: list[float] = []

        async def sleeper(seconds: float) -> None:
            await anyio.sleep(seconds)
            woken.append(anyio.current_time())

        began = anyio.current_time()
        async with anyio.create_task_group() as tasks:
            for seconds in (300, 0.5, 20, 0.25):
                tasks.start_soon(sleeper, seconds)
        assert [at - began for at in woken] == pytest.approx([0.25, 0.5, 20, 300])
        with anyio.move_on_after(1000) as scope:
            await anyio.sleep_forever()
        assert scope.cancelled_caught

    began = time.monotonic()
    run_with_virtual_clock(main)
    assert time.monotonic() - began < 20


async def _three() -> str:
    for _ in range(3):
        await checkpoint()
    return "done"


def test_checkpoints_are_counted() -> None:
    assert run_with_virtual_clock(count_checkpoints, _three()) == 3


@pytest.mark.parametrize("at", [1, 2, 3])
def test_an_error_is_thrown_at_a_checkpoint(at: int) -> None:
    async def main() -> None:
        driven = Checkpoints(_three(), lambda n: ZeroDivisionError() if n == at else None)
        with pytest.raises(ZeroDivisionError):
            await driven
        assert driven.passed == at

    run_with_virtual_clock(main)


def test_code_may_catch_what_is_thrown_and_goes_on() -> None:
    async def stubborn() -> str:
        try:
            await checkpoint()
        except ZeroDivisionError:
            await checkpoint()
        return "done"

    async def main() -> None:
        driven = Checkpoints(stubborn(), lambda n: ZeroDivisionError() if n == 1 else None)
        assert await driven == "done"
        assert driven.passed == 2

    run_with_virtual_clock(main)


def test_a_real_cancellation_passes_through() -> None:
    async def main() -> None:
        with anyio.move_on_after(1) as scope:
            await Checkpoints(anyio.sleep(5))
        assert scope.cancelled_caught

    run_with_virtual_clock(main)


def test_the_ledger_is_recursive_and_frozen() -> None:
    async def main() -> None:
        async with Context() as root:

            def child(ctx: Context) -> None:
                ctx.provide("value", 1)

            def plugin(ctx: Context) -> None:
                ctx.effect(lambda ctx: ctx.on("law", print) and None, label="outer")
                ctx.plugin(child)
                create_scope(ctx, object()).ctx.on("law", print)

            fiber = await root.plugin(plugin)
            record = ledger(fiber)
            assert record == ledger(fiber.ctx)
            assert [(owner, info.label) for owner, info in record] == [
                ("root/plugin", "outer"),
                ("root/plugin", 'listener "law"'),
                ("root/plugin", 'plugin "child"'),
                ("root/plugin", 'plugin "scope"'),
                ("root/plugin/child", 'service "value"'),
                ("root/plugin/scope", 'listener "law"'),
            ]
            assert record.children[0].services == ("value",)
            assert all(info.file == __file__ for _, info in record)
            assert f"{__file__}:" in str(record)
            with pytest.raises(AttributeError):
                record.name = "other"  # type: ignore[misc]
            await fiber.dispose()
            assert record.state == "active"
            assert ledger(fiber).state == "disposed"

    run_with_virtual_clock(main)


def test_the_host_opens_and_closes_in_one_task() -> None:
    async def main() -> None:
        host = TreeHost(grace=1)
        root = await host.start()
        fiber = await root.plugin(lambda ctx: ctx.start_soon(anyio.sleep_forever) and None)
        assert fiber.state.value == "active"
        with anyio.move_on_after(0):
            await host.stop()  # a caller that gives up does not stop it
        await host.stop()
        await host.stop()
        assert fiber.state.value == "disposed"
        assert len(anyio.get_running_tasks()) == 1

    run_with_virtual_clock(main)


def test_an_error_of_opening_reaches_the_caller() -> None:
    async def main() -> None:
        host = TreeHost()
        await host.start()
        again = TreeHost()
        again.root = host.root
        with pytest.raises(TypeError, match="only once"):
            await again.start()
        await host.stop()

    run_with_virtual_clock(main)


# The fixture, in a pytest of its own

USING = """
import asyncio
import anyio
import pytest
{mark}
STRAY = []

{decorator}
async def test_live(app):
    fiber = await app.plugin(lambda ctx: ctx.on("law", print) and None)
    app.start_soon(anyio.sleep_forever)
    async with anyio.create_task_group():
        assert fiber.state.value == "active"

{decorator}
async def test_another(app):
    assert app.fiber.children == ()

{decorator}
async def test_stray(app):
    STRAY.append(asyncio.get_running_loop().create_task(asyncio.sleep(0.2), name="stray"))
"""


def pytest_in(path: Path, *arguments: str, plugins: tuple[str, ...]) -> Any:
    loaded = [part for plugin in plugins for part in ("-p", plugin)]
    root = Path(__file__).parents[2]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *loaded, *arguments],
        cwd=path,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("mode", ["strict", "auto"])
def test_the_fixture_works_in_both_modes(tmp_path: Path, mode: str) -> None:
    decorator = "@pytest.mark.asyncio" if mode == "strict" else ""
    (tmp_path / "test_it.py").write_text(USING.format(mark="", decorator=decorator))
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nasyncio_default_fixture_loop_scope = function\n"
    )
    result = pytest_in(
        tmp_path,
        f"--asyncio-mode={mode}",
        plugins=("pytest_asyncio.plugin", "harness_core.testing.pytest_plugin"),
    )
    # The stray task fails the teardown of its own test, and of no other.
    assert "3 passed, 1 error" in result.stdout, result.stdout + result.stderr
    assert 'task "stray" of the loop' in result.stdout
    assert "ERROR test_it.py::test_stray" in result.stdout


def test_without_pytest_asyncio_the_plugin_stays_out_of_the_way(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_sync():\n    pass\n")
    result = pytest_in(tmp_path, plugins=("harness_core.testing.pytest_plugin",))
    assert "1 passed" in result.stdout, result.stdout + result.stderr


def test_the_plugin_imports_nothing_of_its_own() -> None:
    """A run that does not use the kit pays for the door of `harness_core`, and for no more."""
    code = (
        "import sys, harness_core; before = set(sys.modules)\n"
        "import harness_core.testing.pytest_plugin\n"
        "print(sorted(set(sys.modules) - before))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    names = "harness_core.testing", "harness_core.testing.pytest_plugin"
    assert result.stdout.strip() == str(sorted(names))
