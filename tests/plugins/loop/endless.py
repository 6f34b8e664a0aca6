"""A program that runs turns of one kept agent until somebody kills it, and says what happens."""

from __future__ import annotations

import itertools
import sys

import anyio
from harness_plugins import agents as agents_plugin
from harness_plugins import session as session_plugin
from harness_plugins.tools.api import Tools

from harness_core import Context
from harness_core.prompt import SystemPrompt
from tests.plugins.loop.tree import Model, tool, wants


async def slowly(_: object) -> str:
    await anyio.sleep(0.001)
    return "ok"


async def main(directory: str, first: int) -> None:
    """Run turns; one line for each event, written after it."""
    async with Context() as root:
        await root.plugin(SystemPrompt)
        await root.plugin(Tools)
        await root.plugin(session_plugin, directory=directory)
        await root.plugin(agents_plugin)
        model = Model()
        await root.plugin(model.plugin)
        root.tools.register(tool("read", slowly, parallel=True))
        root.tools.register(tool("write", slowly))
        numbers = itertools.count()
        root.system_prompt.context("clock", lambda: f"It is {next(numbers)}.", order=1)
        agent = await root.agents.create("a", session="one")
        for number in itertools.count(first):
            model.script = [wants("read", "write"), "words", wants("write", "read")]
            async for event in agent.run(f"Message {number}."):
                print(type(event).__name__, number, flush=True)


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], int(sys.argv[2]))
