"""Run the benchmarks: `python -m benchmarks` from the project's root."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from benchmarks import report
from benchmarks.measure import FULL, QUICK, Measured, MismatchError, Settings, measure_row
from benchmarks.original import Original, OriginalUnavailableError
from benchmarks.rows import ROWS, Row, row_named

RESULTS = Path(__file__).parent / "results" / "latest.json"
TOO_FAR = 2.0


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Time the same work on this project, a hand-written floor, the original "
        "and peers. Exit code 1: results differ, or --check finds a goal missed by far.",
    )
    parser.add_argument("--rows", nargs="+", metavar="ROW", help="only these rows")
    parser.add_argument("--quick", action="store_true", help="short rounds; rough numbers")
    parser.add_argument("--json", type=Path, default=RESULTS, metavar="PATH", help="where to write")
    parser.add_argument("--check", action="store_true", help="fail on a goal missed more than 2x")
    parser.add_argument("--no-original", action="store_true", help="leave Node out")
    arguments = parser.parse_args(argv)
    try:
        arguments.chosen = [row_named(name) for name in arguments.rows or []] or list(ROWS)
    except LookupError as error:
        parser.error(str(error.args[0]))
    return arguments


async def start_original(wanted: bool, say: Callable[[str], None]) -> Original | None:
    """Start the original and bring V8 to temperature, or say why it is left out."""
    if not wanted:
        return None
    say("setting up the original under Node")
    try:
        original = await Original.start()
    except OriginalUnavailableError as reason:
        print(f"the original is left out: {reason}", file=sys.stderr)
        return None
    kettle = await original.build(ROWS[0])
    await kettle.warm(500)
    await kettle.close()
    return original


async def run(
    rows: list[Row], settings: Settings, *, with_original: bool, say: Callable[[str], None]
) -> list[Measured]:
    """Measure the rows one after another."""
    original = await start_original(with_original, say)
    try:
        return [await measure_row(row, original, settings, say) for row in rows]
    finally:
        if original is not None:
            await original.stop()


def too_far(measured: list[Measured]) -> list[str]:
    """Return a line for each goal that is missed by more than `TOO_FAR` times."""
    return [
        f"{each.row.name}: {goal.name} is {goal.value:.3g}, goal at {goal.at} {goal.target:g}"
        for each in measured
        for goal in each.goals
        if goal.missed_by > TOO_FAR
    ]


def main(argv: list[str] | None = None) -> int:
    """Run what the command line asks for; return the exit code."""
    arguments = parse(argv)
    settings = QUICK if arguments.quick else FULL
    with Console(stderr=True).status("starting") as status:
        try:
            measured = asyncio.run(
                run(
                    arguments.chosen,
                    settings,
                    with_original=not arguments.no_original,
                    say=status.update,
                )
            )
        except MismatchError as mismatch:
            print(mismatch, file=sys.stderr)
            return 1
    report.print_table(measured)
    report.write_json(arguments.json, report.as_data(measured, settings))
    faults = too_far(measured) if arguments.check else []
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
