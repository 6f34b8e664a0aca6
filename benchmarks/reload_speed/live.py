"""A running fleet that follows its files as `harness dev` does, and notes when what happened."""

from __future__ import annotations

import importlib
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import attrs
from watchfiles import _rust_notify

from harness_core import Context
from harness_core.prompt import SystemPrompt, render_prompt
from harness_core.reload import Reloader, watch

from .fleet import Edit, Fleet

__all__ = ["Live", "Took", "living"]

PATIENCE = 20.0


@attrs.frozen
class Took:
    """The seconds of one save, part by part."""

    debounce: float
    look: float
    swap: float
    assemble: float

    @property
    def work(self) -> float:
        """From the event, handed over, to the new prompt."""
        return self.look + self.swap + self.assemble

    @property
    def total(self) -> float:
        """From the save to the new prompt."""
        return self.debounce + self.work


class Live:
    """A running fleet that follows its files."""

    def __init__(self, fleet: Fleet, root: Context, reloader: Reloader) -> None:
        self.fleet = fleet
        self.root = root
        self.reloader = reloader
        self.prompt = ""
        self.errors: list[Exception] = []
        self._handed_over = 0.0
        self._looks: list[tuple[float, float, float, float]] = []
        self._news = anyio.Event()

    async def follow(self, quiet: float, started: anyio.Event) -> None:
        """Reload batch by batch, and note when what happened."""
        with self._watched_library():
            batches = watch(self.reloader.graph.roots, quiet=quiet, started=started)
            async with aclosing(batches):
                async for batch in batches:
                    handed_over, seen = self._handed_over, time.perf_counter()
                    done = await self.reloader.reload(batch)
                    swapped = time.perf_counter()
                    self.prompt = await self.assemble()
                    end = time.perf_counter()
                    self.errors += [one.error for one in done if one.error is not None]
                    self._looks.append((handed_over, seen, swapped, end))
                    self._news.set()

    async def assemble(self) -> str:
        """Return the system text as it is now."""
        system_prompt: SystemPrompt = self.root.system_prompt
        return render_prompt(await system_prompt.assemble())

    async def save(self, edit: Edit, version: int, *, by_rename: bool = False) -> Took:
        """Save, wait for the new version in the prompt, and return how long it took."""
        self._looks.clear()
        self.fleet.save(edit.file, edit.text(version), by_rename=by_rename)
        saved = time.perf_counter()
        with anyio.fail_after(PATIENCE):
            while edit.mark.format(version) not in self.prompt:
                await self._next()
        handed_over, seen, swapped, end = self._looks[-1]
        return Took(handed_over - saved, seen - handed_over, swapped - seen, end - swapped)

    async def save_bad(self, edit: Edit, text: str) -> None:
        """Save what cannot work, and wait until that has been found out."""
        self.errors.clear()
        self.fleet.save(edit.file, text)
        with anyio.fail_after(PATIENCE):
            while not self.errors:
                await self._next()
        self.errors.clear()

    async def _next(self) -> None:
        await self._news.wait()
        self._news = anyio.Event()

    @contextmanager
    def _watched_library(self) -> Iterator[None]:
        """Note the moment at which watchfiles returns with events."""
        original: Any = _rust_notify.RustNotify
        live = self

        class Noting:
            def __init__(self, *arguments: Any) -> None:
                self._inner = original(*arguments)

            def watch(self, *arguments: Any) -> Any:
                found = self._inner.watch(*arguments)
                if not isinstance(found, str):
                    live._handed_over = time.perf_counter()
                return found

            def close(self) -> None:
                self._inner.close()

        library: Any = _rust_notify
        library.RustNotify = Noting
        try:
            yield
        finally:
            library.RustNotify = original


@asynccontextmanager
async def living(size: int, quiet: float) -> AsyncGenerator[Live]:
    """Run a fleet of this size that follows its files; forget it in the end."""
    with tempfile.TemporaryDirectory() as place:
        fleet = Fleet(Path(place), size)
        fleet.write()
        sys.path.insert(0, str(fleet.directory.parent))
        importlib.invalidate_caches()
        try:
            async with Context() as root, anyio.create_task_group() as tasks:
                await root.plugin(SystemPrompt)
                live = Live(fleet, root, Reloader(root, [fleet.directory]))
                for number in range(size):
                    module = importlib.import_module(f"{fleet.package}.p{number:03d}")
                    await root.plugin(module, {"order": number})
                live.prompt = await live.assemble()
                started = anyio.Event()
                tasks.start_soon(live.follow, quiet, started)
                await started.wait()
                yield live
                tasks.cancel_scope.cancel()
        finally:
            sys.path.remove(str(fleet.directory.parent))
            for name in [name for name in sys.modules if name.partition(".")[0] == fleet.package]:
                del sys.modules[name]
