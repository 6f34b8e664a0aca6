"""Play every scenario on every system: `python -m benchmarks.reload_matrix`."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from benchmarks.reload_matrix.scenarios import SCENARIOS
from benchmarks.reload_matrix.systems import SYSTEMS
from benchmarks.report import PIPED_WIDTH, write_json

RESULTS = Path(__file__).parents[1] / "results" / "reload_matrix.json"
DEADLINE = 40.0
SHOWN = {
    "right": "[green]yes",
    "wrong": "[red]no",
    "missing": "[dim]not installed",
    "late": "[red]hangs",
    "broken": "[red]does not start",
}
OURS = next(iter(SYSTEMS))


def play(system: str, scenario: str) -> dict[str, Any]:
    """Play one scenario on one system in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.reload_matrix.child", system, scenario]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            env=environment,
            cwd=Path(__file__).parents[2],
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"outcome": "late", "why": [f"not done after {DEADLINE:.0f} s"]}
    lines = done.stdout.splitlines()
    if not lines or not lines[-1].startswith("{"):
        return {"outcome": "broken", "why": done.stderr.splitlines()[-1:]}
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def print_table(results: dict[str, dict[str, dict[str, Any]]], console: Console) -> None:
    """Print who gets what right, and the total."""
    table = Table(box=SIMPLE_HEAD if console.is_terminal else None, pad_edge=False)
    table.add_column("scenario", no_wrap=True)
    systems = list(next(iter(results.values())))
    for system in systems:
        table.add_column(system, no_wrap=True)
    for scenario, row in results.items():
        table.add_row(scenario, *(SHOWN[row[system]["outcome"]] for system in systems))
    right = {
        system: sum(row[system]["outcome"] == "right" for row in results.values())
        for system in systems
    }
    table.add_row("right", *(f"{number} of {len(results)}" for number in right.values()))
    console.print(table)


def print_reasons(results: dict[str, dict[str, dict[str, Any]]], console: Console) -> None:
    """Print what was seen where something went wrong."""
    for scenario, row in results.items():
        for system, found in row.items():
            for why in found["why"]:
                console.print(f"{scenario}, {system}: {why}", markup=False, soft_wrap=True)


def version(system: str) -> str | None:
    """Return the version of an installed system."""
    try:
        return metadata.version(system)
    except metadata.PackageNotFoundError:
        return None


def main(argv: list[str] | None = None) -> int:
    """Run what the command line asks for; exit code 1 if this project gets something wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reload_matrix")
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="scenarios with this in the name"
    )
    parser.add_argument("--jobs", type=int, default=4, help="processes at a time (4)")
    parser.add_argument("--why", action="store_true", help="also print what went wrong")
    arguments = parser.parse_args(argv)
    names = [one.name for one in SCENARIOS if arguments.only in one.name]
    if not names:
        parser.error(f"no scenario has {arguments.only!r} in its name")
    pairs = [(system, name) for name in names for system in arguments.systems]
    with Console(stderr=True).status("playing"), ThreadPoolExecutor(arguments.jobs) as pool:
        ends = list(pool.map(lambda pair: play(*pair), pairs))
    results: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in names}
    for (system, name), end in zip(pairs, ends, strict=True):
        results[name][system] = end
    console = Console()
    if not console.is_terminal:
        console = Console(width=PIPED_WIDTH, no_color=True)
    print_table(results, console)
    if arguments.why:
        print_reasons(results, console)
    versions = {system: version(system) for system in arguments.systems}
    write_json(RESULTS, {"versions": versions, "results": results})
    ours = [row.get(OURS, {"outcome": "right"})["outcome"] for row in results.values()]
    return 0 if set(ours) == {"right"} else 1


if __name__ == "__main__":
    sys.exit(main())
