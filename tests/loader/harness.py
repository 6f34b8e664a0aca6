"""Running a manifest in a test: files are written, mounted, settled, and disposed."""

from __future__ import annotations

import textwrap
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from harness_core import Context
from harness_core.loader import Loader, Resolver, read_manifest, settle

PATIENCE = 20.0


def write_files(directory: Path, **files: str) -> None:
    """Write Python files, `rules="..."` into rules.py, and `manifest="..."` into harness.yaml."""
    for name, text in files.items():
        file = "harness.yaml" if name == "manifest" else f"{name}.py"
        (directory / file).write_text(textwrap.dedent(text))


@asynccontextmanager
async def running(
    directory: Path, *default: str, **files: str
) -> AsyncGenerator[tuple[Context, Loader]]:
    """Mount the manifest and wait until it has settled; dispose it in the end."""
    write_files(directory, **files)
    manifest = read_manifest(directory / "harness.yaml")
    loader = Loader(manifest, Resolver(manifest.directory))
    async with Context() as root:
        root.provide("loader", loader)
        loader.start(default)
        assert await settle(root.fiber, PATIENCE) == []
        yield root, loader


def states(loader: Loader) -> dict[str, str]:
    """Return the state of every mounted row by its id."""
    return {row.entry.id: row.fiber.state.value for row in loader.mounted.values()}
