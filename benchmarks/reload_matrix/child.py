"""One scenario on one system, in this process: prints what was seen as one line of JSON."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import anyio

from benchmarks.reload_matrix.log import LOG
from benchmarks.reload_matrix.model import Expected, Files, Observed, Scenario, Step, System
from benchmarks.reload_matrix.scenarios import SCENARIOS
from benchmarks.reload_matrix.systems import make

SETTLE = 1.1
"""Seconds after a save before anything is judged, so that what comes late is seen.

More than a second, so that saves share a second of the clock only where a scenario wants it.
"""

AGE = 60
"""Seconds that the files of a harness are old when it starts."""

PATIENCE = 4.0


def save(directory: Path, files: Files, *, by_rename: bool = False) -> None:
    """Bring these files into this state, deleted ones last."""
    for name, text in sorted(files.items(), key=lambda item: item[1] is None):
        path = directory / name
        if text is None:
            path.unlink()
            continue
        path.parent.mkdir(exist_ok=True)
        target = path.with_name(f".{path.name}.swp") if by_rename else path
        target.write_text(text, encoding="utf-8")
        if by_rename:
            os.replace(target, path)


def age(directory: Path) -> None:
    """Make all files look as if they had been there for a while."""
    then = time.time() - AGE
    for path in directory.rglob("*.py"):
        os.utime(path, (then, then))


async def look(system: System, directory: Path) -> Observed:
    """Return what can be seen now."""
    inside = f"{directory}{os.sep}"
    modules = sorted(
        name
        for name, module in tuple(sys.modules.items())
        if (getattr(module, "__file__", None) or "").startswith(inside)
    )
    return Observed(await system.prompt(), tuple(LOG), tuple(modules))


async def judge(system: System, directory: Path, expected: Expected) -> list[str]:
    """Wait until things are as expected, or no longer; return the differences."""
    await anyio.sleep(SETTLE)
    end = time.monotonic() + PATIENCE
    while True:
        try:
            differences = expected.differences(await look(system, directory))
        except Exception as error:
            differences = [f"the prompt cannot be assembled: {type(error).__name__}: {error}"]
        if not differences or time.monotonic() > end:
            return differences
        await anyio.sleep(0.05)


async def take(system: System, directory: Path, step: Step) -> list[str]:
    """Save, and return what is not as it should be."""
    if step.on_the_second:
        await anyio.sleep(1.02 - time.time() % 1)
    save(directory, step.files, by_rename=step.by_rename)
    await system.saved()
    if step.expected is None:
        await anyio.sleep(step.pause)
        return []
    return await judge(system, directory, step.expected)


async def play(system: System, scenario: Scenario, directory: Path) -> dict[str, object]:
    """Play a scenario; return how it ended."""
    save(directory, scenario.before)
    age(directory)
    sys.path.insert(0, str(directory))
    sys.dont_write_bytecode = False
    await system.start(directory, scenario.plugins)
    wrong = await judge(system, directory, scenario.start)
    if wrong:
        return {"outcome": "broken", "why": [f"before any save: {one}" for one in wrong]}
    for number, step in enumerate(scenario.steps, 1):
        wrong = await take(system, directory, step)
        if wrong:
            return {"outcome": "wrong", "why": [f"save {number}: {one}" for one in wrong]}
    return {"outcome": "right", "why": []}


def main(system: str, name: str) -> None:
    scenario = next(one for one in SCENARIOS if one.name == name)
    with tempfile.TemporaryDirectory() as place:
        try:
            adapter = make(system)
        except ImportError as error:
            ended: dict[str, object] = {"outcome": "missing", "why": [str(error)]}
        else:
            ended = asyncio.run(play(adapter, scenario, Path(place).resolve()))
        print(json.dumps(ended), flush=True)
    os._exit(0)  # watchers of other systems have threads that do not end by themselves


if __name__ == "__main__":
    main(*sys.argv[1:])
