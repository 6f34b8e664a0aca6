"""The original, run under Node in one process of its own and spoken to in JSON lines.

Set-up is done here: the packages are installed at the exact versions of `original/package.json`
into a cache that git ignores. They are run and never read.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from benchmarks.rows import Row

HERE = Path(__file__).parent / "original"
CACHE = Path(__file__).parent.parent / ".cache" / "original"
LINE_LIMIT = 64 * 1024 * 1024


class OriginalUnavailableError(RuntimeError):
    """Node or the packages of the original are not there and could not be installed."""


def install() -> Path:
    """Install the packages, unless this very set is there already; return the driver's path."""
    wanted = (HERE / "package.json").read_text(encoding="utf-8")
    stamp = CACHE / "installed.json"
    driver = CACHE / "driver.mjs"
    if shutil.which("node") is None:
        raise OriginalUnavailableError("node is not on the PATH")
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted:
        _install_packages(wanted)
        stamp.write_text(wanted, encoding="utf-8")
    shutil.copyfile(HERE / "driver.mjs", driver)
    return driver


def _install_packages(package_json: str) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise OriginalUnavailableError("npm is not on the PATH")
    CACHE.mkdir(parents=True, exist_ok=True)
    (CACHE / ".gitignore").write_text("*\n", encoding="utf-8")
    (CACHE / "package.json").write_text(package_json, encoding="utf-8")
    done = subprocess.run(
        [npm, "install", "--prefix", str(CACHE), "--no-audit", "--no-fund", "--omit=optional"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise OriginalUnavailableError(f"npm install failed: {done.stderr.strip()[-500:]}")


class Original:
    """The running Node process; builds one row's work at a time."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls) -> Original:
        """Install what is missing and start Node with its collector callable."""
        driver = await asyncio.to_thread(install)
        process = await asyncio.create_subprocess_exec(
            "node",
            "--expose-gc",
            str(driver),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=LINE_LIMIT,
        )
        return cls(process)

    async def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Send one command and return its answer; an error of the driver is raised."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line = json.dumps({"do": do, **arguments}) + "\n"
        self._process.stdin.write(line.encode())
        await self._process.stdin.drain()
        raw = await self._process.stdout.readline()
        if not raw:
            raise OriginalUnavailableError(f"the original's process ended during {do!r}")
        answer: dict[str, Any] = json.loads(raw)
        if "error" in answer:
            raise RuntimeError(f"the original failed at {do!r}: {answer['error']}")
        return answer

    async def build(self, row: Row) -> OriginalSubject:
        """Build a row's work."""
        await self.ask("build", work=row.work)
        unit = row.work.get("live", 1) if row.kind == "mount" else 1
        return OriginalSubject(self, unit)

    async def stop(self) -> None:
        """End the process by closing its input."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()


class OriginalSubject:
    """A row's work as it stands in the Node process."""

    name = "original"

    def __init__(self, original: Original, unit: int) -> None:
        self._original = original
        self._unit = unit

    async def result(self) -> Any:
        """Do the work once and return what came out."""
        return (await self._original.ask("result"))["result"]

    async def warm(self, milliseconds: float) -> float:
        """Repeat the work at least that long, so that V8 has compiled it."""
        answer = await self._original.ask("warm", ms=milliseconds)
        return float(answer["ns"] / (answer["count"] * self._unit))

    async def round(self, count: int) -> float:
        """Collect garbage in Node, then time `count` units."""
        repetitions = max(1, round(count / self._unit))
        answer = await self._original.ask("round", count=repetitions)
        return float(answer["ns"] / (repetitions * self._unit))

    async def measure(self) -> float:
        """Return the bytes of heap that one unit keeps."""
        return float((await self._original.ask("measure"))["bytes"])

    async def close(self) -> None:
        """Drop the work and collect it."""
        await self._original.ask("close")
