"""What other plugins may use of `workspace`: where an assembly takes place, and programs there.

The plugins that describe an agent's surroundings share these few functions, so that all of them
mean the same directory, and run programs within the same bounds.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness_core import Context
from harness_core.prompt import AssembleContext

from .program import Outcome, run_program
from .text import one_line

__all__ = [
    "DirectoryFinder",
    "Outcome",
    "directory_finder",
    "manifest_path",
    "one_line",
    "run_program",
    "working_directory",
]

DirectoryFinder = Callable[[AssembleContext], str | None]


def manifest_path(ctx: Context, path: str) -> str:
    """Return a path from the settings as an absolute one: it starts at the manifest's directory.

    `~` is the home directory. Without a manifest, it starts at the working directory.
    """
    loader = ctx.get("loader")
    base = str(loader.directory) if loader is not None else ""
    return os.path.abspath(os.path.join(base, os.path.expanduser(path)))


def directory_finder(ctx: Context, configured: str | None) -> DirectoryFinder:
    """Return how to find the directory of an assembly: the configured one, else its own."""
    if configured is None:
        return working_directory
    fixed = manifest_path(ctx, configured)
    return lambda _: fixed


def working_directory(context: AssembleContext) -> str | None:
    """Return the directory that an assembly is for: its agent's `cwd`, else that of the process.

    None if the process's working directory has been removed.
    """
    cwd: Any = getattr(getattr(context, "agent", None), "cwd", None)
    try:
        return os.getcwd() if cwd is None else os.path.abspath(str(Path(cwd)))
    except OSError:
        return None
