"""Show what was measured: a table for people, JSON for machines."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from benchmarks.measure import FLOOR, ORIGINAL, OURS, Goal, Measured, Settings
from benchmarks.original import HERE
from benchmarks.peers import MODULES

PIPED_WIDTH = 400


def machine() -> dict[str, Any]:
    """Return the facts that the numbers depend on; nothing that names the machine."""
    return {
        "cpu": _cpu(),
        "cpus": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "node": _node(),
        "load": [round(load, 2) for load in os.getloadavg()] if hasattr(os, "getloadavg") else None,
        "peers": {name: _version(name) for name in MODULES},
        "original": json.loads((HERE / "package.json").read_text(encoding="utf-8"))["dependencies"],
    }


def _cpu() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def _node() -> str | None:
    node = shutil.which("node")
    if node is None:
        return None
    done = subprocess.run([node, "--version"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or None


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def as_data(measured: list[Measured], settings: Settings) -> dict[str, Any]:
    """Return everything as JSON data."""
    return {
        "machine": machine(),
        "settings": {"rounds": settings.rounds, "round_ms": settings.round_ms},
        "rows": [_row_data(each) for each in measured],
    }


def _row_data(each: Measured) -> dict[str, Any]:
    return {
        "name": each.row.name,
        "work": each.row.title,
        "unit": "bytes" if each.row.is_memory else "ns",
        "medians": {name: each.median(name) for name in each.rounds},
        "times_floor": each.ratio(OURS, FLOOR),
        "faster_than_original": each.ratio(ORIGINAL, OURS),
        "goals": [
            {
                "goal": goal.name,
                f"at_{goal.at}": goal.target,
                "value": goal.value,
                "met": goal.met,
            }
            for goal in each.goals
        ],
        "rounds": each.rounds,
    }


def write_json(path: Path, data: dict[str, Any]) -> None:
    """Write the data, making the folder if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def print_table(measured: list[Measured], console: Console | None = None) -> None:
    """Print a table: with lines and colours on a terminal, plain columns when piped."""
    console = console or Console()
    if not console.is_terminal:
        console = Console(file=console.file, width=PIPED_WIDTH, no_color=True)
    table = Table(box=SIMPLE_HEAD if console.is_terminal else None, pad_edge=False)
    numeric = ("ours", "floor", "original", "x floor", "x faster")
    table.add_column("row", no_wrap=True)
    for name in numeric:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("goals", no_wrap=not console.is_terminal)
    table.add_column("met", no_wrap=not console.is_terminal)
    table.add_column("peers", no_wrap=not console.is_terminal)
    for each in measured:
        table.add_row(*_cells(each))
    console.print(table)


def _cells(each: Measured) -> list[str]:
    memory = each.row.is_memory
    known = [_amount(each.median(name), memory) for name in (OURS, FLOOR, ORIGINAL)]
    ratios = [_ratio(each.ratio(OURS, FLOOR)), _ratio(each.ratio(ORIGINAL, OURS))]
    goals = ", ".join(_goal(goal, memory) for goal in each.goals)
    missed = [goal.name for goal in each.goals if not goal.met]
    met = "" if not each.goals else f"[red]no: {', '.join(missed)}" if missed else "[green]yes"
    peers = ", ".join(
        f"{name} {_amount(each.median(name), memory)}" for name in each.rounds if name in MODULES
    )
    return [each.row.name, *known, *ratios, goals, met, peers]


def _goal(goal: Goal, memory: bool) -> str:
    sign = "<=" if goal.at == "most" else ">="
    if goal.name == "absolute":
        return f"{sign} {_amount(goal.target, memory)}"
    if goal.name == "flat":
        return f"flat {goal.value:.2f} {sign} {goal.target:g}"
    return f"{goal.name} {sign} {goal.target:g}"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _amount(value: float | None, memory: bool) -> str:
    """Write nanoseconds or bytes with a unit that suits."""
    if value is None:
        return "-"
    if memory:
        return f"{value / 1024:.2f} KiB"
    for limit, unit in ((1e3, "ns"), (1e6, "us"), (1e9, "ms")):
        if value < limit:
            return f"{value / limit * 1e3:.3g} {unit}"
    return f"{value / 1e9:.3g} s"
