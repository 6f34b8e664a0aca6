"""`instructions`: the AGENTS.md files from the project's root down to the working directory.

    - name: instructions
      config:
        directory: .       # default: the working directory; a relative path starts at the manifest
        root: ../..        # default: the git root above the directory, else the directory itself
        files: [AGENTS.md]
        budget: 32768      # bytes of all texts together
        order: 20

They become one section, the most specific file last, each in a frame that names its path. The
texts are data (`literal`): braces in them mean nothing, and a text cannot close its frame or open
another. Files are read at each assembly, so an edit shows in the next one.

Where the budget does not suffice, the most specific files come first: general ones are cut or
left out. A notice names each of them with the number of bytes that are missing. A file that
cannot be read, is not UTF-8, or is a link to a place outside the root is named with the reason.
"""

from __future__ import annotations

import os

import anyio.to_thread
import attrs

from harness_core import Context
from harness_core.errors import ConfigError
from harness_core.prompt import SystemPrompt

from .collect import collect, find_root
from .frame import render

__all__ = ["Config", "apply", "inject", "name"]

name = "instructions"
inject = ["system_prompt"]


def _check_files(_: object, __: object, files: list[str]) -> None:
    for file in files:
        if not file or os.path.basename(file) != file:
            raise ValueError(f"files: {file!r} is no file name: expected one without a path")


def _check_budget(_: object, __: object, budget: int) -> None:
    if budget < 0:
        raise ValueError(f"budget is {budget}: expected a number of bytes")


@attrs.frozen
class Config:
    """Where to look, for what, and how many bytes to take at most."""

    directory: str | None = None
    root: str | None = None
    files: list[str] = attrs.field(factory=lambda: ["AGENTS.md"], validator=_check_files)
    budget: int = attrs.field(default=32 * 1024, validator=_check_budget)
    order: float = 20


def apply(ctx: Context, config: Config) -> None:
    """Register the section `instructions`."""
    loader = ctx.get("loader")
    base = str(loader.directory) if loader is not None else ""
    if config.directory is not None:
        _places(base, config)  # what can be wrong is wrong now

    async def instructions() -> str:
        return await anyio.to_thread.run_sync(_read, base, config)

    ctx[SystemPrompt].section("instructions", instructions, order=config.order, literal=True)


def _read(base: str, config: Config) -> str:
    root, directory = _places(base, config)
    return render(collect(root, directory, config.files, config.budget))


def _places(base: str, config: Config) -> tuple[str, str]:
    """Return root and directory; raise ConfigError if one is not above the other."""
    directory = _absolute(base, config.directory) if config.directory else os.getcwd()
    root = _absolute(base, config.root) if config.root else find_root(directory)
    inside = os.path.commonpath([root, directory]) == root
    if not inside:
        problem = f"root: {root} is not above the directory {directory}"
        raise ConfigError([problem], plugin=name)
    return root, directory


def _absolute(base: str, path: str) -> str:
    return os.path.abspath(os.path.join(base, path))
