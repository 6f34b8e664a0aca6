"""Asking git about a directory: everything that the context `git` tells, as one record."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TypeVar, TypeVarTuple

import anyio
import anyio.to_thread
import attrs

from .git import Git, decoded
from .progress import under_way
from .status import Status, Worktree, parse_status, parse_worktrees

__all__ = ["Refused", "Repository", "read_repository"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_PLACE_LIMIT = 10_000
_LIST_LIMIT = 100_000
_STATUS_LIMIT = 1_000_000


@attrs.frozen
class Refused:
    """A repository that git does not read because it belongs to somebody else."""


@attrs.frozen
class Repository:
    """What there is to tell. `top` is the worktree's directory, the git directory of a bare one."""

    top: str
    is_bare: bool
    has_files: bool
    """Whether it is looked at from a worktree."""
    status: Status
    is_whole: bool
    """Whether all changed files are in the status."""
    commits: tuple[str, ...]
    worktrees: tuple[Worktree, ...]
    """The other ones."""
    under_way: tuple[str, ...]


@attrs.frozen
class _Place:
    """Where a directory is: in a worktree or not, and of which repository."""

    top: str | None
    is_bare: bool
    git_directory: str


class _Answers:
    """What the questions found out that are asked at the same time."""

    def __init__(self) -> None:
        self.status = Status(None, None, None, None, None, ())
        self.is_whole = True
        self.commits: tuple[str, ...] = ()
        self.worktrees: tuple[Worktree, ...] = ()
        self.under_way: tuple[str, ...] = ()


async def read_repository(
    directory: str, commits: int, worktrees: bool
) -> Repository | Refused | None:
    """Return what git knows about `directory`; None outside a repository and without git."""
    git = Git(directory)
    place = await _find(git, directory)
    if not isinstance(place, _Place):
        return place
    if not await git.turn_off_filters():
        return None
    top = place.git_directory if place.top is None else place.top
    answers = _Answers()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_read_status if place.top is not None else _read_head, git, answers)
        tasks.start_soon(_read_under_way, place.git_directory, answers)
        if commits:
            tasks.start_soon(_read_commits, git, commits, answers)
        if worktrees:
            tasks.start_soon(_read_worktrees, git, top, answers)
    return Repository(
        top,
        place.is_bare,
        place.top is not None,
        answers.status,
        answers.is_whole,
        answers.commits,
        answers.worktrees,
        answers.under_way,
    )


async def _find(git: Git, directory: str) -> _Place | Refused | None:
    query = ("--is-bare-repository", "--is-inside-work-tree", "--show-cdup", "--absolute-git-dir")
    outcome = await git.run("rev-parse", *query, limit=_PLACE_LIMIT)
    if outcome is None:
        return None
    if outcome.code != 0:
        is_others = b"dubious ownership" in outcome.errors or b"unsafe repo" in outcome.errors
        return Refused() if is_others else None
    is_bare, is_inside, rest = decoded(outcome.output).removesuffix("\n").split("\n", 2)
    if is_inside != "true":
        return _Place(None, is_bare == "true", rest)
    above, _, git_directory = rest.partition("\n")
    top = await _in_thread(_top, directory, above)
    return _Place(top, False, git_directory)


async def _read_status(git: Git, answers: _Answers) -> None:
    """Changes inside submodules are not looked for: git would run the programs they name."""
    query = ("--porcelain=v2", "--branch", "--ignore-submodules=dirty", "-z")
    raw = await git.ask("status", *query, limit=_STATUS_LIMIT)
    if raw is not None:
        answers.status = parse_status(raw)
        answers.is_whole = len(raw) < _STATUS_LIMIT


async def _read_head(git: Git, answers: _Answers) -> None:
    branch = await git.ask("symbolic-ref", "-q", "--short", "HEAD", limit=_PLACE_LIMIT)
    commit = await git.ask("rev-parse", "-q", "--verify", "HEAD", limit=_PLACE_LIMIT)
    answers.status = attrs.evolve(answers.status, branch=_line(branch), commit=_line(commit))


def _line(raw: bytes | None) -> str | None:
    return decoded(raw).removesuffix("\n") if raw is not None else None


async def _read_commits(git: Git, count: int, answers: _Answers) -> None:
    form: Sequence[str] = ("--no-show-signature", "--no-color", "--no-patch", "--encoding=UTF-8")
    query = ("log", f"-{count}", *form, "--abbrev=9", "-z", "--format=%h %s")
    raw = await git.ask(*query, limit=_LIST_LIMIT)
    answers.commits = tuple(line for line in decoded(raw or b"").split("\0") if line.strip())


async def _read_worktrees(git: Git, top: str, answers: _Answers) -> None:
    raw = await git.ask("worktree", "list", "--porcelain", "-z", limit=_LIST_LIMIT)
    if raw:
        answers.worktrees = await _in_thread(_others, parse_worktrees(raw), top)


def _top(directory: str, above: str) -> str:
    return os.path.realpath(os.path.join(directory, above))


def _others(worktrees: Sequence[Worktree], top: str) -> tuple[Worktree, ...]:
    here = os.path.realpath(top)
    return tuple(each for each in worktrees if os.path.realpath(each.path) != here)


async def _read_under_way(git_directory: str, answers: _Answers) -> None:
    answers.under_way = tuple(await _in_thread(under_way, git_directory))


async def _in_thread(fn: Callable[[*Ts], T], *arguments: *Ts) -> T:
    """Call what looks at files, and do not wait for it any longer than the assembly does."""
    return await anyio.to_thread.run_sync(fn, *arguments, abandon_on_cancel=True)
