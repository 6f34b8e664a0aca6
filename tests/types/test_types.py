"""Types are a product: both checkers infer what they should, and refuse what they should."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


def run_mypy(file: Path, cache: Path) -> list[tuple[int, str]]:
    """Return line and message of every error that mypy finds in a file."""
    result = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--no-error-summary",
            "--show-absolute-path",
            "--hide-error-context",
            "--no-pretty",
            f"--cache-dir={cache}",
            str(file),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode in (0, 1), result.stdout + result.stderr
    found: list[tuple[int, str]] = []
    for line in result.stdout.splitlines():
        place, _, message = line.partition(": error: ")
        if message and Path(place.rpartition(":")[0]).resolve() == file.resolve():
            found.append((int(place.rpartition(":")[2]), message))
    return found


def run_basedpyright(file: Path, project: Path) -> list[tuple[int, str]]:
    """Return line and message of every error that basedpyright, strict, finds in a file."""
    settings = {
        "include": [str(file)],
        "extraPaths": [str(ROOT), str(ROOT / "plugins")],
        "pythonVersion": "3.11",
        "typeCheckingMode": "strict",
        "reportUnusedExpression": False,
        "reportUnusedCallResult": False,
        "reportUnusedCoroutine": False,
        "reportUnusedFunction": False,
    }
    config = project / "pyrightconfig.json"
    config.write_text(json.dumps(settings))
    program = Path(sys.executable).with_name("basedpyright")
    result = subprocess.run(
        [str(program), "--outputjson", "--project", str(config), "--pythonpath", sys.executable],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode in (0, 1), result.stdout + result.stderr
    report = json.loads(result.stdout)
    assert report["summary"]["filesAnalyzed"] >= 1
    return [
        (one["range"]["start"]["line"] + 1, one["message"])
        for one in report["generalDiagnostics"]
        if one["severity"] == "error"
    ]


def check(checker: str, name: str, scratch: Path) -> list[tuple[int, str]]:
    """Run one checker over one file."""
    if checker == "mypy":
        return run_mypy(HERE / name, scratch)
    return run_basedpyright(HERE / name, scratch)


checkers = pytest.mark.parametrize(
    "checker",
    [
        "mypy",
        pytest.param(
            "basedpyright",
            marks=pytest.mark.skipif(
                shutil.which(str(Path(sys.executable).with_name("basedpyright"))) is None,
                reason="basedpyright is not installed beside this Python",
            ),
        ),
    ],
)


@checkers
def test_both_checkers_infer_what_they_should(checker: str, tmp_path: Path) -> None:
    """`assert_type` over services, events, decorators and assemblies: no error at all."""
    assert check(checker, "type_checks.py", tmp_path) == []


@checkers
def test_both_checkers_refuse_what_they_should(checker: str, tmp_path: Path) -> None:
    """Each marked line is an error, and no other."""
    lines = (HERE / "type_errors.py").read_text().splitlines()
    marked = {number for number, line in enumerate(lines, 1) if line.endswith("# wrong")}
    found = check(checker, "type_errors.py", tmp_path)
    assert marked
    assert {line for line, _ in found} == marked, found


def test_the_package_says_that_it_is_typed() -> None:
    """`py.typed` is there."""
    assert (ROOT / "harness_core" / "py.typed").is_file()
