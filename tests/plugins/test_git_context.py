"""`git_context`: what the real git says; silence where it says nothing."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import anyio
import attrs
import pytest
from harness_plugins import git_context
from harness_plugins.git_context.wording import shown
from hypothesis import given
from hypothesis import strategies as st

from harness_core import Context
from harness_core.errors import ConfigError
from harness_core.prompt import PromptAssembly, SystemPrompt, render_context_snapshot
from harness_core.testing import assert_no_residue, check_plugin

from .conftest import Git

pytestmark = pytest.mark.asyncio


@attrs.frozen
class Program:
    """A program, and the file that is there once it has run."""

    path: Path
    mark: Path


def new_repository(git: Git, path: Path) -> Path:
    path.mkdir()
    git("init", "-q", "-b", "trunk", cwd=path)
    return path


def change(repository: Path, git: Git, text: str) -> None:
    (repository / "file1.txt").write_text(f"{text}\n")
    git("commit", "-q", "-a", "-m", f"Write {text}", cwd=repository)


def diverge(repository: Path, git: Git) -> None:
    """Make `main`, which is checked out, and `topic`, two commits each, which conflict."""
    git("checkout", "-q", "-b", "topic", cwd=repository)
    change(repository, git, "theirs")
    change(repository, git, "theirs, too")
    git("checkout", "-q", "main", cwd=repository)
    change(repository, git, "ours")
    change(repository, git, "ours, too")


def is_running(pid: int) -> bool:
    """Return whether there is such a process that has not ended; nobody may have asked yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def headline(directory: Path) -> str:
    return (await said(directory, commits=0)).split("\n")[0]


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
        "  R  renamed.txt (was file2.txt)",
        "  ?? new file.txt",
    ]
    assert lines[5] == "Last commits:"
    assert [line.split(" ", 3)[3] for line in lines[6:]] == ["Commit 2", "Commit 1"]


async def test_a_clean_repository_says_so(repository: Path) -> None:
    """And how many commits to show is configured."""
    lines = (await said(repository, commits=1)).split("\n")
    assert lines[:3] == ["Git branch: main", "No changed files.", "Last commits:"]
    assert len(lines) == 4
    assert len(lines[3].split()[0]) == 9
    assert await said(repository, commits=0) == "Git branch: main\nNo changed files."


async def test_no_commits_yet_and_no_branch(tmp_path: Path, git: Git, repository: Path) -> None:
    """Both happen."""
    empty = new_repository(git, tmp_path / "empty")
    assert await said(empty) == "Git branch: trunk, no commits yet\nNo changed files."
    git("checkout", "-q", "--detach", cwd=repository)
    commit = git("rev-parse", "--short=9", "HEAD", cwd=repository).strip()
    first, *_ = (await said(repository)).split("\n")
    assert first == f"Git: no branch checked out, detached at {commit}"


async def test_the_distance_to_the_upstream(tmp_path: Path, git: Git, repository: Path) -> None:
    """Level, ahead, behind, both, or the upstream is gone; whatever git is told not to count."""
    clone = tmp_path / "clone"
    git("clone", "-q", str(repository), str(clone), cwd=tmp_path)
    assert await headline(clone) == "Git branch: main, level with origin/main"
    git("commit", "-q", "--allow-empty", "-m", "More", cwd=clone)
    assert await headline(clone) == "Git branch: main, 1 ahead of origin/main"
    git("commit", "-q", "--allow-empty", "-m", "Theirs", cwd=repository)
    git("fetch", "-q", cwd=clone)
    assert await headline(clone) == "Git branch: main, 1 ahead of and 1 behind origin/main"
    git("reset", "-q", "--hard", "HEAD^", cwd=clone)
    assert await headline(clone) == "Git branch: main, 1 behind origin/main"
    git("update-ref", "-d", "refs/remotes/origin/main", cwd=clone)
    assert await headline(clone) == "Git branch: main, upstream origin/main is gone"


