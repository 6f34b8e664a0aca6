"""What these tests share: a tree with tools, servers to put in it, and looks at what lives."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from harness_plugins import mcp_tools
from harness_plugins.tools.api import ToolResult, Tools

from harness_core import Context, Fiber
from harness_core.prompt import SystemPrompt

MISBEHAVING = Path(__file__).with_name("misbehaving.py")
DEADLINE = 10.0


@asynccontextmanager
async def tree(**config: Any) -> AsyncIterator[Context]:
    """Open a tree in which the services run."""
    async with Context() as root:
        await root.plugin(SystemPrompt, include_harness_identity=False)
        await root.plugin(Tools, **config)
        yield root


def server(options: dict[str, Any] | None = None, **faults: Any) -> dict[str, Any]:
    """Return the settings of a server with these faults."""
    command = {"command": sys.executable, "args": ["-ISu", str(MISBEHAVING), json.dumps(faults)]}
    return {**command, "retry": 0.02, "retry_max": 0.1, **(options or {})}


async def mount(ctx: Context, **servers: dict[str, Any]) -> Fiber:
    """Mount the plugin, and wait for the first attempt of each server."""
    return await ctx.plugin(mcp_tools, {"servers": servers})


async def until(is_so: Callable[[], object]) -> None:
    """Wait for a condition, until a deadline."""
    with anyio.fail_after(DEADLINE):
        while not is_so():  # noqa: ASYNC110 - files and processes tell nobody
            await anyio.sleep(0.005)


def names(root: Context) -> list[str]:
    """Return the names of the visible tools."""
    return list(root.tools.visible(None))


async def call(root: Context, name: str, /, **arguments: Any) -> ToolResult:
    """Call a tool, which must answer by a deadline."""
    with anyio.fail_after(DEADLINE):
        result: ToolResult = await root.tools.execute(name, arguments, scope=None)
    return result


class Changes:
    """Counts the changes of the prompt."""

    def __init__(self, root: Context) -> None:
        self.count = 0
        root.on("system-prompt/change", self._note, unfiltered=True)

    def _note(self) -> None:
        self.count += 1

    def taken(self) -> int:
        """Return how many there were since the last time that somebody asked."""
        count, self.count = self.count, 0
        return count


class Reports:
    """Keeps what is told to `fiber/error`: who failed, and why."""

    def __init__(self, root: Context) -> None:
        self.errors: list[tuple[str, str]] = []
        root.on("fiber/error", lambda fiber, error: self.errors.append((fiber.name, str(error))))

    def __str__(self) -> str:
        return "\n".join(f"{name}: {text}" for name, text in self.errors)


def pids(directory: Path) -> list[int]:
    """Return the numbers of the processes that a misbehaving server has noted."""
    return [int(file.read_text() or 0) for file in directory.glob("pid.*")]


def is_alive(pid: int) -> bool:
    """Whether a process lives; one that has ended and was not yet waited for does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def living(directory: Path) -> list[int]:
    """Return those of a server's processes that live."""
    return [pid for pid in pids(directory) if is_alive(pid)]


def asked(directory: Path) -> list[str]:
    """Return the methods that a misbehaving server was asked."""
    journal = directory / "asked"
    return journal.read_text().split() if journal.exists() else []
