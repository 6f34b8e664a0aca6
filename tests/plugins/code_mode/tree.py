"""What these tests share: a tree in which code is run, and a look at the processes there are."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from harness_plugins import code_mode
from harness_plugins.tools.api import Tool, ToolResult, Tools

from harness_core import Context, Fiber
from harness_core.prompt import SystemPrompt

ANY: dict[str, Any] = {"type": "object", "properties": {"value": {}}, "required": ["value"]}


@asynccontextmanager
async def tree(mode: str | None = "code", **config: Any) -> AsyncIterator[tuple[Context, Fiber]]:
    """Open a tree that presents its tools as code; give its root, and the fiber of the plugin."""
    async with Context() as root:
        await root.plugin(SystemPrompt, include_harness_identity=False)
        await root.plugin(Tools)
        fiber = await root.plugin(code_mode, config)
        if mode is not None:
            root.tools.present_as(mode)
        yield root, fiber
        await fiber.dispose()
    assert runners() == []


async def run(root: Context, code: str, scope: object | None = None, **options: Any) -> ToolResult:
    """Run code as the model does."""
    arguments = {"code": code}
    result: ToolResult = await root.tools.execute("run_code", arguments, scope=scope, **options)
    return result


def echo(name: str = "echo", **options: Any) -> Tool:
    """Return a tool that returns its argument `value`."""
    return Tool(name, "Return it.", ANY, run=lambda given: given["value"], **options)


def processes() -> dict[int, tuple[int, str]]:
    """Return the parent and the command of every process that has not ended."""
    found: dict[int, tuple[int, str]] = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            state, parent = (place / "stat").read_text().rpartition(")")[2].split()[:2]
            command = (place / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
        if state != "Z":
            found[int(place.name)] = (int(parent), command)
    return found


def runners() -> list[int]:
    """Return the processes that run code for this one."""
    mine = os.getpid()
    return [
        number
        for number, (parent, command) in processes().items()
        if parent == mine and "code_mode/runner.py" in command
    ]


def is_gone(process: int) -> bool:
    """Whether a process has ended."""
    return process not in processes()


async def until(condition: Callable[[], object], seconds: float = 10.0) -> None:
    """Wait for a condition that nothing tells of."""
    with anyio.fail_after(seconds):
        while not condition():  # noqa: ASYNC110
            await anyio.sleep(0.005)


def exists(path: str) -> bool:
    """Whether there is something at a path."""
    return Path(path).exists()
