"""The files of a harness of many plugins, and the saves that are made in them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import attrs

__all__ = ["Edit", "Fleet"]

PLUGIN = '''\
"""A plugin of the fleet."""
from __future__ import annotations
import attrs
from .shared import SHARED
{more}
VERSION = "{version:06d}"
name = "p{number:03d}"
inject = ["system_prompt"]

@attrs.frozen
class Config:
    order: int
    style: str = "plain"

def heard(text: str) -> None:
    """Listen."""

def apply(ctx, config: Config) -> None:
    text = f"Rule {{name}} in {{config.style}} style, own {{VERSION}}, shared {{SHARED}}{leaf}."
    ctx.system_prompt.section(name, text, order=config.order)
    ctx.system_prompt.variable(f"version_{{name}}", VERSION)
    ctx.on("fleet/tick", heard)
'''


@attrs.frozen
class Edit:
    """One kind of save: what is edited, and what the prompt says once it is in."""

    name: str
    file: str
    text: Callable[[int], str]
    mark: str


class Fleet:
    """The files of a harness of so many plugins, all of which use `shared`, and one `leaf`."""

    def __init__(self, directory: Path, size: int) -> None:
        self.package = f"fleet{size}"
        self.size = size
        self.directory = directory.resolve() / self.package
        self.chosen = size // 2
        self.edits = (
            Edit("one plugin", f"p{self.chosen:03d}.py", self._plugin, "own {:06d}"),
            Edit("leaf of one plugin", "leaf.py", 'LEAF = "{:06d}"\n'.format, "leaf {:06d}"),
            Edit("helper of all", "shared.py", 'SHARED = "{:06d}"\n'.format, "shared {:06d}"),
        )

    def _plugin(self, version: int, number: int | None = None) -> str:
        number = self.chosen if number is None else number
        more, leaf = (
            ("from .leaf import LEAF", ", leaf {LEAF}") if number == self.chosen else ("",) * 2
        )
        return PLUGIN.format(version=version, number=number, more=more, leaf=leaf)

    def write(self) -> None:
        """Write every file in its first version."""
        self.directory.mkdir()
        self.save("__init__.py", "")
        for number in range(self.size):
            self.save(f"p{number:03d}.py", self._plugin(0, number))
        for edit in self.edits:
            self.save(edit.file, edit.text(0))

    def save(self, file: str, text: str, *, by_rename: bool = False) -> None:
        """Save a file in place, or beside and renamed, as editors do."""
        path = self.directory / file
        target = path.with_name(f".{file}.swp") if by_rename else path
        target.write_text(text, encoding="utf-8")
        if by_rename:
            os.replace(target, path)
