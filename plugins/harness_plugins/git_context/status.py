"""Reading what git says for programs: `status --porcelain=v2 --branch -z`, `worktree list`."""

from __future__ import annotations

import attrs

from .git import decoded

__all__ = ["File", "Status", "Worktree", "parse_status", "parse_worktrees"]

_FIELDS = {"1": 7, "2": 8, "u": 9}
"""How many blanks stand between the kind of a record and its path."""


@attrs.frozen
class File:
    """A changed file: git's two letters, its path, where it was before, what kind it is."""

    code: str
    path: str
    before: str | None = None
    is_submodule: bool = False
    in_conflict: bool = False


@attrs.frozen
class Status:
    """What a repository's status says. `ahead` and `behind` are None where git does not know."""

    branch: str | None
    commit: str | None
    upstream: str | None
    ahead: int | None
    behind: int | None
    files: tuple[File, ...]


@attrs.frozen
class Worktree:
    """One of the worktrees of a repository."""

    path: str
    branch: str | None
    commit: str | None
    is_bare: bool = False
    is_gone: bool = False


def parse_status(raw: bytes) -> Status:
    """Return the status that git's output describes; a cut last record is left out."""
    *records, _ = decoded(raw).split("\0")
    headers: dict[str, str] = {}
    files: list[File] = []
    queue = iter(records)
    for record in queue:
        kind, _, body = record.partition(" ")
        if kind == "#":
            key, _, value = body.partition(" ")
            headers[key] = value
        elif kind == "?":
            files.append(File("??", body))
        elif kind in _FIELDS:
            files.append(_file(kind, body, next(queue, None) if kind == "2" else None))
    ahead, behind = _distance(headers.get("branch.ab", ""))
    branch, commit = headers.get("branch.head"), headers.get("branch.oid")
    return Status(
        branch=None if branch == "(detached)" else branch,
        commit=None if commit == "(initial)" else commit,
        upstream=headers.get("branch.upstream"),
        ahead=ahead,
        behind=behind,
        files=tuple(files),
    )


def _file(kind: str, body: str, before: str | None) -> File:
    code, submodule, *_, path = body.split(" ", _FIELDS[kind])
    return File(code.replace(".", " "), path, before, submodule.startswith("S"), kind == "u")


def _distance(text: str) -> tuple[int | None, int | None]:
    """Return how many commits ahead and behind; `+? -?` where git was told not to count."""
    ahead, _, behind = text.partition(" ")
    return _number(ahead), _number(behind)


def _number(text: str) -> int | None:
    digits = text[1:]
    return int(digits) if digits.isdecimal() else None


def parse_worktrees(raw: bytes) -> list[Worktree]:
    """Return the worktrees that `git worktree list --porcelain -z` names, the main one first."""
    return [_worktree(block) for block in decoded(raw).split("\0\0") if block]


def _worktree(block: str) -> Worktree:
    facts: dict[str, str] = {}
    for line in block.split("\0"):
        key, _, value = line.partition(" ")
        facts[key] = value
    branch = facts.get("branch")
    return Worktree(
        path=facts.get("worktree", ""),
        branch=branch.removeprefix("refs/heads/") if branch else None,
        commit=facts.get("HEAD"),
        is_bare="bare" in facts,
        is_gone="prunable" in facts,
    )
