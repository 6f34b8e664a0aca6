"""Running the command line: in this process, and as a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from harness_core.cli import main

ROOT = Path(__file__).parents[2]


@attrs.frozen
class Outcome:
    """What a run printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """What stdout holds as JSON, which must be all of it."""
        return json.loads(self.out)


Run = Callable[..., Outcome]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`write(manifest="...", rules="...")` writes harness.yaml and rules.py, and goes there."""
    monkeypatch.chdir(tmp_path)

    def run(**files: str) -> None:
        for name, text in files.items():
            file = "harness.yaml" if name == "manifest" else f"{name}.py"
            (tmp_path / file).write_text(textwrap.dedent(text))

    return run


@pytest.fixture
def harness(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """`harness("check", "harness.yaml")` in this process."""
    monkeypatch.delenv("COLUMNS", raising=False)  # whoever runs the tests may have set it

    def run(*arguments: str) -> Outcome:
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        out, err = capfd.readouterr()
        return Outcome(int(ended.value.code or 0), out, err)

    return run


@pytest.fixture
def process() -> Run:
    """`process("check", "harness.yaml", cwd=...)`: `python -m harness_core.cli ...`."""

    def run(*arguments: str, cwd: Path = ROOT, **environ: str) -> Outcome:
        path = f"{ROOT}{os.pathsep}{ROOT / 'plugins'}"
        ended = subprocess.run(
            [sys.executable, "-W", "error", "-m", "harness_core.cli", *arguments],
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": path, **environ},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return Outcome(ended.returncode, ended.stdout, ended.stderr)

    return run
