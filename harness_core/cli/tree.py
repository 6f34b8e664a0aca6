"""`harness tree`: fibers with their states, what they wait for, and what they have registered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from .. import EffectInfo, Fiber, FiberState
from .payload import scope_name, written_at
from .safe import one_line
from .session import Session

__all__ = ["show_tree"]

_STYLES = {
    FiberState.ACTIVE: "green",
    FiberState.FAILED: "bold red",
    FiberState.PENDING: "yellow",
}


def show_tree(
    console: Console, session: Session, stale: Mapping[Fiber, Exception] | None = None
) -> None:
    """Print the tree of fibers of a session; `stale` ones run an older version of their code."""
    root = session.root.fiber
    stale = stale or {}
    tree = Tree(_fiber_line(root, session, stale), guide_style="dim")
    _fill(tree, root, session, stale)
    console.print(tree)


def _fill(tree: Tree, fiber: Fiber, session: Session, stale: Mapping[Fiber, Exception]) -> None:
    for effect in _own_effects(fiber):
        _add_effect(tree, effect)
    for child in fiber.children:
        _fill(tree.add(_fiber_line(child, session, stale)), child, session, stale)


def _own_effects(fiber: Fiber) -> Iterable[EffectInfo]:
    children = {f'plugin "{child.name}"' for child in fiber.children}
    return (effect for effect in fiber.effects() if effect.label not in children)


def _add_effect(tree: Tree, effect: EffectInfo) -> None:
    line = Text(one_line(effect.label))
    place = written_at(effect.file, effect.line)
    if place:
        line.append(f"  {one_line(place)}", style="dim")
    branch = tree.add(line)
    for child in effect.children:
        _add_effect(branch, child)


def _fiber_line(fiber: Fiber, session: Session, stale: Mapping[Fiber, Exception]) -> Text:
    line = Text(one_line(fiber.name), style="bold cyan")
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
