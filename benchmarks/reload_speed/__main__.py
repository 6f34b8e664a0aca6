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
import sys
from pathlib import Path

from rich.console import Console

from benchmarks.report import PIPED_WIDTH, machine, write_json

from .speed import QUIET, measure_speed, print_speed
from .thousand import growth_of, print_counts, run_thousand

RESULTS = Path(__file__).parents[1] / "results"


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
    console.print("\n".join(faults) or f"no growth after the first {counts[0].reloads}")
    rows = [{"reloads": one.reloads, **one.numbers} for one in counts]
    write_json(RESULTS / "reload_thousand.json", {"machine": machine(), "counts": rows})
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