async def test_a_merge_with_conflicts(repository: Path, git: Git) -> None:
    """It is said to be in progress, and how many files are in conflict."""
    diverge(repository, git)
    with pytest.raises(subprocess.CalledProcessError):
        git("merge", "topic", cwd=repository)
    lines = (await said(repository)).split("\n")
    assert lines[:4] == [
        "Git branch: main",
        "In progress: merge",
        "Changed files (1, 1 in conflict):",
        "  UU file1.txt",
    ]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("rebase main topic", "rebase of topic, step 1 of 2"),
        ("rebase --apply main topic", "rebase of topic, step 1 of 2"),
        ("cherry-pick topic", "cherry-pick"),
        ("revert --no-edit HEAD^", "revert"),
        ("bisect start", "bisect"),
        ("am topic.patch", "git am, step 1 of 1"),
    ],
)
async def test_what_is_in_progress(repository: Path, git: Git, command: str, expected: str) -> None:
    """Until it is over."""
    diverge(repository, git)
    patch = git("format-patch", "-1", "--stdout", "topic", cwd=repository)
    (repository.parent / "topic.patch").write_text(patch)
    command = command.replace("topic.patch", str(repository.parent / "topic.patch"))
    try:
        git(*command.split(), cwd=repository)
    except subprocess.CalledProcessError:
        pass  # a conflict: that is how these stop halfway
    assert f"\nIn progress: {expected}\n" in await said(repository)
    verb = command.split()[0]
    git(verb, "reset" if verb == "bisect" else "--abort", cwd=repository)
    assert "In progress" not in await said(repository)


async def test_what_is_in_progress_is_not_read_through_links(repository: Path) -> None:
    """A repository cannot show other files this way, and cannot make the reading wait."""
    (repository.parent / "secret").write_text("refs/heads/secret\n")
    place = repository / ".git" / "rebase-merge"
    place.mkdir()
    (place / "head-name").symlink_to(repository.parent / "secret")
    os.mkfifo(place / "msgnum")
    (place / "end").write_text("not a number\n")
    assert "\nIn progress: rebase\n" in await said(repository)


async def test_other_worktrees(repository: Path, git: Git) -> None:
    """By their way from here, with what they have checked out, as many as configured."""
    git("worktree", "add", "-q", "-b", "topic", "../side", cwd=repository)
    git("worktree", "add", "-q", "--detach", "../gone", "main", cwd=repository)
    commit = git("rev-parse", "--short=9", "HEAD", cwd=repository).strip()
    shutil.rmtree(repository.parent / "gone")
    lines = [
        "Other worktrees (2):",
        f"  ../gone detached at {commit} (its directory is gone)",
        "  ../side on topic",
    ]
    text = await said(repository, commits=0)
    assert sorted(text.split("\n")[2:]) == sorted(lines)
    text = await said(repository.parent / "side", commits=0, worktrees=1)
    assert text == (
        "Git branch: topic\nNo changed files.\n"
        "Other worktrees (2):\n  ../repository on main\n  ... and 1 more"
    )
    assert "worktrees" not in await said(repository, worktrees=0)


async def test_in_a_worktree_it_is_that_ones_state(repository: Path, git: Git) -> None:
    """What is in progress elsewhere is not in progress here."""
    diverge(repository, git)
    git("worktree", "add", "-q", "--detach", "../side", cwd=repository)
    side = repository.parent / "side"
    with pytest.raises(subprocess.CalledProcessError):
        git("merge", "topic", cwd=side)
    assert "In progress: merge" in await said(side)
    assert "In progress" not in await said(repository)


async def test_a_bare_repository(repository: Path, git: Git) -> None:
    """It has a branch and commits, and no files."""
    bare = repository.parent / "bare.git"
    git("clone", "-q", "--bare", str(repository), str(bare), cwd=repository)
    lines = (await said(bare, commits=1)).split("\n")
    assert lines[:2] == ["Git branch: main (bare repository)", "Last commits:"]
    assert len(lines) == 3
    git("worktree", "add", "-q", "../side", "-b", "topic", cwd=bare)
    assert "Other worktrees (1):\n  ../side on topic" in await said(bare)
    assert "Other worktrees (1):\n  ../bare.git (bare)" in await said(bare.parent / "side")
    empty = repository.parent / "empty.git"
    git("init", "-q", "--bare", "-b", "trunk", str(empty), cwd=repository)
    assert await said(empty) == "Git branch: trunk, no commits yet (bare repository)"


