"""`git_context`: what the real git says; silence where it says nothing."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest
from harness_plugins import git_context

from harness_core import Context
from harness_core.errors import ConfigError
from harness_core.prompt import PromptAssembly, SystemPrompt, render_context_snapshot

from .conftest import Git

pytestmark = pytest.mark.asyncio


async def assemble(directory: Path, **config: Any) -> PromptAssembly:
    async with Context() as root:
        await root.plugin(SystemPrompt)
        await root.plugin(git_context, {"directory": str(directory), **config})
        return await root.system_prompt.assemble()


def read_numbers(directory: Path) -> list[int]:
    return [int(file.read_text()) for file in directory.glob("pid.*")]


async def said(directory: Path, **config: Any) -> str:
    (context,) = (await assemble(directory, **config)).contexts
    return context.text


async def test_branch_changed_files_and_commits(repository: Path, git: Git) -> None:
    """Of whatever directory below the repository."""
    (repository / "file1.txt").write_text("changed\n")
    (repository / "new file.txt").write_text("")
    git("mv", "file2.txt", "renamed.txt", cwd=repository)
    below = repository / "below"
    below.mkdir()
    lines = (await said(below)).split("\n")
    assert lines[:5] == [
        "Git branch: main",
        "Changed files (3):",
        "   M file1.txt",
        "  R  renamed.txt",
        "  ?? new file.txt",
    ]
    assert lines[5] == "Last commits:"
    assert [line.split(" ", 3)[3] for line in lines[6:]] == ["Commit 2", "Commit 1"]


async def test_a_clean_repository_says_so(repository: Path) -> None:
    """And how many commits to show is configured."""
    lines = (await said(repository, commits=1)).split("\n")
    assert lines[:3] == ["Git branch: main", "No changed files.", "Last commits:"]
    assert len(lines) == 4
    assert await said(repository, commits=0) == "Git branch: main\nNo changed files."


async def test_no_commits_yet_and_no_branch(tmp_path: Path, git: Git, repository: Path) -> None:
    """Both happen."""
    empty = tmp_path / "empty"
    empty.mkdir()
    git("init", "-q", "-b", "trunk", cwd=empty)
    assert await said(empty) == "Git branch: trunk\nNo changed files.\nNo commits yet."
    git("checkout", "-q", "--detach", cwd=repository)
    assert (await said(repository)).startswith("Git: no branch checked out\n")


async def test_the_distance_to_the_upstream(tmp_path: Path, git: Git, repository: Path) -> None:
    """Ahead, behind, or level."""
    clone = tmp_path / "clone"
    git("clone", "-q", str(repository), str(clone), cwd=tmp_path)
    assert (await said(clone)).startswith("Git branch: main, level with origin/main\n")
    git("commit", "-q", "--allow-empty", "-m", "More", cwd=clone)
    assert (await said(clone)).startswith("Git branch: main, 1 ahead of origin/main\n")


@pytest.mark.usefixtures("git")
async def test_silent_outside_a_repository(tmp_path: Path) -> None:
    """An empty text is no context."""
    assembly = await assemble(tmp_path)
    assert render_context_snapshot(assembly) == ""
    assert render_context_snapshot(await assemble(tmp_path / "nowhere")) == ""


async def test_silent_without_git(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There need not be any."""
    monkeypatch.setenv("PATH", str(repository))
    assert await said(repository) == ""


async def test_lists_and_lines_are_cut_with_a_note(repository: Path, git: Git) -> None:
    """However many files have changed."""
    for number in range(30):
        (repository / f"new{number:02}").write_text("")
    git("commit", "-q", "--allow-empty", "-m", "x" * 500, cwd=repository)
    text = await said(repository, files=2, commits=1)
    assert "Changed files (30):\n  ?? new00\n  ?? new01\n  ... and 28 more\n" in text
    assert max(map(len, text.split("\n"))) <= 130
    assert text.endswith("x...")


async def test_other_peoples_text_is_data(repository: Path, git: Git) -> None:
    """Braces mean nothing, and control characters are shown as escapes."""
    (repository / "a\nb\x1b[31m.txt").write_text("")
    git("commit", "-q", "--allow-empty", "-m", "Use {{ x }} and {{y}}", cwd=repository)
    assembly = await assemble(repository)
    snapshot = render_context_snapshot(assembly)
    assert "Use {{ x }} and {{y}}" in snapshot
    assert "?? a\\nb\\x1b[31m.txt" in snapshot


async def test_a_repository_cannot_run_programs(repository: Path, git: Git) -> None:
    """Its own settings may name some: a file system monitor, for one."""
    program = repository.parent / "evil"
    program.write_text(f"#!/bin/sh\ntouch {repository.parent}/ran\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    git("config", "core.fsmonitor", str(program), cwd=repository)
    assert "Git branch" in await said(repository)
    assert not (repository.parent / "ran").exists()


async def test_a_hook_of_another_repository_does_not_mislead_it(
    repository: Path, git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There GIT_DIR points elsewhere."""
    other = tmp_path / "other"
    other.mkdir()
    git("init", "-q", "-b", "elsewhere", cwd=other)
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    assert (await said(repository)).startswith("Git branch: main")


async def test_what_takes_too_long_is_left_out_and_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process is ended; the rest of the assembly goes on."""
    slow = tmp_path / "bin"
    slow.mkdir()
    (slow / "git").write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid.$$\nexec sleep 60\n")
    (slow / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow}:{os.environ['PATH']}")
    assembly = await assemble(tmp_path, timeout=0.3)
    assert assembly.contexts == []
    (explained,) = [one for one in assembly.explain() if one.kind == "context"]
    assert (explained.name, explained.status) == ("git", "failed")
    pids = read_numbers(tmp_path)
    assert pids
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def test_endless_output_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A megabyte of status is enough."""
    script = tmp_path / "git"
    script.write_text("#!/bin/sh\nexec yes '? endless-name-of-a-file' | tr '\\n' '\\0'\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    text = await said(tmp_path, commits=0, files=1, timeout=20.0)
    assert "or more):\n  ?? endless-name-of-a-file\n  ... and " in text


@pytest.mark.parametrize("config", [{"timeout": 0}, {"commits": -1}, {"files": -1}])
async def test_impossible_settings_are_refused(config: dict[str, int]) -> None:
    """At load."""
    async with Context() as root:
        await root.plugin(SystemPrompt)
        with pytest.raises(ConfigError, match=next(iter(config))):
            await root.plugin(git_context, config)
