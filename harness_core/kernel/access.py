"""Access: which context may read which service, and what it is told if it may not.

Contract: section 2, "Inject" (reading) and "A service acts for its caller".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import ServiceAccessError, closest
from .fiber import Fiber
from .injection import Injection
from .life import Life
from .services import Binding, Override, Slot

if TYPE_CHECKING:
    from .context import Context

__all__ = ["read_service"]


def read_service(ctx: Context, key: str) -> Any:
    """Return the service `key` as seen from `ctx`; raise ServiceAccessError if it may not be read.

    It may if its fiber, or one above, injects or provides it, if the service that acts for it
    does, or if nothing stands between it and the root.
    """
    slot = ctx.kernel.services.peek(key, ctx.realms.get(key))
    allowed, held = _access(ctx, key, slot)
    if not allowed:
        raise _refusal(ctx, key, slot)
    found = slot.find(ctx) if slot is not None else None
    if held is not None and (found is None or _is_later(found, held)):
        found = held  # a consumer that is being unloaded still has what it was given
    if found is not None and (found is held or found.available or _provides(ctx, found)):
        return found.read(ctx)
    why = "nobody provides it" if slot is None else "its provider is gone or not active"
    raise ServiceAccessError(
        key,
        ctx.fiber,
        f'service "{key}" is not available to fiber "{ctx.fiber.path}": {why}; '
        f"provided here: {', '.join(ctx.kernel.services.keys()) or '(none)'}",
    )


def _access(ctx: Context, key: str, slot: Slot | None) -> tuple[bool, Binding | Override | None]:
    """Return whether a context may read `key`, and what its injector was given."""
    for reader in (ctx, *ctx.acts_for):
        fiber: Fiber | None = reader.fiber
        free = True
        while fiber is not None:
            needs = fiber.needs if isinstance(fiber, Life) else fiber.requirements
            if isinstance(needs, Injection) and key in needs.slots:
                return True, needs.taken.get(key) if slot is needs.slots[key] else None
            if key in fiber.services:
                return True, None
            free = free and fiber.transparent
            if fiber.parent is None and free:
                return True, None
            fiber = fiber.parent
    return False, None


def _is_later(found: Binding | Override, held: Binding | Override) -> bool:
    """Whether another provider has taken over, and the reader is about to be told."""
    return found is not held and isinstance(found, Binding) and isinstance(held, Binding)


def _provides(ctx: Context, found: Binding | Override) -> bool:
    """Whether the service is the context's own, which it may use before it is active."""
    return isinstance(found, Binding) and any(
        reader.fiber is found.fiber for reader in (ctx, *ctx.acts_for)
    )


def _refusal(ctx: Context, key: str, slot: Slot | None) -> ServiceAccessError:
    if slot is not None and slot.binding is not None:
        return ServiceAccessError(key, ctx.fiber)
    guess = closest(key, [*ctx.kernel.services.keys(), *dir(type(ctx))])
    if guess is None:
        return ServiceAccessError(key, ctx.fiber)
    return ServiceAccessError(
        key,
        ctx.fiber,
        f'fiber "{ctx.fiber.path}" reads "{key}", which it does not inject and nobody provides; '
        f'did you mean "{guess}"? Otherwise add inject = ["{key}"] to the plugin.',
    )
