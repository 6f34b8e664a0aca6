"""How long a save takes to reach the prompt: `python -m benchmarks.reload_speed`.

Real files in a temporary directory, real events, the reloader as `harness dev` uses it. Of each
save four moments are noted: the save is done; watchfiles hands the event over, which is when the
debounce is over; the batch of changed files is known; the plugins are swapped; the prompt that is
assembled then shows the new version. The debounce is a setting, so it is stated apart.

`--thousand` reloads a thousand times instead, and counts what is left behind.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import importlib
import logging
import os
import random
import statistics
import sys
import tempfile
import threading
import time
import tracemalloc
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import attrs
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from watchfiles import _rust_notify

from benchmarks.report import PIPED_WIDTH, machine, write_json
from harness_core import Context
from harness_core.prompt import SystemPrompt, render_prompt
from harness_core.reload import Reloader, watch

RESULTS = Path(__file__).parent / "results"
SIZES = (10, 50, 200)
GOAL = 0.030
GOAL_SIZE = 50
QUIET = 0.05
"""The debounce of `harness dev`, in seconds."""
SHORTEST = 0.001
PATIENCE = 20.0
CHECKPOINTS = (50, 500, 1000)
SMALL = 4096
"""Bytes of a small block. Larger ones are tables of the interpreter, which grow in leaps."""

ALLOWED = {"objects": 1000, "memory in small blocks": 64 * 1024, "memory": 2 * 1024 * 1024}
"""What may come on top in a thousand reloads: one object, 64 bytes, or, with tables, 2 KiB each.

