"""`git_context`: branch, changed files, last commits and what is under way, as runtime context.

    - name: git_context
      config:
        enabled: true     # false: nothing is registered
        directory: .      # default: the agent's directory, else the working directory; a
                          # relative path starts at the manifest
        commits: 5        # how many are listed; 0: none is looked for
        files: 20
        worktrees: 5      # 0: none is looked for
        timeout: 3.0      # seconds
        order: 50

It asks the real `git` at each assembly. It is silent outside a repository and where git is
missing; where git refuses because the repository belongs to somebody else, it says so. Whatever
takes longer than `timeout` is left out of that assembly and reported. Nothing that a repository's
settings may name is run: no hook, no monitor, no filter, no pager, no fetch. Names and subjects
are other people's text: the context is data (`literal`), control characters and bytes that are not
UTF-8 are shown as escapes, and long lists and lines are cut with a note. As long as nothing
changes in the repository, the text is the same, byte by byte.
"""

from __future__ import annotations

from typing import Any

import attrs

from harness_core import Context
from harness_core.prompt import AssembleContext, SystemPrompt
from harness_plugins.workspace.api import directory_finder

from .repository import read_repository
from .wording import describe

__all__ = ["Config", "apply", "inject", "name"]

name = "git_context"
inject = ["system_prompt"]


def _positive(_: object, attribute: attrs.Attribute[Any], value: float) -> None:
    if value < 0 or (attribute.name == "timeout" and value == 0):
        raise ValueError(f"{attribute.name} is {value}: expected a number above 0")


@attrs.frozen
class Config:
    """How much to show; `timeout` in seconds; no `directory` means that of the assembly."""

    enabled: bool = True
    directory: str | None = None
    commits: int = attrs.field(default=5, validator=_positive)
    files: int = attrs.field(default=20, validator=_positive)
    worktrees: int = attrs.field(default=5, validator=_positive)
    timeout: float = attrs.field(default=3.0, validator=_positive)
    order: float = 50


def apply(ctx: Context, config: Config) -> None:
    """Register the context `git`."""
    if not config.enabled:
        return
    find = directory_finder(ctx, config.directory)

    async def git(context: AssembleContext) -> str:
        directory = find(context)
        if directory is None:
            return ""
        found = await read_repository(directory, config.commits, bool(config.worktrees))
        return describe(found, config.files, config.worktrees) if found is not None else ""

    ctx[SystemPrompt].context(
        "git", git, order=config.order, literal=True, optional=True, timeout=config.timeout
    )
