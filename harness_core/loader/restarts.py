"""Which rows restart although they are kept: because a service they use goes or restarts."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

import attrs

from .. import Fiber
from ..kernel.injection import Injection
from ..kernel.services import Binding
from .moving import mount_of
from .plan import Plan
from .settle import walk_fibers

if TYPE_CHECKING:
    from .mount import Mounts

__all__ = ["with_restarts"]


def with_restarts(plan: Plan, mounts: Mounts, renewed: Collection[str] = ()) -> Plan:
    """Return the plan with the rows that will restart because of what it does.

    A row that is `renewed` takes no config in place.
    """
    in_place = set(plan.ids("update")).difference(renewed)
    kept = {one: mounts.running[one] for one in plan.ids("keep", "move") if one in mounts.running}
    stopped: set[Fiber] = set()
    for one in plan.ids("update", "replace", "remove", "disable"):
        fiber = mounts.running.get(one)
        if fiber is not None and not (one in in_place and mount_of(fiber).handlers):
            stopped.update(_inside(fiber, mounts))
    restarts: dict[str, None] = {}
    size = -1
    while size != len(restarts):
        size = len(restarts)
        for one, fiber in kept.items():
            users = [inner for inner in walk_fibers(fiber) if _uses(inner, stopped)]
            for inner in users:
                stopped.update(walk_fibers(inner))
            if users and not mounts.entries[one].group:
                restarts[one] = None
    order = [one for one in mounts.entries if one in restarts]
    return attrs.evolve(plan, restarts=tuple(order))


def _inside(fiber: Fiber, mounts: Mounts) -> Iterator[Fiber]:
    """Yield a fiber and those inside it, but rows of a group, of which the plan itself says what
    is done with them."""
    yield fiber
    for child in fiber.children:
        mounted = mounts.mounted.get(child)
        if mounted is None or not mounted.is_own:
            yield from _inside(child, mounts)


def _uses(fiber: Fiber, stopped: set[Fiber]) -> bool:
    needs = fiber.requirements
    if fiber in stopped or not isinstance(needs, Injection):
        return fiber in stopped
    providers = (one.fiber for one in needs.taken.values() if isinstance(one, Binding))
    # A plugin of which two may live at once provides from a life below its fiber.
    return any(one in stopped or (one.is_life and one.parent in stopped) for one in providers)
