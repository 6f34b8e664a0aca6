"""This project, as a program that embeds it would use it: a tree, and a reloader beside it."""

from __future__ import annotations

import asyncio
import importlib
from contextlib import AsyncExitStack
from pathlib import Path

import anyio

from harness_core import Context
from harness_core.prompt import PromptAssembly, SystemPrompt
from harness_core.reload import Reloader

__all__ = ["Adapter"]


class Adapter:
    def __init__(self) -> None:
        self._stack = AsyncExitStack()

    async def start(self, directory: Path, plugins: tuple[str, ...]) -> None:
        self._root = await self._stack.enter_async_context(Context())
        reloader = Reloader(self._root, [directory])
        await self._root.plugin(SystemPrompt)
        self._built_in = {section.name for section in (await self._assemble()).sections}
        for name in plugins:
            await self._root.plugin(importlib.import_module(name))
        started = anyio.Event()
        self._task = asyncio.create_task(reloader.run(lambda _: None, started=started))
        await started.wait()

    async def saved(self) -> None:
        pass

    async def prompt(self) -> tuple[str, ...]:
        sections = (await self._assemble()).sections
        return tuple(one.text for one in sections if one.name not in self._built_in)

    async def _assemble(self) -> PromptAssembly:
        system_prompt: SystemPrompt = self._root.system_prompt
        return await system_prompt.assemble()
