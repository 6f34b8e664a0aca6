"""`harness tree`: fibers with their states, what they wait for, and what they have registered.

It can also be shown in another process than the one whose tree it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs
from rich.console import Console
from rich.text import Span, Text
from rich.tree import Tree

from .. import EffectInfo, Fiber, FiberState
from .payload import scope_name, written_at
from .safe import one_line
from .session import Session

__all__ = ["Branch", "show_tree", "tree_of"]

_STYLES = {
    FiberState.ACTIVE: "green",
    FiberState.FAILED: "bold red",
    FiberState.PENDING: "yellow",
}


@attrs.frozen
class Branch:
    """One line of a tree, and what stands below it."""

    line: Text
    below: tuple[Branch, ...] = ()

    def as_data(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return {
            "text": self.line.plain,  # not as markup: that takes `:bug:` in a name for a picture
            "styles": [[span.start, span.end, str(span.style)] for span in self.line.spans],
            "below": [one.as_data() for one in self.below],
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Branch:
        """Return what `as_data` was called on."""
        spans = [Span(int(start), int(end), str(style)) for start, end, style in data["styles"]]
        line = Text(str(data["text"]), spans=spans)
        return cls(line, tuple(map(cls.from_data, data["below"])))


def show_tree(console: Console, branch: Branch) -> None:
    """Print a tree."""
    tree = Tree(branch.line, guide_style="dim")
    _fill(tree, branch)
    console.print(tree)


def _fill(tree: Tree, branch: Branch) -> None:
    for one in branch.below:
        _fill(tree.add(one.line), one)


def tree_of(session: Session, stale: Mapping[Fiber, Exception] | None = None) -> Branch:
    """Return the fibers of a session; `stale` ones run an older version of their code."""
    return _of_fiber(session.root.fiber, session, stale or {})


def _of_fiber(fiber: Fiber, session: Session, stale: Mapping[Fiber, Exception]) -> Branch:
    children = (_of_fiber(child, session, stale) for child in fiber.children)
    line = _fiber_line(fiber, session, stale)
    return Branch(line, (*map(_of_effect, _own_effects(fiber)), *children))


def _own_effects(fiber: Fiber) -> Iterator[EffectInfo]:
    children = {f'plugin "{child.name}"' for child in fiber.children}
    return (effect for effect in fiber.effects() if effect.label not in children)


def _of_effect(effect: EffectInfo) -> Branch:
    line = Text(one_line(effect.label))
    place = written_at(effect.file, effect.line)
    if place:
        line.append(f"  {one_line(place)}", style="dim")
    return Branch(line, tuple(map(_of_effect, effect.children)))


def _fiber_line(fiber: Fiber, session: Session, stale: Mapping[Fiber, Exception]) -> Text:
    line = Text()
    line.append(one_line(fiber.name), style="bold cyan")
    line.append(f" {fiber.state.value}", style=_STYLES.get(fiber.state, "dim"))
    parent = fiber.parent
    if fiber.ctx.tag is not None and (parent is None or fiber.ctx.tag is not parent.ctx.tag):
        line.append(f"  scope {one_line(scope_name(fiber.ctx.tag))}", style="magenta")
    mounted = session.loader.mounted.get(fiber)
    if mounted is not None and mounted.entry.id != fiber.name:
        line.append(f'  row "{one_line(mounted.entry.id)}"', style="dim")
    if fiber.waiting_for:
        line.append(f"  waits for {', '.join(fiber.waiting_for)}", style="yellow")
    if fiber in stale:
        line.append("  stale: runs an older version of its code", style="bold yellow")
    if fiber.error is not None and fiber.state is FiberState.FAILED:
        line.append(f"  {one_line(str(fiber.error))}", style="red")
    return line
