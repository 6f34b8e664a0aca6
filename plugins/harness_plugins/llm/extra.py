"""The extra that a plugin's libraries come with, named where one of them is missing."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from harness_core.errors import PluginError

__all__ = ["loading_extra"]


@contextmanager
def loading_extra(plugin: str, extra: str) -> Generator[None]:
    """Say which extra to install when a library is missing that is imported in the block."""
    try:
        yield
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if not library or library.startswith("harness"):
            raise
        raise PluginError(
            f"the plugin {plugin} needs {library}, which is not installed. "
            f'Install the extra: pip install "harness-core[{extra}]"'
        ) from error
