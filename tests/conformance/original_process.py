"""Sets up the original packages once, and keeps one process of them that answers cases.

Everything lands in `.cache/original` below the project, in a folder named after the pinned
versions: a change of package.json makes a new one, and two sessions cannot disturb each other.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import IO

from .corpus import Json, Op

__all__ = ["Original", "OriginalMissingError", "start_original"]

SOURCE = Path(__file__).with_name("original")
CACHE = Path(__file__).resolve().parents[2] / ".cache" / "original"

ANSWER_SECONDS = 60.0
INSTALL_SECONDS = 300.0


class OriginalMissingError(Exception):
    """The original cannot run here. `tolerable` is false where CI expects it to."""

    def __init__(self, missing: str) -> None:
        self.tolerable = not os.environ.get("CI")
        super().__init__(f"the original needs `{missing}`, which is not on the PATH")


class Original:
    """A running driver: one case in, its answers out."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self) -> Original:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the input, which ends the driver."""
        self._stdin.close()
        self._stdout.close()
        self._process.wait(ANSWER_SECONDS)

    def replay(self, ops: list[Op]) -> list[Json]:
        """Return the original's answers to the operations, performed on a fresh tree."""
        line = json.dumps({"id": 0, "ops": [{"do": op} for op in ops]})
        watchdog = threading.Timer(ANSWER_SECONDS, self._process.kill)
        watchdog.start()
        try:
            self._stdin.write(line.encode() + b"\n")
            self._stdin.flush()
            answer = self._stdout.readline()
        finally:
            watchdog.cancel()
        if not answer:
            raise RuntimeError(f"the original's driver ended or hung while it replayed {line}")
        return [step["expect"] for step in json.loads(answer)["ops"]]

    @property
    def _stdin(self) -> IO[bytes]:
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def _stdout(self) -> IO[bytes]:
        assert self._process.stdout is not None
        return self._process.stdout


def start_original() -> Original:
    """Install the original if need be, and start its driver."""
    node, npm = _require("node"), _require("npm")
    home = _installed(npm)
    return Original([node, str(_place_driver(home))])


def _require(program: str) -> str:
    path = shutil.which(program)
    if path is None:
        raise OriginalMissingError(program)
    return path


def _installed(npm: str) -> Path:
    """Return the folder that holds the pinned packages; it appears whole or not at all."""
    manifest = (SOURCE / "package.json").read_bytes()
    home = CACHE / hashlib.sha256(manifest).hexdigest()[:12]
    if home.exists():
        return home
    CACHE.mkdir(parents=True, exist_ok=True)
    (CACHE / ".gitignore").write_text("*\n", encoding="utf-8")
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="install-") as folder:
        fresh = Path(folder) / "home"
        fresh.mkdir()
        (fresh / "package.json").write_bytes(manifest)
        _npm_install(npm, fresh)
        try:
            fresh.rename(home)
        except OSError:  # another session was quicker
            if not home.exists():
                raise
    return home


def _npm_install(npm: str, home: Path) -> None:
    flags = ["--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts"]
    command = [npm, "install", "--prefix", str(home), *flags]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


def _place_driver(home: Path) -> Path:
    """Copy the driver beside its packages, since node resolves imports from where a file lies."""
    target = home / "driver.mjs"
    draft = home / f"driver.{os.getpid()}.tmp"
    shutil.copyfile(SOURCE / "driver.mjs", draft)
    return draft.replace(target)
