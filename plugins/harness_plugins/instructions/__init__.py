"""`instructions`: the AGENTS.md and CLAUDE.md files from the project's root down, as context.

    - name: instructions
      config:
        enabled: true      # false: nothing is registered
        kind: context      # or section: into the system prompt
        directory: .       # default: the agent's directory, else the working directory; a
                           # relative path starts at the manifest
        root: ../..        # default: the git root above the directory, else the directory itself
        files: [AGENTS.md, CLAUDE.md, AGENTS.local.md, CLAUDE.local.md]
        user: ~/.config/agents/AGENTS.md     # default: none; a file for all projects
        budget: 32768      # bytes of all texts together
        timeout: 3.0       # seconds
        order: 20

They become one text, the most specific file last: the user's, then directory by directory, in
each in the order of `files`. Each stands in a frame that names its path. The texts are data
(`literal`): braces in them mean nothing, and a text cannot close its frame or open another.
Files are read at each assembly, so every edit shows in the next one. Whatever takes longer than
`timeout` is left out of that assembly and reported.

Files with the same text are given once: the most specific is kept, in one directory the first,
and its frame names the others (`also`). Where the budget does not suffice, the most specific
files come first: general ones are cut or left out, and a notice names each of them with the
number of bytes that are missing.

A file that cannot be read, is not UTF-8, or is a link to a place outside the root or to nothing is
named with the reason. If it could be read before, it goes on to be given as it was then; only a
file that is gone, or has become a link or a pipe, is not.
"""

from __future__ import annotations

import os
import stat
from typing import Any, Literal

import anyio
import anyio.to_thread
import attrs

from harness_core import Context
from harness_core.errors import ConfigError
from harness_core.prompt import AssembleContext, SystemPrompt
from harness_plugins.workspace.api import directory_finder, manifest_path

from .collect import Places, candidates, collect, find_root
from .frame import render
from .reading import LIMIT, Kept, Memory

__all__ = ["Config", "apply", "inject", "name"]

name = "instructions"
inject = ["system_prompt"]

_FILES = ("AGENTS.md", "CLAUDE.md", "AGENTS.local.md", "CLAUDE.local.md")
_THREADS = 4
"""Readings at a time. One that hangs, on a dead file system, costs no other plugin a thread."""


def _check_files(_: object, __: object, files: list[str]) -> None:
    for file in files:
        if not file or os.path.basename(file) != file:
            raise ValueError(f"files: {file!r} is no file name: expected one without a path")


def _check_number(_: object, attribute: attrs.Attribute[Any], value: float) -> None:
    if value < 0 or (attribute.name == "timeout" and value == 0):
        raise ValueError(f"{attribute.name} is {value}: expected a number above 0")


@attrs.frozen
class Config:
    """Where to look, for what, and how many bytes to take at most; `timeout` in seconds."""

    enabled: bool = True
    kind: Literal["context", "section"] = "context"
    directory: str | None = None
    root: str | None = None
    files: list[str] = attrs.field(factory=lambda: list(_FILES), validator=_check_files)
    user: str | None = None
    budget: int = attrs.field(default=32 * 1024, validator=_check_number)
    timeout: float = attrs.field(default=3.0, validator=_check_number)
    order: float = 20


def apply(ctx: Context, config: Config) -> None:
    """Register the context, or section, `instructions`."""
    if not config.enabled:
        return
    finder = _Finder(ctx, config)
    finder.check()
    _watch(ctx, finder)
    texts: Kept = {}
    memory = Memory(ctx.carry("texts", texts))
    threads = anyio.CapacityLimiter(_THREADS)

    async def instructions(context: AssembleContext) -> str:
        def read() -> str:
            places = finder.places(context)
            return render(collect(places, config.budget, memory)) if places is not None else ""

        return await anyio.to_thread.run_sync(read, abandon_on_cancel=True, limiter=threads)

    contribute = (
        ctx[SystemPrompt].context if config.kind == "context" else ctx[SystemPrompt].section
    )
    contribute(
        "instructions",
        instructions,
        order=config.order,
        literal=True,
        optional=True,
        timeout=config.timeout,
    )


class _Finder:
    """Where to look, by the settings and the assembly. Blocking."""

    def __init__(self, ctx: Context, config: Config) -> None:
        self.find = directory_finder(ctx, config.directory)
        self.fixed = config.directory is not None
        self.root = os.path.realpath(manifest_path(ctx, config.root)) if config.root else None
        self.names = tuple(dict.fromkeys(config.files))
        self.user = (config.user, manifest_path(ctx, config.user)) if config.user else None

    def check(self) -> None:
        """Raise ConfigError if the configured root is not above the configured directory."""
        directory = self.find(AssembleContext()) if self.fixed else None
        if self.root is not None and directory is not None:
            directory = os.path.realpath(directory)
            if not _is_above(self.root, directory):
                problem = f"root: {self.root} is not above the directory {directory}"
                raise ConfigError([problem], plugin=name)

    def places(self, context: AssembleContext) -> Places | None:
        """Return where to look in this assembly; None if its directory is gone.

        A configured root says nothing about an agent that works elsewhere.
        """
        found = self.find(context)
        if found is None:
            return None
        directory = os.path.realpath(found)
        root = self.root
        if root is None or not _is_above(root, directory):
            root = find_root(directory)
        return Places(root, directory, self.names, self.user)


def _is_above(root: str, directory: str) -> bool:
    return os.path.commonpath([root, directory]) == root


def _watch(ctx: Context, finder: _Finder) -> None:
    """Let `harness dev` notice the files that count now, also those that are yet to be made.

    No assembly depends on it: files are read at each.
    """
    places = finder.places(AssembleContext())
    for path in candidates(places) if places is not None else ():
        try:
            status = os.stat(path)
            if not stat.S_ISREG(status.st_mode) or status.st_size > LIMIT:
                continue
        except FileNotFoundError:
            pass
        except OSError:
            continue
        try:
            ctx.watch_file(path)
        except (OSError, UnicodeDecodeError):
            pass  # it is watched all the same
