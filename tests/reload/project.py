"""A directory of real source files, importable, and forgotten at the end."""

from __future__ import annotations

import importlib
import linecache
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

import pytest

from harness_core.reload import ImportGraph, Roots, Staged, stage


class Project:
    """Sources below `root`, which is on `sys.path` and is a watched root."""

    def __init__(self, root: Path) -> None:
        self.root = root = root.resolve()
        self.graph = ImportGraph(Roots([root]))

    def path(self, name: str) -> Path:
        return self.root / name

    def write(self, name: str, text: str) -> Path:
        """Write a file in place, as many editors do."""
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")
        return path

    def write_all(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            self.write(name, text)

    def write_atomically(self, name: str, text: str) -> Path:
        """Write beside and rename, as the other editors do."""
        path = self.path(name)
        beside = path.with_name(f".{path.name}.swp")
        beside.write_text(dedent(text), encoding="utf-8")
        os.replace(beside, path)
        return path

    def delete(self, name: str) -> Path:
        path = self.path(name)
        path.unlink()
        return path

    def load(self, name: str) -> Any:
        importlib.invalidate_caches()
        return importlib.import_module(name)

    def affected(self, *names: str, plugins: list[str] | None = None) -> set[str]:
        return self.graph.affected([self.path(name) for name in names], plugins)

    def stage(self, *names: str) -> Staged:
        """Stage what a change of these files affects."""
        return stage(self.affected(*names), self.graph)

    def reload(self, *names: str) -> Staged:
        staged = self.stage(*names)
        staged.commit()
        staged.settle()
        return staged

    def loaded(self) -> dict[str, ModuleType]:
        return self.graph.loaded()

    def forget(self) -> None:
        inside = f"{self.root}{os.sep}"
        for name in self.graph.loaded():
            sys.modules.pop(name, None)
        for cache in (sys.path_importer_cache, linecache.cache):
            for key in [key for key in cache if str(key).startswith(inside)]:
                del cache[key]
        sys.path_importer_cache.pop(str(self.root), None)


@contextmanager
def open_project(root: Path, *, observed: bool = True) -> Iterator[Project]:
    """Make a project of a directory; imports are observed meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        # Stale bytecode is one of the faults to look for.
        patch.setattr(sys, "dont_write_bytecode", False)
        patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        patch.syspath_prepend(str(root))
        project = Project(root)
        stop = project.graph.observe() if observed else lambda: None
        try:
            yield project
        finally:
            stop()
            project.forget()


def world() -> dict[str, object]:
    """Everything that a staging must leave as it was: modules, and packages' attributes.

    Looked at without asking the objects: some stand in for modules, and import them when asked.
    """
    modules = dict(sys.modules)
    inner = {
        f"{name}:{attribute}": value
        for name, module in modules.items()
        if "__path__" in vars(module)
        for attribute, value in vars(module).items()
        if issubclass(type(value), ModuleType)
    }
    return {**modules, **inner}
