"""`harness plugins` and `harness new plugin`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import ROOT, Run


def test_plugins_are_listed_with_their_settings_and_docs(harness: Run) -> None:
    """Fields, types and defaults of the config, and what the plugin is for."""
    outcome = harness("plugins", "--json")
    assert outcome.code == 0, outcome.err
    found = {one["name"]: one for one in outcome.data}
    assert list(found) == sorted(found)
    assert {"persona", "agents", "git_context", "system_prompt"} <= found.keys()
    git = found["git_context"]
    assert git["target"] == "harness_plugins.git_context"
    assert git["doc"].startswith("`git_context`: branch, changed files")
    assert git["inject"] == ["system_prompt"]
    assert git["error"] is None
    settings = {one["name"]: one for one in git["config"]}
    assert settings["commits"] == {
        "name": "commits",
        "type": "int",
        "required": False,
        "default": "5",
    }
    assert found["system_prompt"]["provides"] == ["system_prompt"]
    assert found["system_prompt_invariant"]["config"] is None


def test_plugins_for_people(harness: Run) -> None:
    """The same, in lines."""
    outcome = harness("plugins")
    assert "git_context  harness_plugins.git_context\n" in outcome.out
    assert "    commits: int  default 5\n" in outcome.out


def test_a_new_plugin_passes_its_test_and_runs(harness: Run, tmp_path: Path) -> None:
    """At once, outside any project, with warnings as errors."""
    place = tmp_path / "deep" / "er"
    outcome = harness("new", "plugin", "house_rules", "--directory", str(place))
    assert outcome.code == 0, outcome.err
    assert "- name: ./house_rules.py" in outcome.out
    test = subprocess.run(
        [
            sys.executable,
            "-W",
            "error",
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "test_house_rules.py",
        ],
        cwd=place,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert test.returncode == 0, test.stdout + test.stderr
    assert "1 passed" in test.stdout
    assert "warning" not in test.stdout.lower() + test.stderr.lower()
    (place / "harness.yaml").write_text("- {name: ./house_rules.py, config: {text: Be brief.}}\n")
    assert "Be brief." in harness("prompt", str(place / "harness.yaml"), "--raw").out
    assert harness("check", str(place / "harness.yaml")).code == 0


def test_a_new_plugin_is_clean(harness: Run, tmp_path: Path) -> None:
    """Formatted and typed as this project is."""
    harness("new", "plugin", "house_rules", "--directory", str(tmp_path))
    for arguments in (
        ["ruff", "check", "--config", str(ROOT / "pyproject.toml"), "--no-cache"],
        ["ruff", "format", "--check", "--config", str(ROOT / "pyproject.toml"), "--no-cache"],
    ):
        done = subprocess.run(
            [sys.executable, "-m", *arguments, str(tmp_path)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout


def test_settings_of_pytest_are_written_where_there_are_none(harness: Run, tmp_path: Path) -> None:
    """Also above the directory, they stay what they are."""
    inner = tmp_path / "inner"
    harness("new", "plugin", "first", "--directory", str(tmp_path))
    settings = tmp_path / "pytest.ini"
    assert settings.read_text().startswith("[pytest]\n")
    harness("new", "plugin", "second", "--directory", str(inner))
    assert sorted(one.name for one in inner.iterdir()) == ["second.py", "test_second.py"]
    settings.unlink()
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n[tool.pytest.ini_options]\n")
    harness("new", "plugin", "third", "--directory", str(tmp_path))
    assert not settings.exists()


@pytest.mark.parametrize("file", ["mine.py", "test_mine.py"])
def test_nothing_is_overwritten(harness: Run, tmp_path: Path, file: str) -> None:
    """If one of the two is there, none is written."""
    (tmp_path / file).write_text("precious")
    outcome = harness("new", "plugin", "mine", "--directory", str(tmp_path))
    assert outcome.code == 1
    assert "exists already" in outcome.err
    assert [one.name for one in tmp_path.iterdir()] == [file]
    assert (tmp_path / file).read_text() == "precious"


@pytest.mark.parametrize("name", ["1st", "with-dash", "class", "json", "persona", "_hidden", ""])
def test_names_that_cannot_be_modules_are_refused(harness: Run, tmp_path: Path, name: str) -> None:
    """A wrong call."""
    outcome = harness("new", "plugin", name, "--directory", str(tmp_path))
    assert outcome.code == 2
    assert not any(tmp_path.iterdir())
