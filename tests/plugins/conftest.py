"""A tree with a system prompt, and real git repositories."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Git = Callable[..., str]


@pytest.fixture
def git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Git:
    """`git("commit", ..., cwd=...)`, with no configuration of whoever runs the tests."""
    home = tmp_path / "home"
    home.mkdir()
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")

    def run(*arguments: str, cwd: Path) -> str:
        who = ("-c", "user.name=Nobody", "-c", "user.email=nobody@example.org")
        return subprocess.run(
            ["git", *who, *arguments], cwd=cwd, check=True, capture_output=True, text=True
        ).stdout

    return run


@pytest.fixture
def repository(tmp_path: Path, git: Git) -> Path:
    """A repository with two commits on `main`."""
    path = tmp_path / "repository"
    path.mkdir()
    git("init", "-q", "-b", "main", cwd=path)
    for number in (1, 2):
        (path / f"file{number}.txt").write_text(f"{number}\n")
        git("add", ".", cwd=path)
        git("commit", "-q", "-m", f"Commit {number}", cwd=path)
    return path
