"""Why a scope can or cannot call a name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness_core.errors import closest, safe_repr
from harness_core.prompt import Origin

from .model import Visibility
from .presentation import where
from .view import View, in_order, passes

if TYPE_CHECKING:
    from .entries import RestrictionEntry, ToolEntry
    from .layers import Layer

__all__ = ["explain"]


def explain(name: str, scope: object | None, layers: list[Layer], view: View) -> Visibility:
    """Return why a scope that has these layers on its chain sees a name, or does not."""
    found, hidden_by = _read(name, layers)
    presentation = view.presentation(scope)
    if not found:
        return Visibility(name, scope, False, _unknown(name, scope, layers), None, (), ())
    nearest, *behind = [entry.origin() for entry in reversed(found)]
    restrictions = tuple(one.origin() for one in hidden_by)
    is_visible = name in view.direct or name in view.inner
    tool = f'tool "{name}" of {nearest}'
    through = None
    if restrictions:
        by = "; ".join(f"{one.name} by {one}{_in(one)}" for one in restrictions)
        reason = f"{tool} is hidden from {where(scope)}: {by}"
    elif not is_visible:
        reason = f"{tool} is hidden from {where(scope)}: tools are presented as {presentation}"
        if view.runner is None and view.mode != "native":
            reason += ", and no tool runs code there"
    else:
        shadows = f", in front of {', '.join(map(str, behind))}" if behind else ""
        reason = f"{tool}{_in(nearest)} is visible in {where(scope)}{shadows}"
        if view.is_indirect(name):
            through = presentation.runner
            reason += f'; it is called through "{through}": tools are presented as {presentation}'
    return Visibility(
        name,
        scope,
        is_visible,
        reason,
        nearest,
        tuple(behind),
        restrictions,
        presentation,
        through,
    )


def _read(name: str, layers: list[Layer]) -> tuple[list[ToolEntry], list[RestrictionEntry]]:
    """Return the tools of a name, nearest last, and the restrictions that hide the nearest."""
    found: list[ToolEntry] = []
    hidden_by: list[RestrictionEntry] = []
    for layer in layers:
        if found:
            hidden_by += [one for one in layer.restrictions() if not passes(found[-1], [one])]
        own = layer.tool(name)
        if own is not None:
            found.append(own)
            hidden_by = []
    return found, hidden_by


def _unknown(name: str, scope: object | None, layers: list[Layer]) -> str:
    known = in_order({entry.name for layer in layers for entry in layer.tools()})
    guess = closest(name, known)
    hint = f'; did you mean "{guess}"?' if guess else ""
    return (
        f'no tool "{name}" is registered on the chain of {where(scope)}; '
        f"known: {', '.join(known) or '(none)'}{hint}"
    )


def _in(origin: Origin) -> str:
    return "" if origin.scope is None else f" in scope {safe_repr(origin.scope)}"
