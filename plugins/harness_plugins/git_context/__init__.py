"""`git_context`: branch, changed files and last commits, as runtime context.

    - name: git_context
      config:
        directory: .      # default: the working directory; a relative path starts at the manifest
        commits: 5
        files: 20
        timeout: 3.0      # seconds
        order: 50

It asks the real `git` at each assembly, and adds nothing outside a repository, where git is
missing, or where git refuses (a repository of somebody else). Whatever takes longer than
`timeout` is left out of that assembly and reported. Names and subjects are other people's text:
the context is data (`literal`), control characters in it are shown as escapes, and long lists and
lines are cut with a note.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import attrs

from harness_core import Context
from harness_core.prompt import SystemPrompt

from .git import run_git
from .status import Status, parse_status, shown

__all__ = ["Config", "apply", "inject", "name"]

name = "git_context"
inject = ["system_prompt"]

_STATUS_LIMIT = 1_000_000
_LOG_LIMIT = 100_000


def _positive(_: object, attribute: attrs.Attribute[Any], value: float) -> None:
    if value < 0 or (attribute.name == "timeout" and value == 0):
        raise ValueError(f"{attribute.name} is {value}: expected a number above 0")


@attrs.frozen
class Config:
    """How much to show; `timeout` in seconds; no `directory` means the working directory."""

    directory: str | None = None
    commits: int = attrs.field(default=5, validator=_positive)
    files: int = attrs.field(default=20, validator=_positive)
    timeout: float = attrs.field(default=3.0, validator=_positive)
    order: float = 50


def apply(ctx: Context, config: Config) -> None:
    """Register the context `git`."""
    loader = ctx.get("loader")
    base = str(loader.directory) if loader is not None else ""

    async def git() -> str:
        directory = os.path.join(base, config.directory) if config.directory else os.getcwd()
        return await describe(directory, config)

    ctx[SystemPrompt].context(
        "git", git, order=config.order, literal=True, optional=True, timeout=config.timeout
    )


async def describe(directory: str, config: Config) -> str:
    """Return what is to be said about the repository that `directory` is in, or nothing."""
    found: dict[str, bytes | None] = {}

    def ask(key: str, *arguments: str, limit: int) -> Callable[[], Coroutine[Any, Any, None]]:
        async def run() -> None:
            found[key] = await run_git(directory, *arguments, limit=limit)

        return run

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(
            ask("status", "status", "--porcelain=v2", "--branch", "-z", limit=_STATUS_LIMIT)
        )
        if config.commits:
            log = ("log", f"-{config.commits}", "--no-show-signature", "--no-color", "-z")
            tasks.start_soon(ask("log", *log, "--format=%h %s", limit=_LOG_LIMIT))
    raw = found.get("status")
    if raw is None:
        return ""
    status = parse_status(raw)
    is_whole = len(raw) < _STATUS_LIMIT
    lines = [_headline(status), *_files(status, config.files, is_whole)]
    if config.commits:
        lines += _commits(found.get("log") or b"")
    return "\n".join(lines)


def _headline(status: Status) -> str:
    line = f"Git branch: {shown(status.branch)}" if status.branch else "Git: no branch checked out"
    if status.upstream:
        parts = [
            f"{count} {word}"
            for count, word in ((status.ahead, "ahead of"), (status.behind, "behind"))
            if count
        ]
        relation = " and ".join(parts) or "level with"
        line += f", {relation} {shown(status.upstream)}"
    return line


def _files(status: Status, most: int, is_whole: bool) -> list[str]:
    if not status.files:
        return ["No changed files."]
    more = len(status.files) - most
    count = f"{len(status.files)}{'' if is_whole else ' or more'}"
    lines = [f"Changed files ({count}):"]
    lines += [f"  {code} {shown(path)}" for code, path in status.files[:most]]
    if more > 0:
        lines.append(f"  ... and {more} more")
    return lines


def _commits(raw: bytes) -> list[str]:
    lines = raw.decode("utf-8", "replace").split("\0")
    commits = [f"  {shown(line)}" for line in lines if line.strip()]
    return ["Last commits:", *commits] if commits else ["No commits yet."]
