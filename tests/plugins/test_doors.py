"""Plugins come in by the doors: what they import of the core and of each other is public."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PLUGINS = Path(__file__).parents[2] / "plugins" / "harness_plugins"
DOORS = {
    "harness_core",
    "harness_core.cli.kit",
    "harness_core.errors",
    "harness_core.loader",
    "harness_core.prompt",
    "harness_core.testing",
}


def imported(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the absolute imports of a module, but those that only type checkers see."""
    skipped = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.lineno, node.module or ""


def is_by_the_door(module: str, package: str) -> bool:
    """Whether a plugin of this package may import a module."""
    if module.split(".")[0] == "harness_core":
        return module in DOORS
    if module.split(".")[0] != "harness_plugins":
        return True
    inside = module.removeprefix("harness_plugins.").split(".")
    return inside[0] == package or inside[-1] == "api"


@pytest.mark.parametrize(
    "package", sorted(path.name for path in PLUGINS.iterdir() if path.is_dir())
)
def test_a_plugin_imports_doors_only(package: str) -> None:
    wrong = [
        f"{path.relative_to(PLUGINS)}:{line}: {module}"
        for path in (PLUGINS / package).rglob("*.py")
        for line, module in imported(ast.parse(path.read_text(encoding="utf-8")))
        if not is_by_the_door(module, package)
    ]
    assert not wrong


def test_the_rule_can_fail() -> None:
    assert not is_by_the_door("harness_core.kernel.fiber", "agents")
    assert not is_by_the_door("harness_plugins.tools.layers", "agents")
    assert is_by_the_door("harness_plugins.tools.layers", "tools")
    assert is_by_the_door("harness_plugins.llm.remote.api", "llm_openai")
