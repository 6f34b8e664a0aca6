"""The check that a thousand reloads leave nothing: it finds a leak of a kibibyte a reload."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("leak", "found"),
    [
        ("nothing", []),
        ("passing", []),
        ("bytes", ["memory"]),
        ("block", ["memory"]),
        ("module", ["modules", "objects", "memory"]),
        ("listener", ["listeners", "objects", "memory"]),
    ],
)
def test_what_grows_is_found_and_nothing_else(leak: str, found: list[str]) -> None:
    """One of a kind a reload: small pieces, one table that grows, a module, a listener."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.reload.leaking", leak],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        timeout=300,
        check=True,
    )
    faults = json.loads(done.stdout)
    assert [fault.partition(" grew")[0] for fault in faults] == found, faults
