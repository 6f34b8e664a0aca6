"""Services: who provides what under which key, who waits for it, and what a read gives.

A `Slot` is one key in one realm. It holds at most one `Binding` (a value and the fiber that
provides it), the overrides in force, and the fibers that inject the key. Everything that changes a
slot goes through `publish`, `Binding.withdraw_steps` and `Override`, which tell those fibers.

Contract: section 2, "Services", "Inject", "Realms" and "dependency-injector" (bindings).
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from ..errors import ServiceConflictError
from .effects import Effect
from .fiber import Fiber
from .life import succeeds
from .lifecycle import FiberState
from .providers import is_provider, refuse_provider, resolve_provider
from .service import Service
from .steps import Steps

if TYPE_CHECKING:
    from .context import Context
    from .injection import Injection

__all__ = ["Binding", "Override", "Services", "Slot"]


ServiceListener: TypeAlias = Callable[[str, object], None]


_serials = itertools.count(1)


class Binding:
    """One value under one key, and the fiber that provides it."""

    __slots__ = (
        "_leave",
        "_views",
        "check",
        "fiber",
        "made_home",
        "provider",
        "serial",
        "slot",
        "value",
        "withdrawn",
    )

    def __init__(self, slot: Slot, fiber: Fiber, value: Any) -> None:
        self.slot = slot
        self.fiber = fiber
        self.serial = next(_serials)
        self.value = value
        self.provider = is_provider(value)
        self.check: Callable[[], object] | None = (
            getattr(value, "check", None) if isinstance(value, Service) else None
        )
        self.withdrawn = False
        self.made_home = isinstance(value, Service) and (
            "home" not in vars(value) or succeeds(fiber, value.home.fiber)
        )
        """Whether a service object was provided as it is, and got its home by that."""
        if self.made_home:
            value.provided_by(fiber.ctx)
        self._views: set[weakref.ref[Context]] = set()
        """Contexts that keep what they read; each leaves by itself when it goes."""
        self._leave = self._views.discard

    @property
    def available(self) -> bool:
        """Whether consumers may have it: its fiber is active and its own check agrees."""
        if self.withdrawn or self.fiber.state is not FiberState.ACTIVE:
            return False
        if self.check is None:
            return True
        try:
            return bool(self.check())
        except Exception as error:
            self.fiber.report(error, f'check of service "{self.slot.key}"')
            return False

    def read(self, ctx: Context) -> Any:
        """Return the value as `ctx` sees it."""
        value = self.value
        if isinstance(value, Service):
            view = value.seen_from(ctx)
            if self.check is None and not self.slot.overrides and self.slot.binding is self:
                ctx.__dict__[self.slot.key] = view
                self._views.add(weakref.ref(ctx, self._leave))
            return view
        return resolve_provider(value, self.slot.key) if self.provider else value

    def forget_views(self) -> None:
        """Make every context look the service up again."""
        views = self._views.copy()
        self._views.clear()
        for view in views:
            ctx = view()
            if ctx is not None:
                ctx.__dict__.pop(self.slot.key, None)

    def announce(self) -> None:
        """Tell the consumers that something about this binding has changed."""
        self.slot.changed(self, is_news=self.slot.private is not self)

    def withdraw_steps(self) -> Steps:
        """Take the service back: no new reader, then unload its consumers, newest first."""
        slot = self.slot
        self.withdrawn = True
        was_private = slot.private is self
        if slot.binding is self:
            slot.binding = None
        if was_private:
            slot.private = None
        self.fiber.services.pop(slot.key, None)
        self.forget_views()
        for injection in reversed(tuple(slot.consumers)):
            consumer = injection.fiber
            if not injection.uses(self) or _is_within(self.fiber, consumer):
                continue
            if consumer.waits_for(self.fiber):
                continue  # two that use each other: one of them has to go first
            self.fiber.tree.gate.touch(consumer, because_of=self.fiber)
            self._wait_for(consumer)
            yield consumer.unload_steps()
            self._wait_for(None)
        self._leave_home()
        slot.changed(self, is_news=not was_private)
        slot.services.reclaim(slot)

    def _wait_for(self, consumer: Fiber | None) -> None:
        fiber = self.fiber
        fiber.waits_on = consumer
        if fiber.is_life and fiber.parent is not None:
            fiber.parent.waits_on = consumer

    def _leave_home(self) -> None:
        if not self.made_home or self.value.home is not self.fiber.ctx:
            return
        for other in (self.slot.binding, self.slot.private):
            if other is not None and other.value is self.value:  # provided by both lives
                self.value.provided_by(other.fiber.ctx)
                return
        del self.value.home


def _is_within(fiber: Fiber | None, ancestor: Fiber) -> bool:
    while fiber is not None:
        if fiber is ancestor:
            return True
        fiber = fiber.parent
    return False


class Slot:
    """One service key in one realm."""

    __slots__ = (
        "binding",
        "consumers",
        "key",
        "overrides",
        "private",
        "realm",
        "services",
        "state",
    )

    def __init__(self, services: Services, key: str, realm: object) -> None:
        self.services = services
        self.key = key
        self.realm = realm
        self.binding: Binding | None = None
        self.private: Binding | None = None
        """While a plugin lives twice: what the life provides that does not serve the others."""
        self.overrides: list[Override] = []
        self.consumers: dict[Injection, None] = {}
        self.state: dict[str, Any] = {}
        """What outlives a restart of the service; see `Context.shared_state`."""

    def changed(self, binding: Binding | None, *, is_news: bool = True) -> None:
        """Let every consumer look again, and tell the `service/change` listeners."""
        tree = self.services.tree
        for injection in tuple(self.consumers):
            tree.enqueue(injection.fiber.refresh)
        if is_news and self.services.on_change is not None:
            self.services.on_change(self.key, binding.fiber if binding else None)

    def find(self, ctx: Context) -> Binding | Override | None:
        """Return what `ctx` reads: the nearest override above it, else the binding."""
        if self.overrides:
            override = self._nearest_override(ctx)
            if override is not None:
                return override
        private = self.private
        return private if private is not None and self._is_home(private, ctx) else self.binding

    def _is_home(self, private: Binding, ctx: Context) -> bool:
        """Whether a context belongs to the life that provides `private`."""
        lives = set(private.fiber.lives())
        if self.binding is not None:
            lives -= set(self.binding.fiber.lives())
        return not lives.isdisjoint(ctx.fiber.lives())

    def refuse_second(self, fiber: Fiber) -> None:
        """Raise ServiceConflictError if `fiber` cannot provide this too."""
        held = self.binding
        if held is not None and (self.private is not None or not succeeds(fiber, held.fiber)):
            raise ServiceConflictError(self.key, held.fiber.path)

    def exchange(self) -> None:
        """Let what the other life provides serve everybody; tells nobody."""
        if self.binding is not None:
            self.binding.forget_views()
        self.binding, self.private = self.private, self.binding

    def _nearest_override(self, ctx: Context | None) -> Override | None:
        while ctx is not None:
            for override in reversed(self.overrides):
                if override.ctx is ctx:
                    return override
            ctx = ctx.parent
        return None


class Override:
    """Another value for a key, for everything below one context, while the `with` block runs."""

    __slots__ = ("_find_slot", "ctx", "serial", "slot", "value")

    slot: Slot
    available = True
    withdrawn = False

    def __init__(self, find_slot: Callable[[], Slot], ctx: Context, value: Any) -> None:
        if is_provider(value):
            refuse_provider(value, "override")
        self._find_slot = find_slot
        self.ctx = ctx
        self.serial = next(_serials)
        self.value = value

    def read(self, ctx: Context) -> Any:
        """Return the replacement as `ctx` sees it."""
        value = self.value
        if isinstance(value, Service):
            return value.seen_from(ctx)
        return resolve_provider(value, self.slot.key) if is_provider(value) else value

    def __enter__(self) -> Override:
        self.ctx.fiber.tree.check_thread()
        self.slot = self._find_slot()
        self.slot.overrides.append(self)
        self._changed()
        return self

    def __exit__(self, *exc: object) -> None:
        self.slot.services.tree.check_thread()
        self.slot.overrides.remove(self)
        self._changed()
        self.slot.services.reclaim(self.slot)

    def _changed(self) -> None:
        if self.slot.binding is not None:
            self.slot.binding.forget_views()
        self.slot.changed(self.slot.binding)


class Services:
    """All slots of one tree."""

    def __init__(self, tree: Any) -> None:
        self.tree = tree
        self.on_change: ServiceListener | None = None
        self._slots: dict[tuple[str, object], Slot] = {}

    def slot(self, key: str, realm: object) -> Slot:
        """Return the slot of a key in a realm, making it if it is not there."""
        slot = self._slots.get((key, realm))
        if slot is None:
            slot = self._slots[(key, realm)] = Slot(self, key, realm)
        return slot

    def peek(self, key: str, realm: object) -> Slot | None:
        """Return the slot of a key in a realm, if anybody uses it."""
        return self._slots.get((key, realm))

    def reclaim(self, slot: Slot) -> None:
        """Drop a slot that nobody uses any more."""
        is_empty = slot.binding is None and slot.private is None
        if is_empty and not (slot.consumers or slot.overrides or slot.state):
            self._slots.pop((slot.key, slot.realm), None)

    def needs(self) -> list[Injection]:
        """Return what every fiber needs that injects something."""
        return list(dict.fromkeys(one for slot in self._slots.values() for one in slot.consumers))

    def keys(self) -> list[str]:
        """Return the keys that somebody provides, for messages."""
        return sorted({key for (key, _), slot in self._slots.items() if slot.binding is not None})

    def publish(self, slot: Slot, fiber: Fiber, value: Any) -> Effect:
        """Provide `value` in `slot`; undone by unloading its consumers, then taking it back.

        Raises ServiceConflictError if the slot is taken.
        """
        if is_provider(value):
            refuse_provider(value, slot.key)
        slot.refuse_second(fiber)
        binding = Binding(slot, fiber, value)
        effect = fiber.register(("service", slot.key), steps=binding.withdraw_steps)
        if slot.binding is not None:
            slot.private = binding
        else:
            slot.binding = binding
        fiber.services[slot.key] = binding
        if fiber.state is FiberState.ACTIVE:
            binding.announce()
        return effect
