"""The demo of the README: a scripted conversation with a sub-agent and a save in the middle."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_save_in_the_middle_changes_what_the_sub_agent_answers() -> None:
    """The second review follows the rule that was saved after the first one."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "examples/agent/demo.py"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'plugins'}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    before, saved, after = done.stdout.partition("(house_style.py is saved")
    assert saved
    assert "← delegate ok: Every sentence has twelve words or fewer." in before
    assert "reloaded house_style" in after
    assert "← delegate ok: “Wipe it with a damp cloth” has six words; five are allowed." in after
    assert "the turn ended" not in done.stdout