A module that is left behind weighs ten times as much.
"""

PLUGIN = '''\
"""A plugin of the fleet."""
from __future__ import annotations
import attrs
from .shared import SHARED
{more}
VERSION = "{version:06d}"
name = "p{number:03d}"
inject = ["system_prompt"]

@attrs.frozen
class Config:
    order: int
    style: str = "plain"

def heard(text: str) -> None:
    """Listen."""

def apply(ctx, config: Config) -> None:
    text = f"Rule {{name}} in {{config.style}} style, own {{VERSION}}, shared {{SHARED}}{leaf}."
    ctx.system_prompt.section(name, text, order=config.order)
    ctx.system_prompt.variable(f"version_{{name}}", VERSION)
    ctx.on("fleet/tick", heard)
'''


@attrs.frozen
class Edit:
    """One kind of save: what is edited, and what the prompt says once it is in."""

    name: str
    file: str
    text: Callable[[int], str]
    mark: str


class Fleet:
    """The files of a harness of so many plugins, all of which use `shared`, and one `leaf`."""

    def __init__(self, directory: Path, size: int) -> None:
        self.package = f"fleet{size}"
        self.size = size
        self.directory = directory.resolve() / self.package
        self.chosen = size // 2
        self.edits = (
            Edit("one plugin", f"p{self.chosen:03d}.py", self._plugin, "own {:06d}"),
            Edit("leaf of one plugin", "leaf.py", 'LEAF = "{:06d}"\n'.format, "leaf {:06d}"),
            Edit("helper of all", "shared.py", 'SHARED = "{:06d}"\n'.format, "shared {:06d}"),
        )

    def _plugin(self, version: int, number: int | None = None) -> str:
        number = self.chosen if number is None else number
        more, leaf = (
            ("from .leaf import LEAF", ", leaf {LEAF}") if number == self.chosen else ("",) * 2
        )
        return PLUGIN.format(version=version, number=number, more=more, leaf=leaf)

    def write(self) -> None:
        """Write every file in its first version."""
        self.directory.mkdir()
        self.save("__init__.py", "")
        for number in range(self.size):
            self.save(f"p{number:03d}.py", self._plugin(0, number))
        for edit in self.edits:
            self.save(edit.file, edit.text(0))

    def save(self, file: str, text: str, *, by_rename: bool = False) -> None:
        """Save a file in place, or beside and renamed, as editors do."""
        path = self.directory / file
        target = path.with_name(f".{file}.swp") if by_rename else path
        target.write_text(text, encoding="utf-8")
        if by_rename:
            os.replace(target, path)


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


# Speed


@attrs.frozen
class Measured:
    """All saves of one kind in a harness of one size."""

    size: int
    edit: str
    saves: list[Took]
    shortest: list[Took]
    """The same with the shortest debounce, so that the total has next to nothing else in it."""

    def median(self, part: str) -> float:
        """Return the median of one part, in seconds."""
        return float(statistics.median(getattr(one, part) for one in self.saves))

    def as_data(self) -> dict[str, Any]:
        """Return everything as JSON data, in milliseconds."""
        parts = ("debounce", "look", "swap", "assemble", "work", "total")
        return {
            "plugins": self.size,
            "edit": self.edit,
            "medians_ms": {part: round(self.median(part) * 1e3, 3) for part in parts},
            "total_with_shortest_debounce_ms": round(_median_total(self.shortest) * 1e3, 3),
            "work_ms": [round(one.work * 1e3, 3) for one in self.saves],
        }


def _median_total(saves: list[Took]) -> float:
    return statistics.median(one.total for one in saves)


async def measure_saves(size: int, quiet: float, saves: int) -> dict[str, list[Took]]:
    """Save so often for each kind of edit, in turn, at moments the watcher does not know."""
    found: dict[str, list[Took]] = {}
    chance = random.Random(size)
    async with living(size, quiet) as live:
        for version in range(1, saves + 3):
            for edit in live.fleet.edits:
                await anyio.sleep(chance.uniform(0.0, 0.03))
                took = await live.save(edit, version, by_rename=quiet < QUIET)
                if version > 2:  # the first ones fill caches
                    found.setdefault(edit.name, []).append(took)
    return found


def measure_speed(saves: int, say: Callable[[str], None]) -> list[Measured]:
    """Measure every size."""
    measured: list[Measured] = []
    for size in SIZES:
        say(f"{size} plugins")
        usual = asyncio.run(measure_saves(size, QUIET, saves))
        shortest = asyncio.run(measure_saves(size, SHORTEST, saves))
        measured += [Measured(size, name, usual[name], shortest[name]) for name in usual]
    return measured


def print_speed(measured: list[Measured], console: Console) -> None:
    """Print the table of times in milliseconds, and what became of the goal."""
    table = _table(console, "edit", "plugins")
    for name in ("debounce", "look", "swap", "assemble", "event to prompt", "p90", "fastest"):
        table.add_column(name, justify="right")
    table.add_column(f"save to prompt, debounce {SHORTEST * 1e3:.0f} ms", justify="right")
    for one in sorted(measured, key=lambda one: one.edit):
        works = sorted(took.work for took in one.saves)
        parts = [one.median(part) for part in ("debounce", "look", "swap", "assemble", "work")]
        spread = [works[int(len(works) * 0.9)], works[0], _median_total(one.shortest)]
        cells = [f"{seconds * 1e3:.1f}" for seconds in (*parts, *spread)]
        table.add_row(one.edit, str(one.size), *cells)
    console.print(table)
    single = {one.size: one.median("work") for one in measured if one.edit == "one plugin"}
    took, growth = single[GOAL_SIZE], single[SIZES[-1]] / single[SIZES[0]]
    verdict = "met" if took < GOAL else "missed"
    console.print(
        f"one plugin of {GOAL_SIZE}: {took * 1e3:.1f} ms, goal < {GOAL * 1e3:.0f} ms {verdict}; "
        f"with {SIZES[-1] // SIZES[0]} times the plugins it takes {growth:.1f} times as long"
    )


# A thousand reloads


def count_descriptors() -> int:
    """Count what files this process has open, where the system tells."""
    place = Path("/proc/self/fd")
    return len(list(place.iterdir())) if place.exists() else 0


async def count(live: Live) -> dict[str, int]:
    """Count everything that could be left behind."""
    await anyio.sleep(0.1)  # until the watcher waits again
    for _ in range(3):
        gc.collect()
    return {
        "modules": len(sys.modules),
        "listeners": sum(map(len, live.root.kernel.bus.listeners().values())),
        "tasks": len(asyncio.all_tasks()),
        "descriptors": count_descriptors(),
        "threads": threading.active_count(),
        "objects": len(gc.get_objects()),
        "memory": tracemalloc.get_traced_memory()[0],
        "memory in small blocks": sum(
            trace.size for trace in tracemalloc.take_snapshot().traces if trace.size < SMALL
        ),
    }


async def run_thousand(say: Callable[[str], None]) -> dict[int, dict[str, int]]:
    """Reload a thousand times, a bad save among every fifty, and count at the checkpoints."""
    counts: dict[int, dict[str, int]] = {}
    logging.getLogger("harness_core").setLevel(logging.CRITICAL)  # the bad saves are meant
    async with living(GOAL_SIZE, 0.002) as live:
        own, leaf, shared = live.fleet.edits
        tracemalloc.start()
        try:
            for number in range(1, CHECKPOINTS[-1] + 1):
                edit = shared if number % 20 == 5 else leaf if number % 2 else own
                if number % 50 == 20:
                    await live.save_bad(own, "def apply(:\n")
                if number % 50 == 30:
                    await live.save_bad(own, own.text(number) + "    raise RuntimeError(name)\n")
                await live.save(edit, number, by_rename=True)
                if number in CHECKPOINTS:
                    counts[number] = await count(live)
                    say(f"{number} reloads")
        finally:
            tracemalloc.stop()
    return counts


def growth_of(counts: dict[int, dict[str, int]]) -> list[str]:
    """Return a line for everything that grew after the first checkpoint."""
    first, last = counts[CHECKPOINTS[0]], counts[CHECKPOINTS[-1]]
    return [
        f"{name} grew from {first[name]} to {last[name]}"
        for name in first
        if last[name] - first[name] > ALLOWED.get(name, 0)
    ]


def print_counts(counts: dict[int, dict[str, int]], console: Console) -> None:
    """Print what was there at each checkpoint."""
    table = _table(console, "what")
    for number in counts:
        table.add_column(f"after {number}", justify="right")
    for name in counts[CHECKPOINTS[0]]:
        values = [found[name] for found in counts.values()]
        shown = [f"{one / 1024:.0f} KiB" if "memory" in name else str(one) for one in values]
        table.add_row(name, *shown)
    console.print(table)


def _table(console: Console, *columns: str) -> Table:
    table = Table(box=SIMPLE_HEAD if console.is_terminal else None, pad_edge=False)
    for column in columns:
        table.add_column(column, no_wrap=True)
    return table


def main(argv: list[str] | None = None) -> int:
    """Run what the command line asks for; exit code 1 if a thousand reloads leave anything."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reload_speed")
    parser.add_argument("--thousand", action="store_true", help="count what reloads leave behind")
    parser.add_argument("--saves", type=int, default=40, help="saves for each row (40)")
    arguments = parser.parse_args(argv)
    console = Console()
    if not console.is_terminal:
        console = Console(width=PIPED_WIDTH, no_color=True)
    with Console(stderr=True).status("starting") as status:
        if arguments.thousand:
            counts = asyncio.run(run_thousand(status.update))
        else:
            measured = measure_speed(arguments.saves, status.update)
    if not arguments.thousand:
        print_speed(measured, console)
        rows = [one.as_data() for one in measured]
        data = {"machine": machine(), "debounce_ms": QUIET * 1e3, "rows": rows}
        write_json(RESULTS / "reload_speed.json", data)
        return 0
    print_counts(counts, console)
    faults = growth_of(counts)
    console.print("\n".join(faults) or f"no growth after the first {CHECKPOINTS[0]}")
    write_json(RESULTS / "reload_thousand.json", {"machine": machine(), "counts": counts})
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
