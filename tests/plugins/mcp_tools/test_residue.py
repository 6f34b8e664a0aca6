"""Nothing is left: no object, no descriptor, no process, however a life goes."""

from __future__ import annotations

import gc
import os
import weakref
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from harness_plugins import mcp_tools

from harness_core.testing import assert_no_residue, ledger

from .endpoint import Endpoint
from .living import Reports, call, living, mount, names, pids, server, tree, until

pytestmark = pytest.mark.asyncio


def descriptors() -> int:
    """Return how many files this process has open."""
    return len(os.listdir("/proc/self/fd"))


async def test_many_lives_leave_no_more_than_one(tmp_path: Path) -> None:
    """No descriptor, and nothing of a connection in memory."""
    async with tree() as root:
        fiber = await mount(root, one=server(directory=str(tmp_path)))
        gc.collect()
        before = descriptors()
        tool = weakref.ref(root.tools.get("echo", None))
        owned = ledger(fiber)
        for _ in range(5):
            await fiber.restart()
            assert (await call(root, "echo")).status == "ok"
        assert ledger(fiber) == owned
        gc.collect()
        assert descriptors() == before
        assert tool() is None
        assert len(pids(tmp_path)) == 6
        assert len(living(tmp_path)) == 1


@pytest.mark.parametrize("child", ["detached", "bare"])
async def test_crashes_leave_nothing(child: str, tmp_path: Path) -> None:
    """Though nobody restarts the plugin."""
    async with tree() as root:
        settings = server(tools=["crash"], child=child, directory=str(tmp_path))
        await mount(root, one=settings)
        gc.collect()
        before = descriptors()
        for number in range(2, 4):
            await call(root, "crash")
            await until(lambda number=number: len(pids(tmp_path)) == 2 * number)
            await until(lambda: names(root) == ["crash"])
        gc.collect()
        assert descriptors() == before
        assert len(living(tmp_path)) == 2


async def test_a_server_that_no_longer_reads_holds_up_nobody(tmp_path: Path) -> None:
    """Neither a call with a lot to say, nor those after it, nor the end."""
    async with tree() as root:
        settings = server(
            {"call_timeout": 0.2, "shutdown_timeout": 0.2},
            deaf="tools/call",
            directory=str(tmp_path),
        )
        fiber = await mount(root, one=settings)
        with anyio.fail_after(5):
            for _ in range(3):
                assert (await call(root, "echo", word="x" * 3_000_000)).status == "timed-out"
            await fiber.dispose()
        assert living(tmp_path) == []


@pytest.mark.parametrize("child", ["", "detached"])
async def test_it_leaves_nothing_at_whatever_moment_it_is_disposed(
    child: str, tmp_path: Path
) -> None:
    """Before, during and after its start, in steps of a few milliseconds."""
    async with tree() as root:
        reports = Reports(root)
        settings = server({"shutdown_timeout": 0.3}, child=child, directory=str(tmp_path))
        for step in range(0, 60, 6):
            async with assert_no_residue(root):
                fiber = root.plugin(mcp_tools, {"servers": {"one": settings}})
                await anyio.sleep(step / 1000)
                await fiber.dispose()
                assert living(tmp_path) == []
        assert reports.errors == []


async def test_it_leaves_nothing_when_it_is_disposed_amid_its_tools(tmp_path: Path) -> None:
    """By a listener that does not like the first of them; and that is no error of the server."""
    async with tree() as root:
        reports = Reports(root)

        @root.on("system-prompt/change", unfiltered=True)
        def end() -> None:
            if names(root) == ["a"]:
                fiber.dispose()

        async with assert_no_residue(root):
            settings = server(tools=["a", "b", "c"], directory=str(tmp_path))
            fiber = root.plugin(mcp_tools, {"servers": {"one": settings}})
            await until(lambda: pids(tmp_path) and names(root) == [] and not living(tmp_path))
            await fiber.dispose()
        assert reports.errors == []


async def test_an_endpoint_leaves_nothing_at_whatever_moment_it_is_disposed() -> None:
    """In the old way, with a session to be ended."""
    endpoint = Endpoint(is_old=True).start()
    try:
        async with tree() as root:
            reports = Reports(root)
            for step in range(0, 60, 6):
                async with assert_no_residue(root):
                    fiber = root.plugin(mcp_tools, {"servers": {"web": {"url": endpoint.url}}})
                    await anyio.sleep(step / 1000)
                    await fiber.dispose()
            assert reports.errors == []
    finally:
        endpoint.stop()
