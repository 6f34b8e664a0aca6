"""What tools cost: the schemas of a scope, and a call, against the least plain Python.

    python -m benchmarks.tools_speed              # ten seconds
    python -m benchmarks.tools_speed --check      # exit code 1 if a goal is missed by more than 2x
    python -m benchmarks.tools_speed --json FILE  # every round, with the facts of the machine

A thousand tools are registered, of which a scope sees fifty. Ours and the floor take turns, round
by round, so that what the machine does meanwhile hits both. Ratios are medians over the rounds;
of microseconds the least disturbed round counts.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from time import perf_counter_ns
from typing import Any

import anyio
import attrs
from harness_plugins.tools.api import Tool, Tools
from rich.console import Console
from rich.table import Table

from benchmarks.report import machine, write_json
from harness_core import Context, create_scope
from harness_core.prompt import SystemPrompt

REGISTERED = 1000
VISIBLE = 50
ROUNDS = 15
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}},
    "required": ["path"],
    "additionalProperties": False,
}
ARGUMENTS = {"path": "README.md", "limit": 10}


class Key:
    """A scope key."""


@attrs.frozen
class Row:
    """One piece of work, on both sides; `most` is what `value(ours, floor)` should not exceed."""

    name: str
    work: str
    goal: str
    most: float
    value: Callable[[float, float], float]
    ours: Callable[[int], Awaitable[None]]
    floor: Callable[[int], Awaitable[None]]
    count: int


def ratio(ours: float, floor: float) -> float:
    """Return how many times as long ours takes."""
    return ours / floor


def overhead_us(ours: float, floor: float) -> float:
    """Return the microseconds that ours takes longer."""
    return (ours - floor) / 1000


async def read(arguments: dict[str, Any]) -> str:
    """Do as little as a tool can."""
    return arguments["path"]  # type: ignore[no-any-return]


def calls(tools: Tools, name: str, key: Key) -> Callable[[int], Awaitable[None]]:
    """Return a loop of calls."""

    async def loop(count: int) -> None:
        for _ in range(count):
            await tools.execute(name, ARGUMENTS, scope=key)

    return loop


async def bare(count: int) -> None:
    """Call the function itself."""
    for _ in range(count):
        await read(ARGUMENTS)


def rows(tools: Tools, key: Key) -> list[Row]:
    """Return the work, built on a scope that sees fifty of a thousand tools."""
    references = list(tools.schemas(key))
    assert len(references) == VISIBLE
    assert len(tools.known_names(key)) == REGISTERED

    async def view(count: int) -> None:
        for _ in range(count):
            tools.schemas(key)

    async def copy(count: int) -> None:
        for _ in range(count):
            copied = []
            for reference in references:
                copied.append(reference)

    async def copy_in_c(count: int) -> None:
        for _ in range(count):
            references[:]

    by_hand, in_c = "a loop that copies 50 references", "list[:] of 50 references"
    function, above = "the bare function", "us above it"
    alone, beside = calls(tools, "t0", key), calls(tools, "t1", key)
    return [
        Row("schemas", by_hand, "x floor", 1, ratio, view, copy, 20_000),
        Row("schemas/c", in_c, "x floor", 10, ratio, view, copy_in_c, 20_000),
        Row("call", function, above, 50, overhead_us, alone, bare, 500),
        Row("call/parallel", function, above, 50, overhead_us, beside, bare, 500),
    ]


async def measure(row: Row) -> dict[str, list[float]]:
    """Time both sides in turn; return nanoseconds for each unit of work, by side."""
    rounds: dict[str, list[float]] = {"ours": [], "floor": []}
    for turn in range(ROUNDS + 2):
        for side, run in (("ours", row.ours), ("floor", row.floor)):
            gc.collect()
            began = perf_counter_ns()
            await run(row.count)
            spent = (perf_counter_ns() - began) / row.count
            if turn >= 2:  # the first ones warm up
                rounds[side].append(spent)
    return rounds


async def measure_all() -> list[tuple[Row, dict[str, list[float]]]]:
    """Build the tools, check that both sides come to the same, and time every row."""
    async with Context() as root:
        await root.plugin(SystemPrompt)
        await root.plugin(Tools)
        tools = root[Tools]
        for number in range(REGISTERED):
            name = f"t{number}"
            tools.register(Tool(name, "Read.", SCHEMA, run=read, parallel=number == 1))
        key = Key()
        scope = create_scope(root, key)
        scope.ctx[Tools].restrict(allow=[f"t{number}" for number in range(VISIBLE)])
        result = await tools.execute("t0", ARGUMENTS, scope=key)
        assert result.value == await read(ARGUMENTS)
        return [(row, await measure(row)) for row in rows(tools, key)]


def value_of(row: Row, rounds: dict[str, list[float]]) -> float:
    """Return what the goal is about."""
    pairs = zip(rounds["ours"], rounds["floor"], strict=True)
    values = [row.value(ours, floor) for ours, floor in pairs]
    return median(values) if row.value is ratio else min(values)


def show(measured: list[tuple[Row, dict[str, list[float]]]]) -> None:
    """Print a table."""
    table = Table(title=f"{REGISTERED} tools registered, {VISIBLE} visible")
    for column in ("row", "ours", "floor", "against", "value", "goal", "met"):
        table.add_column(column)
    for row, rounds in measured:
        value = value_of(row, rounds)
        table.add_row(
            row.name,
            f"{median(rounds['ours']):,.0f} ns",
            f"{median(rounds['floor']):,.0f} ns",
            row.work,
            f"{value:.2f} {row.goal}",
            f"<= {row.most:g}",
            "yes" if value <= row.most else "no",
        )
    Console().print(table)


def main() -> int:
    """Measure, print, and say with the exit code whether the goals are met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail if a goal is missed by 2x")
    parser.add_argument("--json", type=Path, help="write every round to this file")
    chosen = parser.parse_args()
    measured = anyio.run(measure_all)
    show(measured)
    if chosen.json is not None:
        found = {row.name: {"value": value_of(row, rounds), "most": row.most, "rounds": rounds}
                 for row, rounds in measured}  # fmt: skip
        write_json(chosen.json, {"machine": machine(), "rows": found})
    missed = [row.name for row, rounds in measured if value_of(row, rounds) > 2 * row.most]
    return 1 if chosen.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
