"""The public names are those of docs/public-names.md, and the door is light to open."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

DOCUMENT = Path(__file__).parent.parent / "docs" / "public-names.md"
MODULES = (
    "harness_core",
    "harness_core.prompt",
    "harness_core.errors",
    "harness_core.testing",
    "harness_core.cli.kit",
)
HEAVY = (
    "aiosqlite",
    "anthropic",
    "asyncpg",
    "basedpyright",
    "cattrs",
    "click",
    "dependency_injector",
    "httpx",
    "hypothesis",
    "jinja2",
    "jsonschema",
    "mcp",
    "openai",
    "pydantic",
    "pytest",
    "rich",
    "ruamel",
    "sqlalchemy",
    "starlette",
    "watchfiles",
    "yaml",
)


def documented() -> dict[str, list[str]]:
    """Return the names in the first column of each module's table."""
    found: dict[str, list[str]] = {}
    names: list[str] = []
    for line in DOCUMENT.read_text(encoding="utf-8").splitlines():
        heading = re.fullmatch(r"## `([\w.]+)`", line)
        row = re.match(r"\| `(\w+)` \| (.*?) \|$", line)
        if heading:
            names = found[heading[1]] = []
        elif row:
            assert row[2].strip(), f"{row[1]} has no description"
            names.append(row[1])
    return found


def public(module: types.ModuleType) -> list[str]:
    """Return what a module offers: its `__all__`, else its names that are no modules."""
    if "__all__" in vars(module):
        return sorted(module.__all__)
    if "__dir__" in vars(module):
        return sorted(dir(module))
    return sorted(
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and not isinstance(value, types.ModuleType)
        and getattr(value, "__module__", "").split(".")[0] in ("harness_core", "")
    )


@pytest.mark.parametrize("name", MODULES)
def test_the_public_names_are_the_documented_ones(name: str) -> None:
    """A name that is added, renamed or dropped is a change of the document, too."""
    module = importlib.import_module(name)
    names = documented()[name]
    assert names == sorted(names, key=str.lower), "the table is sorted"
    assert sorted(names) == public(module)
    for one in names:
        getattr(module, one)


def test_the_document_has_a_table_for_each_module_and_no_more() -> None:
    """Nothing else is public."""
    assert tuple(documented()) == MODULES


def test_every_public_class_and_function_says_what_it_is() -> None:
    """A docstring of its own."""
    for name in MODULES:
        module = importlib.import_module(name)
        for one in documented()[name]:
            value = getattr(module, one)
            if isinstance(value, type | types.FunctionType):
                assert (value.__doc__ or "").strip(), f"{name}.{one}"


@pytest.mark.parametrize("module", ["harness_core", "harness_core.prompt", "harness_core.errors"])
def test_importing_loads_none_of_the_heavy_libraries(module: str) -> None:
    """They are imported where they are first needed."""
    program = (
        f"import sys, {module}; print(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert "harness_core" in loaded
    assert not set(HEAVY) & set(loaded)


def test_running_a_plain_tree_loads_none_of_them_either() -> None:
    """A service, a section and an assembly need no library but anyio and attrs."""
    program = """
import asyncio, sys
from harness_core import Context
from harness_core.prompt import SystemPrompt, render_prompt

async def main():
    async with Context() as root:
        def plugin(ctx):
            ctx.provide("clock", 1)
            ctx.root.on("ping", print)
        await root.plugin(plugin)
        await root.inject(["clock"], lambda ctx: None)
        root.provide("database", object())

asyncio.run(main())
print(*sorted({name.split(".")[0] for name in sys.modules}))
"""
    loaded = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert "harness_core" in loaded
    assert not set(HEAVY) & set(loaded)
