"""Speed: the parts of the way from a save to the prompt, in harnesses of several sizes."""

from __future__ import annotations

import asyncio
import random
import statistics
from collections.abc import Callable
from typing import Any

import anyio
import attrs
from rich.console import Console

from .live import Took, living
from .table import new_table

__all__ = ["QUIET", "Measured", "measure_speed", "print_speed"]

SIZES = (10, 50, 200)
GOAL = 0.030
GOAL_SIZE = 50
QUIET = 0.05
"""The debounce of `harness dev`, in seconds."""
SHORTEST = 0.001


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
    table = new_table(console, "edit", "plugins")
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
