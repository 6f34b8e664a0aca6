"""What a source text imports, for modules that were imported when nobody listened.

Imports inside functions count, those for type checkers only do not. Calls of `import_module` and
`__import__` count where the name is a literal.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import attrs

__all__ = ["Import", "imports_of"]


@attrs.frozen
class Import:
    """`import name`, or `from name import items`, with `level` leading dots.

    `called`: it was written `import_module(name)`, which gives the last module of a dotted name,
    not the first.
    """

    name: str
    items: tuple[str, ...] = ()
    level: int = 0
    called: bool = False


def imports_of(source: bytes) -> list[Import]:
    """Return every import of a source text, in order; none if it is no valid source."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return []
    return list(_walk(tree))


def _walk(node: ast.AST) -> Iterator[Import]:
    match node:
        case ast.Import():
            yield from (Import(alias.name) for alias in node.names)
        case ast.ImportFrom():
            yield Import(node.module or "", tuple(name.name for name in node.names), node.level)
        case ast.If() if _is_type_checking(node.test):
            for statement in node.orelse:
                yield from _walk(statement)
            return
        case ast.Call():
            yield from _called(node)
        case _:
            pass
    for child in ast.iter_child_nodes(node):
        yield from _walk(child)


def _is_type_checking(test: ast.expr) -> bool:
    name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", "")
    return name == "TYPE_CHECKING"


def _called(call: ast.Call) -> Iterator[Import]:
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    first = call.args[0] if call.args else None
    if name not in ("import_module", "__import__") or not isinstance(first, ast.Constant):
        return
    if isinstance(first.value, str):
        bare = first.value.lstrip(".")
        yield Import(bare, level=len(first.value) - len(bare), called=True)
