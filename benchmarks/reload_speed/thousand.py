"""A thousand reloads: everything that could be left behind, counted at checkpoints.

What grows with every reload is a leak. The interpreter's own tables (of interned strings, of
modules) are one block each, and double now and then: of the traced memory as a whole one such leap
is forgiven, and said. A leak leaps as often as it has to, or grows in small blocks, so it is seen
all the same; `tests/reload/test_leaks.py` plants some.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import threading
import tracemalloc
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from pathlib import Path

import anyio
import attrs
from rich.console import Console

from .live import Live, living
from .table import new_table

__all__ = [
    "Counted",
    "count_everything",
    "growth_of",
    "print_counts",
    "reload_and_count",
    "run_thousand",
]

SIZE = 50
CHECKPOINTS = tuple(range(50, 1001, 50))
SHOWN = (50, 500, 1000)
SMALL = 4096
"""Bytes of a small block. Larger ones may be tables of the interpreter, which grow in leaps."""
LEAP = 2 * 1024 * 1024
"""Bytes of the one leap that is forgiven."""

FLOOR = {"objects": 100, "memory in small blocks": 48 * 1024, "memory": 64 * 1024}
"""What comes on top while caches of Python itself still fill, those of abstract classes above all,
however few reloads there are."""

ALLOWED = {"objects": 1, "memory in small blocks": 64, "memory": 128}
"""What may come on top with each reload. A module that stays weighs a hundred times more."""


@attrs.frozen
class Counted:
    """What was there after so many reloads, and the largest block of memory with its place."""

    reloads: int
    numbers: dict[str, int]
    largest: str = ""


def count_descriptors() -> int:
    """Count what files this process has open, where the system tells."""
    place = Path("/proc/self/fd")
    return len(list(place.iterdir())) if place.exists() else 0


def count_everything(reloads: int, listeners: int = 0) -> Counted:
    """Count everything that could be left behind. `tracemalloc` traces."""
    for _ in range(3):
        gc.collect()
    objects, memory = len(gc.get_objects()), tracemalloc.get_traced_memory()[0]
    snapshot = tracemalloc.take_snapshot()
    largest = max(snapshot.traces, key=lambda trace: trace.size)
    numbers = {
        "modules": len(sys.modules),
        "listeners": listeners,
        "tasks": len(asyncio.all_tasks()),
        "descriptors": count_descriptors(),
        "threads": threading.active_count(),
        "objects": objects,
        "memory": memory,
        "memory in small blocks": sum(one.size for one in snapshot.traces if one.size < SMALL),
    }
    return Counted(reloads, numbers, f"{largest.size // 1024} KiB at {largest.traceback}")


async def reload_and_count(
    reload: Callable[[int], Awaitable[None]],
    count: Callable[[int], Awaitable[Counted]],
    checkpoints: Sequence[int] = CHECKPOINTS,
    say: Callable[[str], None] = lambda _: None,
) -> list[Counted]:
    """Call `reload` with 1, 2, ..., and `count` at the checkpoints."""
    counts: list[Counted] = []
    tracemalloc.start()
    try:
        for number in range(1, checkpoints[-1] + 1):
            await reload(number)
            if number in checkpoints:
                counts.append(await count(number))
                say(f"{number} reloads")
    finally:
        tracemalloc.stop()
    return counts


async def run_thousand(say: Callable[[str], None]) -> list[Counted]:
    """Reload a thousand times, a bad save among every fifty."""
    logging.getLogger("harness_core").setLevel(logging.CRITICAL)  # the bad saves are meant
    async with living(SIZE, 0.002) as live:
        own, leaf, shared = live.fleet.edits

        async def reload(number: int) -> None:
            if number % 50 == 20:
                await live.save_bad(own, "def apply(:\n")
            if number % 50 == 30:
                await live.save_bad(own, own.text(number) + "    raise RuntimeError(name)\n")
            edit = shared if number % 20 == 5 else leaf if number % 2 else own
            await live.save(edit, number, by_rename=True)

        async def count(number: int) -> Counted:
            await anyio.sleep(0.1)  # until the watcher waits again
            return count_everything(number, _listeners(live))

        return await reload_and_count(reload, count, say=say)


def _listeners(live: Live) -> int:
    return sum(map(len, live.root.kernel.bus.listeners().values()))


def growth_of(counts: Sequence[Counted]) -> list[str]:
    """Return a line for everything that grew after the first checkpoint."""
    first, last = counts[0], counts[-1]
    faults: list[str] = []
    for name, start in first.numbers.items():
        grown = last.numbers[name] - start
        allowed = max(FLOOR.get(name, 0), ALLOWED.get(name, 0) * (last.reloads - first.reloads))
        leap = leap_of(counts)[1] if name == "memory" else 0
        if grown - leap > allowed:
            faults.append(f"{name} grew from {start} to {last.numbers[name]}")
    return faults


def leap_of(counts: Sequence[Counted]) -> tuple[int, int]:
    """Return after how many reloads the memory leapt most, and by how much, as far as forgiven."""
    steps = [
        (after.reloads, after.numbers["memory"] - before.numbers["memory"])
        for before, after in pairwise(counts)
    ]
    at, leap = max(steps, key=lambda step: step[1])
    return at, max(0, min(leap, LEAP))


def print_counts(counts: Sequence[Counted], console: Console) -> None:
    """Print what was there at some checkpoints, and where the memory leapt."""
    shown = [one for one in counts if one.reloads in SHOWN]
    table = new_table(console, "what")
    for one in shown:
        table.add_column(f"after {one.reloads}", justify="right")
    for name in counts[0].numbers:
        values = [one.numbers[name] for one in shown]
        texts = [f"{one / 1024:.0f} KiB" if "memory" in name else str(one) for one in values]
        table.add_row(name, *texts)
    console.print(table)
    at, leap = leap_of(counts)
    console.print(
        f"largest step of the memory: {leap / 1024:.0f} KiB, before {at} reloads; largest block at "
        f"first {counts[0].largest}, at last {counts[-1].largest}"
    )
