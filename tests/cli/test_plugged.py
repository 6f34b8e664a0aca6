"""Commands that plugins bring: entry points of the group `harness.commands`."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Run

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """`install(code, name="module:attribute")` installs a package `plugged_commands`."""

    def run(code: str, **commands: str) -> None:
        (tmp_path / "plugged_commands.py").write_text(code)
        facts = tmp_path / "plugged_commands-1.0.dist-info"
        facts.mkdir()
        (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: plugged-commands\n")
        lines = [f"{name} = {target}" for name, target in commands.items()]
        text = "\n".join(["[harness.commands]", *lines, ""])
        (facts / "entry_points.txt").write_text(text)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "plugged_commands", raising=False)
        importlib.invalidate_caches()

    return run


GREET = """
import click

@click.command()
@click.argument("who")
def greet(who):
    "Greet somebody."
    click.echo(f"hello {who}")
"""


def test_a_command_of_a_plugin_is_run_and_listed(harness: Run, install: Install) -> None:
    install(GREET, greet="plugged_commands:greet")
    outcome = harness("greet", "you")
    assert (outcome.code, outcome.out) == (0, "hello you\n")
    assert re.search(r"greet +Greet somebody\.", harness("--help").out)


def test_a_built_in_command_wins_its_name(harness: Run, install: Install) -> None:
    install(GREET, tree="plugged_commands:greet")
    assert "Print the fibers of CONFIG" in harness("tree", "--help").out


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import nowhere_to_be_found", "cannot be imported: ModuleNotFoundError"),
        ("greet = 5", "is no click command but 5"),
    ],
)
def test_a_broken_command_says_so_and_harms_no_other(
    harness: Run, install: Install, code: str, said: str
) -> None:
    install(code, greet="plugged_commands:greet")
    outcome = harness("greet", "--loud", "you")
    assert outcome.code == 1
    assert 'the command "greet" (plugged_commands:greet)' in outcome.err
    assert said in outcome.err
    listed = harness("--help")
    assert (listed.code, "(broken:" in listed.out) == (0, True)
