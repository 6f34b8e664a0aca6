"""Who runs on whose services: what goes down with a fiber, and in which order others may go on.

Contract: section 2, "Inject".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from .fiber import Fiber
from .injection import Injection
from .services import Binding, Services

__all__ = ["down_with", "providers_first", "users_of"]


def down_with(services: Services, fibers: Iterable[Fiber]) -> set[Fiber]:
    """Return these fibers and all that run on what they provide, through any number of steps."""
    down = set(fibers)
    size = -1
    while size != len(down):
        size = len(down)
        for needs in services.needs():
            if any(not down.isdisjoint(_upwards(one)) for one in _providers(needs)):
                down.add(needs.fiber)
    return down


def users_of(services: Services, fibers: Collection[Fiber]) -> set[Fiber]:
    """Return the others that run on what these fibers, or fibers below them, provide."""
    return {
        needs.fiber
        for needs in services.needs()
        if needs.fiber not in fibers
        and any(above in fibers for one in _providers(needs) for above in _upwards(one))
    }


def providers_first(fibers: Iterable[Fiber]) -> list[Fiber]:
    """Return fibers in an order in which each comes after those whose services it runs on."""
    left = list(fibers)
    ordered: dict[Fiber, None] = {}

    def put(fiber: Fiber, users: tuple[Fiber, ...]) -> None:
        needs = fiber.requirements
        for provider in _providers(needs) if isinstance(needs, Injection) else ():
            for above in _upwards(provider):
                if above in left and above not in users:
                    put(above, (*users, above))
        ordered[fiber] = None

    for fiber in left:
        put(fiber, (fiber,))
    return list(ordered)


def _providers(needs: Injection) -> Iterator[Fiber]:
    return (one.fiber for one in needs.taken.values() if isinstance(one, Binding))


def _upwards(fiber: Fiber | None) -> Iterator[Fiber]:
    while fiber is not None:
        yield fiber
        fiber = fiber.parent
