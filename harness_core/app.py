"""The composition root: who is given what in one run of the command line.

A dependency-injector container, built once a run from its settings; nothing else in this package
makes a console, reads a manifest or makes a loader. Contract: section 2, "dependency-injector".
"""

from __future__ import annotations

import errno
import os
import sys
from typing import IO

import attrs
from dependency_injector import containers, providers
from rich.console import Console

from .loader import Loader, Resolver, read_manifest

__all__ = ["DEFAULT_PLUGINS", "Application", "Settings"]

DEFAULT_PLUGINS = ("system_prompt", "system_prompt_invariant")
"""Mounted first unless a row of the manifest names them."""

MAX_WIDTH = 100


@attrs.frozen
class Settings:
    """What one run was asked for.

    `patience`: seconds that plugins may take to load. `disable`: ids of rows to leave out.
    """

    config: str
    debug: bool = False
    patience: float = 30.0
    disable: tuple[str, ...] = ()


class _Output(Console):
    """A console that says by an ordinary error that nobody reads it any more.

    Rich would leave the process from wherever it prints, also from the middle of a running tree.
    """

    def on_broken_pipe(self) -> None:
        self.quiet = True
        raise BrokenPipeError(errno.EPIPE, "nobody reads the output any more")


def make_console(stderr: bool = False) -> Console:
    """Return a console as wide as the terminal, at most 100 columns, plain when piped."""
    stream: IO[str] = sys.stderr if stderr else sys.stdout
    console = _Output(file=stream, highlight=False, markup=False, emoji=False, soft_wrap=False)
    width = console.width if console.is_terminal or "COLUMNS" in os.environ else MAX_WIDTH
    console.width = min(width, MAX_WIDTH)
    return console


class Application(containers.DeclarativeContainer):
    """What a run of the command line is made of."""

    settings: providers.Dependency[Settings] = providers.Dependency(instance_of=Settings)
    output = providers.Singleton(make_console)
    diagnostics = providers.Singleton(make_console, stderr=True)
    manifest = providers.Singleton(
        read_manifest, settings.provided.config, disable=settings.provided.disable
    )
    resolver = providers.Singleton(Resolver, manifest.provided.directory)
    loader = providers.Singleton(Loader, manifest, resolver)