async def test_inside_the_git_directory_there_are_no_files_to_speak_of(repository: Path) -> None:
    """It is no worktree, and no bare repository either."""
    text = await said(repository / ".git", commits=1, worktrees=0)
    assert text.startswith("Git branch: main\nLast commits:\n")


async def test_a_submodule(repository: Path, git: Git) -> None:
    """A new commit in it is a change; what is changed in its files is not looked for."""
    library = new_repository(git, repository.parent / "library")
    git("commit", "-q", "--allow-empty", "-m", "First", cwd=library)
    allow = ("-c", "protocol.file.allow=always")
    git(*allow, "submodule", "--quiet", "add", str(library), "lib", cwd=repository)
    git("commit", "-q", "-m", "Add lib", cwd=repository)
    (repository / "lib" / "new.txt").write_text("")
    assert "No changed files." in await said(repository)
    assert "?? new.txt" in await said(repository / "lib")
    git("commit", "-q", "--allow-empty", "-m", "Second", cwd=repository / "lib")
    assert "\n   M lib (submodule)\n" in await said(repository)


async def test_a_repository_of_somebody_else(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git refuses, and this is said, because the agent's own git will refuse too."""
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    real = shutil.which("git")
    program.write_text(f'#!/bin/sh\nGIT_TEST_ASSUME_DIFFERENT_OWNER=1 exec {real} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    assert await said(repository) == (
        "Git refuses to read the repository here: it belongs to another user "
        "(see git's setting safe.directory)."
    )


async def test_a_damaged_repository_is_no_error(repository: Path) -> None:
    """It says what it can."""
    (repository / ".git" / "index").write_bytes(b"nonsense")
    text = await said(repository, worktrees=0)
    assert text == "Git: a repository that git cannot read the state of"


async def test_the_text_is_the_same_while_nothing_changes(repository: Path, git: Git) -> None:
    """Byte by byte, also when files are touched, refs are packed, and time goes by."""
    (repository / "file1.txt").write_text("changed\n")
    git("worktree", "add", "-q", "-b", "topic", "../side", cwd=repository)
    before = await said(repository)
    (repository / "file2.txt").touch()
    git("gc", "-q", cwd=repository)
    assert await said(repository) == before


async def test_it_is_about_the_agents_directory(repository: Path, git: Git, tmp_path: Path) -> None:
    """If the assembly is for an agent that has one, and the settings name none."""
    other = new_repository(git, tmp_path / "other")

    @attrs.frozen
    class Agent:
        cwd: Path | None

    async with Context() as root:
        await root.plugin(SystemPrompt)
        fiber = await root.plugin(git_context, {"commits": 0})
        prompt = root.system_prompt
        with contextlib.chdir(repository):
            for agent, branch in ((Agent(other), "trunk"), (Agent(None), "main"), (None, "main")):
                (context,) = (await prompt.assemble(agent=agent)).contexts
                assert context.text.startswith(f"Git branch: {branch}")
        await fiber.update({"directory": str(repository)})
        (context,) = (await prompt.assemble(agent=Agent(other))).contexts
        assert context.text.startswith("Git branch: main")


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
    """Braces mean nothing; control characters and bytes that are no text are shown as escapes."""
    (repository / "a\nb\x1b[31m.txt").write_text("")
    (repository / "back\\nslash").write_text("")
    (repository / "turned\u202eround").write_text("")
    with open(os.fsencode(repository) + b"/byte\xff", "w"):  # noqa: ASYNC230
        pass
    git("commit", "-q", "--allow-empty", "-m", "Use {{ x }} and {{y}}", cwd=repository)
    git("checkout", "-q", "-b", "\u2028{{branch}}", cwd=repository)
    assembly = await assemble(repository)
    snapshot = render_context_snapshot(assembly)
    assert "Use {{ x }} and {{y}}" in snapshot
    assert "Git branch: \\u2028{{branch}}\n" in snapshot
    lines = snapshot.splitlines()
    for name in ("a\\nb\\x1b[31m.txt", "back\\\\nslash", "byte\\xff", "turned\\u202eround"):
        assert f"  ?? {name}" in lines


@given(st.text())
async def test_a_name_is_one_line_whatever_it_is(text: str) -> None:
    """And never more than a hundred and twenty characters."""
    name = shown(text.encode("utf-8", "replace").decode())
    assert len(name.splitlines()) <= 1
    assert name.isprintable()
    assert len(name) <= 120


@pytest.fixture
def program(repository: Path) -> Program:
    """A program that leaves a mark, and whether it has run."""
    mark = repository.parent / "ran"
    path = repository.parent / "evil"
    path.write_text(f'#!/bin/sh\necho "$0 $@" >> {mark}\n')
    path.chmod(0o755)
    return Program(path, mark)


TRAPS = [
    "core.alternateRefsCommand",
    "core.askPass",
    "core.editor",
    "core.fsmonitor",
    "core.gitProxy",
    "core.pager",
    "core.sshCommand",
    "credential.helper",
    "diff.bad.command",
    "diff.bad.textconv",
    "diff.external",
    "filter.a=b.clean",
    "filter.bad.clean",
    "filter.bad.smudge",
    "gpg.program",
    "interactive.diffFilter",
    "pager.log",
    "pager.status",
    "remote.origin.uploadpack",
]


def set_traps(repository: Path, git: Git, program: Program) -> None:
    """Name the program wherever a repository's own settings may name one."""
    for key in TRAPS:
        git("config", key, str(program.path), cwd=repository)
    git("config", "filter.bad.required", "true", cwd=repository)
    git("config", "log.showSignature", "true", cwd=repository)
    git("config", "status.submoduleSummary", "true", cwd=repository)
    (repository / ".gitattributes").write_text("*1.txt filter=bad diff=bad\n*2.txt filter=a=b\n")
    for hook in (
        "post-index-change",
        "post-checkout",
        "fsmonitor-watchman",
        "reference-transaction",
    ):
        place = repository / ".git" / "hooks" / hook
        place.unlink(missing_ok=True)
        place.symlink_to(program.path)


def sign(repository: Path, git: Git) -> None:
    """Add a commit that claims to be signed, which a program would have to verify."""
    commit = git("cat-file", "commit", "HEAD", cwd=repository)
    head, _, message = commit.partition("\n\n")
    signature = "-----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----"
    file = repository.parent / "commit"
    file.write_text(f"{head}\ngpgsig {signature}\n\n{message}")
    signed = git("hash-object", "-t", "commit", "-w", str(file), cwd=repository).strip()
    git("update-ref", "refs/heads/main", signed, cwd=repository)


async def test_nothing_is_written(repository: Path) -> None:
    """`git status` would write the index anew where a file has only been touched."""
    index = repository / ".git" / "index"
    os.utime(repository / "file1.txt", (0, 0))
    before = index.read_bytes()
    assert "No changed files." in await said(repository)
    assert index.read_bytes() == before


async def test_a_repository_cannot_run_programs(
    repository: Path, git: Git, program: Program
) -> None:
    """However its settings and attributes name them; plain git would run some."""
    sign(repository, git)
    set_traps(repository, git, program)
    for name in ("file1.txt", "file2.txt"):
        (repository / name).write_text("x\n")  # of the same size: contents have to be compared
    text = await said(repository)
    assert "Git branch: main" in text
    assert "file1.txt" in text
    assert not program.mark.exists(), program.mark.read_text()
    for command in ("status", "log"):
        program.mark.unlink(missing_ok=True)
        with contextlib.suppress(subprocess.CalledProcessError):
            git(command, cwd=repository)
        assert "evil" in program.mark.read_text(), command


async def test_a_submodule_cannot_either(repository: Path, git: Git, program: Program) -> None:
    """It has settings of its own."""
    library = new_repository(git, repository.parent / "library")
    (library / "file1.txt").write_text("x\n")
    git("add", ".", cwd=library)
    git("commit", "-q", "-m", "First", cwd=library)
    allow = ("-c", "protocol.file.allow=always")
    git(*allow, "submodule", "--quiet", "add", str(library), "lib", cwd=repository)
    git("config", "filter.bad.clean", str(program.path), cwd=repository / "lib")
    (repository / "lib" / ".gitattributes").write_text("*1.txt filter=bad\n")
    (repository / "lib" / "file1.txt").write_text("y\n")
    assert "A  lib (submodule)" in await said(repository)
    assert not program.mark.exists(), program.mark.read_text()
    assert "file1.txt" in await said(repository / "lib")
    assert not program.mark.exists(), program.mark.read_text()
    git("status", cwd=repository)
    assert program.mark.exists()


async def test_nothing_is_fetched_for_a_partial_clone(
    repository: Path, git: Git, program: Program
) -> None:
    """What is missing would be fetched by a program that the settings name."""
    git("config", "core.repositoryFormatVersion", "1", cwd=repository)
    git("config", "extensions.partialClone", "origin", cwd=repository)
    git("config", "remote.origin.promisor", "true", cwd=repository)
    git("config", "remote.origin.url", "ssh://nobody@localhost/nothing", cwd=repository)
    git("config", "core.sshCommand", str(program.path), cwd=repository)
    tree = git("rev-parse", "HEAD^{tree}", cwd=repository).strip()
    (repository / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    (repository / "file1.txt").write_text("other\n")
    assert "Git" in await said(repository)
    assert not program.mark.exists(), program.mark.read_text()
    with pytest.raises(subprocess.CalledProcessError):
        git("status", cwd=repository)
    assert program.mark.exists()


async def test_the_users_own_filters_are_not_turned_off(
    repository: Path, git: Git, tmp_path: Path
) -> None:
    """Without them, what they have changed on the way into the repository would seem changed."""
    git("config", "--global", "filter.upper.clean", "tr a-z A-Z", cwd=repository)
    (repository / ".gitattributes").write_text("* filter=upper\n")
    (repository / "word.txt").write_text("word\n")
    git("add", ".", cwd=repository)
    git("commit", "-q", "-m", "Words", cwd=repository)
    os.utime(repository / "word.txt", (0, 0))
    assert "No changed files." in await said(repository)


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


async def test_endless_output_is_cut(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A megabyte of status is enough."""
    script = tmp_path / "bin" / "git"
    script.parent.mkdir()
    endless = r"(echo '# branch.head main'; exec yes '? endless-name') | tr '\n' '\0'"
    other = f'exec {shutil.which("git")} "$@"'
    case = f'case "$*" in *porcelain=v2*) {endless};; *) {other};; esac'
    script.write_text(f"#!/bin/sh\n{case}\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}:{os.environ['PATH']}")
    text = await said(repository, commits=0, files=1, timeout=20.0)
    assert "or more):\n  ?? endless-name\n  ... and " in text


async def test_children_of_git_end_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is left behind that git has started, when time is up."""
    slow = tmp_path / "bin"
    slow.mkdir()
    script = f"#!/bin/sh\nsleep 60 &\necho $! > {tmp_path}/pid.$$\nwait\n"
    (slow / "git").write_text(script)
    (slow / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow}:{os.environ['PATH']}")
    assert (await assemble(tmp_path, timeout=0.5)).contexts == []
    (pid,) = read_numbers(tmp_path)
    with anyio.fail_after(10):
        while is_running(pid):  # noqa: ASYNC110 (no event tells of a stranger's end)
            await anyio.sleep(0.01)


@pytest.mark.parametrize(
    "config", [{"timeout": 0}, {"commits": -1}, {"files": -1}, {"worktrees": -1}]
)
async def test_impossible_settings_are_refused(config: dict[str, int]) -> None:
    """At load."""
    async with Context() as root:
        await root.plugin(SystemPrompt)
        with pytest.raises(ConfigError, match=next(iter(config))):
            await root.plugin(git_context, config)


async def test_it_is_off_when_it_is_off_and_leaves_nothing(repository: Path) -> None:
    """`enabled: false` registers nothing; its life leaves nothing."""
    assert (await assemble(repository, enabled=False)).contexts == []
    async with Context() as root:
        await root.plugin(SystemPrompt)
        async with assert_no_residue(root):
            fiber = await root.plugin(git_context, {"directory": str(repository)})
            await root.system_prompt.assemble()
            await fiber.dispose()
    await check_plugin(git_context, {"directory": str(repository)}, raises=True)
