"""A live tree whose plugins are real files, watched while they are saved."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any

import anyio

from harness_core import Context, Fiber
from harness_core.prompt import SystemPrompt, render_prompt
from harness_core.reload import Reloaded, Reloader
from tests.reload.project import Project, open_project

DEADLINE = 20.0


def section(name: str, text: str, head: str = "") -> str:
    """Return a plugin with one section, whose text is an expression."""
    return (
        f"{dedent(head)}\ninject = ['system_prompt']\ndef apply(ctx):\n"
        f"    ctx.system_prompt.section({name!r}, {text}, order=10)\n"
        f"    ctx.emit('loaded', {name!r})\n"
    )


class Saving:
    """Files, the plugins that run from them, and what became of each save."""

    def __init__(self, root: Context, project: Project) -> None:
        self.root = root
        self.project = project
        self.loaded: list[str] = []
        self.told: list[Reloaded] = []
        self.reloader = Reloader(root, [project.root])
        self._news = anyio.Event()
        root.on("loaded", self.loaded.append)

    def hear(self, report: Reloaded) -> None:
        """Take note of a reload."""
        self.told.append(report)
        self._news.set()
        self._news = anyio.Event()

    async def mount(self, module: str, *config: Any) -> Fiber:
        """Mount a module as a plugin."""
        return await self.root.plugin(self.project.load(module), *config)

    async def next(self) -> Reloaded:
        """Return what became of the oldest save that nobody has asked for."""
        with anyio.fail_after(DEADLINE):
            while not self.told:
                await self._news.wait()
        return self.told.pop(0)

    async def good(self, **files: str) -> Reloaded:
        """Save modules, and wait until they are in use."""
        for name, text in files.items():
            self.project.write_atomically(f"{name}.py", text)
        report = await self.next()
        assert report.error is None, report
        return report

    async def bad(self, **files: str) -> Reloaded:
        """Save modules that do not work, and wait until that is told."""
        for name, text in files.items():
            self.project.write(f"{name}.py", text)
        report = await self.next()
        assert report.error is not None, report
        return report

    async def prompt(self) -> str:
        """Return the system prompt as it is now."""
        with anyio.fail_after(DEADLINE):
            return render_prompt(await self.root.system_prompt.assemble())


@asynccontextmanager
async def saving(directory: Path, **files: str) -> AsyncIterator[Saving]:
    """Write modules, open a tree, and follow every save in the directory."""
    with _project(directory, **files) as project:
        async with Context() as root:
            await root.plugin(SystemPrompt, include_harness_identity=False)
            one = Saving(root, project)
            started = anyio.Event()
            async with anyio.create_task_group() as tasks:

                async def follow() -> None:
                    await one.reloader.run(one.hear, quiet=0.01, started=started)

                tasks.start_soon(follow)
                with anyio.fail_after(DEADLINE):
                    await started.wait()
                yield one
                tasks.cancel_scope.cancel()


@contextmanager
def _project(directory: Path, **files: str) -> Iterator[Project]:
    with open_project(directory.resolve(), observed=False) as project:
        for name, text in files.items():
            project.write(f"{name}.py", text)
        yield project
