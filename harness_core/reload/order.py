"""In which order modules began to be executed, which is the order that works for cycles.

Python keeps modules in the order in which they were finished. An importer begins before what it
imports and ends after it, so the order of beginning is that of a tree read from its root, and the
order of finishing that of the same tree read from its leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

__all__ = ["by_beginning"]


def by_beginning(finished: Iterable[str], uses: Callable[[str], Collection[str]]) -> list[str]:
    """Return modules in the order in which they began, given the order in which they finished."""
    trees: list[list[str]] = []
    for name in finished:
        tree = [name]
        used = uses(name)
        inner: list[list[str]] = []
        while trees and trees[-1][0] in used:
            inner.append(trees.pop())
        for branch in reversed(inner):
            tree += branch
        trees.append(tree)
    return [name for tree in trees for name in tree]
