"""What these tests share: a tree with a prompt and tools, and tools to put in it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from harness_plugins.tools.api import Tool, Tools

from harness_core import Context
from harness_core.prompt import SystemPrompt

EMPTY: dict[str, Any] = {"type": "object", "properties": {}}


@asynccontextmanager
async def tree(**config: Any) -> AsyncIterator[Context]:
    """Open a tree in which the services run."""
    async with Context() as root:
        await root.plugin(SystemPrompt, include_harness_identity=False)
        await root.plugin(Tools, **config)
        yield root


def tool(name: str, answer: object = "ok", **options: Any) -> Tool:
    """Return a tool without arguments that returns `answer`, or what `answer` returns."""
    run: Callable[[Any], object] = (lambda _: answer()) if callable(answer) else (lambda _: answer)
    return Tool(name, f"Tool {name}.", EMPTY, run=run, **options)


async def told(root: Context, scope: object | None = None) -> list[str]:
    """Return the names of the tools that the model of a scope is told of."""
    return [one.name for one in (await root.system_prompt.assemble(scope=scope)).tools]


def plugin_of(name: str, *tools: Tool) -> Any:
    """Return a plugin that registers tools."""

    class Registers:
        inject = ("tools",)

        def apply(self, ctx: Context) -> None:
            for one in tools:
                ctx.tools.register(one)

    plugin = Registers()
    vars(plugin)["name"] = name
    return plugin


class Gate:
    """A tool that journals, waits to be let through, and journals again."""

    def __init__(self, journal: list[str], name: str = "slow", **options: Any) -> None:
        self.journal = journal
        self.entered = anyio.Event()
        self.opened = anyio.Event()
        self.tool = Tool(name, "", EMPTY, run=self.run, **options)

    async def run(self, _: object) -> str:
        self.journal.append(f"{self.tool.name} in")
        self.entered.set()
        try:
            await self.opened.wait()
        except BaseException:
            self.journal.append(f"{self.tool.name} cancelled")
            raise
        self.journal.append(f"{self.tool.name} out")
        return "done"
