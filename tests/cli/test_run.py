"""`harness run`: boots, says what waits, runs until it is told to stop, and ends in order."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from .conftest import Run
from .living import process, save

PLUGIN = """\
import sys

def apply(ctx, config):
    print("up", flush=True)
    yield lambda: print("down", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["TERM", "INT"])
def test_it_runs_until_a_signal_and_takes_the_tree_down(tmp_path: Path, number: int) -> None:
    """The exit code is 0; waiting rows have been reported."""
    save(tmp_path / "p.py", PLUGIN)
    save(tmp_path / "harness.yaml", "- name: ./p.py\n- {id: w, name: workspace, inject: [never]}\n")
    with process(tmp_path, "run", "harness.yaml") as running:
        running.line(running.err, lambda line: "running 4 rows of harness.yaml" in line)
        assert any('row "w" waits for service "never"' in line for line in running.seen)
        running.line(running.out, lambda line: line == "up\n")
        assert running.stop(number) == 0
        assert running.rest(running.out) == "down\n"
        assert running.rest(running.err) == ""


def test_a_signal_while_plugins_load_ends_it_in_order(tmp_path: Path) -> None:
    """What was set up by then is taken down."""
    slow = PLUGIN + (
        "\nimport anyio\n\nasync def slow(ctx):\n"
        "    ctx.effect(lambda: lambda: print('undone', flush=True))\n"
        "    print('loading', flush=True)\n    await anyio.sleep_forever()\n"
    )
    save(tmp_path / "p.py", slow)
    save(tmp_path / "harness.yaml", "- name: ./p.py\n- {id: s, name: './p.py:slow'}\n")
    with process(tmp_path, "run", "harness.yaml") as running:
        running.line(running.out, lambda line: line == "loading\n")
        assert running.stop() == 0
        assert running.rest(running.out) == "undone\ndown\n"


def test_faults_end_it_with_1(tmp_path: Path) -> None:
    """Each with its place; the rows that did work are taken down."""
    save(tmp_path / "p.py", PLUGIN)
    save(tmp_path / "harness.yaml", "- name: ./p.py\n- name: nobody\n")
    with process(tmp_path, "run", "harness.yaml") as running:
        assert running.wait() == 1
        assert running.rest(running.out) == "up\ndown\n"
        assert 'error: harness.yaml:2:9: unknown plugin "nobody"' in running.rest(running.err)


def test_a_crash_is_reported_and_stops_no_other(tmp_path: Path) -> None:
    """With the name of its owner."""
    crash = (
        "import anyio\n\ndef apply(ctx):\n    async def work():\n        await anyio.sleep(0.01)\n"
        "        raise ValueError('no luck')\n    ctx.start_soon(work)\n"
    )
    save(tmp_path / "crash.py", crash)
    save(tmp_path / "harness.yaml", "- name: ./crash.py\n")
    with process(tmp_path, "run", "harness.yaml") as running:
        line = running.line(running.err, lambda line: "no luck" in line)
        assert line == "error: fiber root/crash: ValueError: no luck\n"
        assert running.stop() == 0


def test_a_dry_run_mounts_nothing(write: object, harness: Run, tmp_path: Path) -> None:
    """It says what would be done with each row, and where the row stands."""
    save(tmp_path / "p.py", "raise RuntimeError('imported')\n")
    manifest = (
        "- {id: a, name: ./p.py}\n- id: g\n  group: true\n  config:\n    - name: ./p.py\n"
        "      disabled: true\n- {id: b, name: ./p.py}\n"
    )
    save(tmp_path / "harness.yaml", manifest)
    file = str(tmp_path / "harness.yaml")
    outcome = harness("run", file, "--dry-run", "--disable", "b")
    assert outcome.code == 0
    assert outcome.out == (
        "add system_prompt\nadd system_prompt_invariant\n"
        f"add a (./p.py)  {file}:1:3\nadd g  {file}:2:3\n"
        f"leave out ./p.py  {file}:5:7\nleave out b (./p.py)  {file}:7:3\n"
    )


@pytest.mark.parametrize("command", ["prompt", "check", "tree", "run", "dev"])
def test_disable_leaves_rows_out_and_refuses_ids_that_no_row_has(
    harness: Run, tmp_path: Path, command: str
) -> None:
    """In every command; a broken row does not matter then, nor a missing variable."""
    manifest = "- {id: broken, name: nobody, config: '${env:NEVER_SET}'}\n- name: workspace\n"
    save(tmp_path / "harness.yaml", manifest)
    file = str(tmp_path / "harness.yaml")
    refused = harness(command, file, "--disable", "brken", "--disable", "broken")
    assert refused.code == 2
    assert 'there is no row "brken"; did you mean "broken"?' in refused.err
    if command in ("prompt", "check", "tree"):
        outcome = harness(command, file, "--disable", "broken")
        assert outcome.code == 0, outcome.err
        outcome = harness(command, file, "--disable", "broken", "--disable", "system_prompt")
        assert "nobody" not in outcome.err
