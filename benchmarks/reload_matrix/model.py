"""What a scenario is, what can be seen of a system, and what a system has to be able to do."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import attrs

__all__ = ["Expected", "Observed", "Scenario", "Step", "System"]

Files = Mapping[str, str | None]
"""Texts by path; None stands for a file that is deleted."""


@attrs.frozen
class Observed:
    """What can be seen: the texts of the prompt, what plugins wrote down, which modules are there.

    `open` is what was written down as up and not as down since.
    """

    prompt: tuple[str, ...]
    log: tuple[str, ...]
    modules: tuple[str, ...]

    @property
    def open(self) -> tuple[str, ...]:
        found: list[str] = []
        for entry in self.log:
            what, _, name = entry.partition(" ")
            if what == "up":
                found.append(name)
            elif what == "down" and name in found:
                found.remove(name)
        return tuple(found)


@attrs.frozen
class Expected:
    """What should be seen. None: not looked at."""

    prompt: tuple[str, ...] | None = None
    log: tuple[str, ...] | None = None
    open: tuple[str, ...] | None = None
    modules: tuple[str, ...] | None = None

    def differences(self, seen: Observed) -> list[str]:
        """Return a line for each thing that is not as expected."""
        return [
            f"{field.name}: {found!r} instead of {wanted!r}"
            for field in attrs.fields(Expected)
            if (wanted := getattr(self, field.name)) is not None
            and (found := getattr(seen, field.name)) != wanted
        ]


@attrs.frozen
class Step:
    """One save of some files, and what should be seen afterwards.

    Without `expected` the next step follows after `pause` seconds. `on_the_second` waits for the
    beginning of a second of the clock before it saves.
    """

    files: Files
    expected: Expected | None = None
    pause: float = 0.0
    on_the_second: bool = False
    by_rename: bool = False


@attrs.frozen
class Scenario:
    """A harness, saves, and what they should do. `plugins` are modules, in order of mounting."""

    name: str
    before: Files
    steps: tuple[Step, ...]
    plugins: tuple[str, ...] = ("alpha",)
    start: Expected = Expected()


class System(Protocol):
    """A system that runs plugins and follows their files."""

    async def start(self, directory: Path, plugins: tuple[str, ...]) -> None:
        """Run these modules as plugins; from now on their files are followed."""
        ...

    async def saved(self) -> None:
        """Do what a user of the system does by hand after a save; nothing, if it watches files."""
        ...

    async def prompt(self) -> tuple[str, ...]:
        """Return the texts of the prompt."""
        ...
