"""A thousand reloads: everything that could be left behind, counted at checkpoints.

What grows with every reload is a leak; `tests/reload/test_leaks.py` plants some. The interpreter's
own tables, of interned strings, of modules, of the subclasses of `object`, are one block each,
which is made anew, larger perhaps, once enough has passed through it, and then stays as it is. That
is brought about before anything is counted; and before each count, caches of classes that are gone
and timers that were called off are dropped.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import threading
import tracemalloc
from abc import ABCMeta
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
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

ALLOWED = {"objects": 30, "memory": 48 * 1024}
"""What may come on top, however many reloads there are: one object for each count, which is kept;
small tables of Python, of lines and of modules, which are made anew now larger, now smaller; and
what was there before memory was traced, once it is replaced."""


@attrs.frozen
class Counted:
    """What was there after so many reloads."""

    reloads: int
    numbers: dict[str, int]


def count_descriptors() -> int:
    """Count what files this process has open, where the system tells."""
    place = Path("/proc/self/fd")
    return len(list(place.iterdir())) if place.exists() else 0


def count_everything(reloads: int, listeners: int = 0) -> Counted:
    """Count everything that could be left behind. `tracemalloc` traces."""
    for _ in range(3):
        gc.collect()
    empty_caches()
    numbers = {
        "modules": len(sys.modules),
        "listeners": listeners,
        "tasks": len(asyncio.all_tasks()),
        "descriptors": count_descriptors(),
        "threads": threading.active_count(),
        "objects": len(gc.get_objects()),
        "memory": tracemalloc.get_traced_memory()[0],
    }
    return Counted(reloads, numbers)


def empty_caches() -> None:
    """Empty what Python keeps of classes that are gone: it is bounded, but of no certain size.

    An abstract class keeps a set of weak references to classes; how large it is depends on how many
    nobody has collected yet when it is made anew. The cache of methods keeps thousands of names.
    """
    abstract: Any = ABCMeta
    for one in gc.get_objects():
        if issubclass(type(one), ABCMeta):
            abstract._abc_caches_clear(one)
    sys._clear_type_cache()


def settle_tables() -> None:
    """Let so much pass through the interpreter's own tables that they are as large as they stay."""
    for number in range(100_000):
        sys.intern(f"a name that nobody keeps {number}")
    for number in range(5000):
        name = f"a module that nobody keeps {number}"
        sys.modules[name] = sys
        del sys.modules[name]
        type("Forgotten", (), {})
    gc.collect()


async def drop_timers() -> None:
    """Let the event loop drop the timers that were called off: it waits until there are many."""
    loop = asyncio.get_running_loop()
    for timer in [loop.call_later(60, int) for _ in range(200)]:
        timer.cancel()
    await anyio.lowlevel.checkpoint()


async def reload_and_count(
    reload: Callable[[int], Awaitable[None]],
    count: Callable[[int], Awaitable[Counted]],
    checkpoints: Sequence[int] = CHECKPOINTS,
    say: Callable[[str], None] = lambda _: None,
) -> list[Counted]:
    """Call `reload` with 1, 2, ..., and `count` at the checkpoints."""
    counts: list[Counted] = []
    tracemalloc.start()
    settle_tables()
    try:
        for number in range(1, checkpoints[-1] + 1):
            await reload(number)
            if number in checkpoints:
                await drop_timers()
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
        if grown > ALLOWED.get(name, 0):
            faults.append(f"{name} grew from {start} to {last.numbers[name]}")
    return faults


def print_counts(counts: Sequence[Counted], console: Console) -> None:
    """Print what was there at some checkpoints."""
    shown = [one for one in counts if one.reloads in SHOWN]
    table = new_table(console, "what")
    for one in shown:
        table.add_column(f"after {one.reloads}", justify="right")
    for name in counts[0].numbers:
        values = [one.numbers[name] for one in shown]
        texts = [f"{one / 1024:.0f} KiB" if name == "memory" else str(one) for one in values]
        table.add_row(name, *texts)
    console.print(table)
