"""How the context `git` says what is known about a repository. Deterministic, line by line."""

from __future__ import annotations

import os

from harness_plugins.workspace.api import one_line

from .repository import Refused, Repository
from .status import File, Status, Worktree

__all__ = ["describe", "shown"]

_REFUSED = (
    "Git refuses to read the repository here: it belongs to another user "
    "(see git's setting safe.directory)."
)
_ABBREVIATED = 9


def describe(found: Repository | Refused, files: int, worktrees: int) -> str:
    """Return the text; at most `files` files and `worktrees` worktrees are listed."""
    if isinstance(found, Refused):
        return _REFUSED
    lines = [_headline(found)]
    if found.under_way:
        lines.append(f"In progress: {shown('; '.join(found.under_way))}")
    if found.status.branch is None and found.status.commit is None:
        return "\n".join(lines)  # a repository that git itself cannot read
    if found.has_files:
        lines += _files(found, files)
    if found.commits:
        lines += ["Last commits:", *(f"  {shown(commit)}" for commit in found.commits)]
    return "\n".join(lines + _worktrees(found, worktrees))


def shown(text: str) -> str:
    """Return text of git's on one line; bytes that are not UTF-8 are shown as escapes."""
    raw = text.encode("utf-8", "surrogateescape")
    return one_line(raw.decode("utf-8", "backslashreplace"))


def _path(text: str) -> str:
    """Return a path such that what looks like an escape is one."""
    return shown(text.replace("\\", "\\\\"))


def _headline(found: Repository) -> str:
    status = found.status
    if status.branch is not None:
        line = f"Git branch: {shown(status.branch)}"
        line += ", no commits yet" if status.commit is None else _upstream(status)
    elif status.commit is not None:
        line = f"Git: no branch checked out, detached at {status.commit[:_ABBREVIATED]}"
    else:
        line = "Git: a repository that git cannot read the state of"
    return f"{line} (bare repository)" if found.is_bare else line


def _upstream(status: Status) -> str:
    if status.upstream is None:
        return ""
    upstream = shown(status.upstream)
    if status.ahead is None or status.behind is None:
        return f", upstream {upstream} is gone"
    parts = [
        f"{count} {word}"
        for count, word in ((status.ahead, "ahead of"), (status.behind, "behind"))
        if count
    ]
    return f", {' and '.join(parts) or 'level with'} {upstream}"


def _files(found: Repository, most: int) -> list[str]:
    files = found.status.files
    if not files:
        return ["No changed files."]
    count = f"{len(files)}{'' if found.is_whole else ' or more'}"
    conflicts = sum(file.in_conflict for file in files)
    if conflicts:
        count += f", {conflicts} in conflict"
    lines = [f"Changed files ({count}):", *(f"  {_file(file)}" for file in files[:most])]
    return lines + _rest(len(files) - most)


def _file(file: File) -> str:
    line = f"{file.code} {_path(file.path)}"
    if file.before is not None:
        line += f" (was {_path(file.before)})"
    return f"{line} (submodule)" if file.is_submodule else line


def _worktrees(found: Repository, most: int) -> list[str]:
    if not found.worktrees:
        return []
    listed = [f"  {_worktree(each, found.top)}" for each in found.worktrees[:most]]
    rest = _rest(len(found.worktrees) - most)
    return [f"Other worktrees ({len(found.worktrees)}):", *listed, *rest]


def _worktree(each: Worktree, top: str) -> str:
    line = _path(os.path.relpath(each.path, os.path.realpath(top)))
    if each.is_bare:
        return f"{line} (bare)"
    if each.branch is not None:
        line += f" on {shown(each.branch)}"
    elif each.commit is not None:
        line += f" detached at {each.commit[:_ABBREVIATED]}"
    return f"{line} (its directory is gone)" if each.is_gone else line


def _rest(count: int) -> list[str]:
    return [f"  ... and {count} more"] if count > 0 else []
