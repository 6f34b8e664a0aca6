"""Services: who provides what under which key, who waits for it, and what a read gives.

A `Slot` is one key in one realm. It holds at most one `Binding` (a value and the fiber that
provides it), the overrides in force, and the fibers that inject the key. Everything that changes a
slot goes through `publish`, `Binding.withdraw_steps` and `Override`, which tell those fibers.

Contract: section 2, "Services", "Inject", "Realms" and "dependency-injector" (bindings).
"""

from __future__ import annotations

import itertools
import sys
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, cast

from ..errors import PluginError, ServiceConflictError
from .effects import Effect
from .fiber import Fiber
from .lifecycle import FiberState
from .setup import class_name
from .steps import Steps

if TYPE_CHECKING:
    from .context import Context

__all__ = ["Binding", "Injection", "Key", "Service", "Services", "Slot", "key_of", "read_inject"]

Key: TypeAlias = "str | type[Service]"

ServiceListener: TypeAlias = Callable[[str, object], None]


class Service:
    """Base of a capability that plugins share, published under `key`.

        class Database(Service, key="database"):
            def __init__(self, ctx, config): ...

    Mounting the class publishes an instance. `setup`, if the class has it, runs before that like
    a plugin body. What a consumer reads is the same object seen from the consumer's context:
    it shares all attributes, and `self.ctx` is the caller's context, so that what a method
    registers belongs to the caller. `self.home` is the provider's own context.

    Attributes live in one `__dict__` that all views share; a subclass must not add `__slots__`.
    """

    __slots__ = ("__dict__", "__weakref__", "_bridge", "_caller")

    key: ClassVar[str] = ""
    home: Context
    _caller: Context
    _bridge: Context | None

    def __init_subclass__(cls, *, key: str | None = None, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if key is not None:
            cls.key = key
        if cls.__dict__.get("__slots__"):
            raise PluginError(
                f"service {cls.__name__} has __slots__: the views of a service share one __dict__. "
                "Leave __slots__ out; with attrs, use @attrs.define(slots=False)."
            )

    @property
    def ctx(self) -> Context:
        """The context of whoever called, which may also read what this service injects."""
        bridge = self._bridge
        if bridge is None:
            bridge = self._bridge = self._caller.acting_for(self.home)
        return bridge

    def provided_by(self, ctx: Context) -> None:
        """Make `ctx` the service's home. Called once, before anybody sees it."""
        self._caller = self._bridge = self.home = ctx

    def seen_from(self, ctx: Context) -> Any:
        """Return this service as seen from `ctx`: same attributes, other caller."""
        view = object.__new__(type(self))
        view.__dict__ = self.__dict__
        view._caller = ctx
        view._bridge = None
        return view

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Service) and self.__dict__ is other.__dict__

    def __hash__(self) -> int:
        return id(self.__dict__)


def key_of(key: Key) -> str:
    """Return the name of a key given as a name or as a service class."""
    if isinstance(key, str):
        name = key
    else:
        name = getattr(key, "key", None) or ""
        if not isinstance(name, str) or not name:
            raise PluginError(
                f"{key!r} is no service key: expected a name, or a Service class declared with "
                'key="..."'
            )
    if not name.isidentifier() or name.startswith("_"):
        raise PluginError(f"service key {name!r} must be an identifier that starts with a letter")
    return name


def read_inject(inject: object) -> dict[str, Mapping[str, Any] | None]:
    """Return what a plugin injects as keys with their intercept config.

    Accepts one key, an iterable of keys, or a mapping from keys to intercept config.
    """
    if inject is None:
        return {}
    if isinstance(inject, str | type):
        return {key_of(inject): None}
    if isinstance(inject, Mapping):
        mapping = cast("Mapping[Key, object]", inject)
        found: dict[str, Mapping[str, Any] | None] = {}
        for key, config in mapping.items():
            if config is not None and not isinstance(config, Mapping):
                raise PluginError(
                    f"inject maps service keys to intercept config (a mapping or None), but "
                    f"{key!r} is mapped to {config!r}; to inject several services, use a list: "
                    'inject = ["database", "cache"]'
                )
            found[key_of(key)] = cast("Mapping[str, Any] | None", config)
        return found
    if isinstance(inject, Iterable):
        return {key_of(key): None for key in cast("Iterable[Key]", inject)}
    raise PluginError(f"inject is {inject!r}: expected keys, or a mapping of keys")


_serials = itertools.count(1)


class Binding:
    """One value under one key, and the fiber that provides it."""

    __slots__ = (
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
        self.made_home = isinstance(value, Service) and "home" not in vars(value)
        """Whether a service object was provided as it is, and got its home by that."""
        if self.made_home:
            value.provided_by(fiber.ctx)
        self._views: weakref.WeakSet[Context] = weakref.WeakSet()

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
            if self.check is None and not self.slot.overrides and not self.withdrawn:
                ctx.__dict__[self.slot.key] = view
                self._views.add(ctx)
            return view
        return resolve_provider(value, self.slot.key) if self.provider else value

    def forget_views(self) -> None:
        """Make every context look the service up again."""
        for ctx in self._views:
            ctx.__dict__.pop(self.slot.key, None)
        self._views.clear()

    def announce(self) -> None:
        """Tell the consumers that something about this binding has changed."""
        self.slot.changed(self)

    def withdraw_steps(self) -> Steps:
        """Take the service back: no new reader, then unload its consumers, newest first."""
        slot = self.slot
        self.withdrawn = True
        if slot.binding is self:
            slot.binding = None
        self.fiber.services.pop(slot.key, None)
        self.forget_views()
        for injection in reversed(tuple(slot.consumers)):
            consumer = injection.fiber
            if not injection.uses(self) or _is_within(self.fiber, consumer):
                continue
            if consumer.waits_for(self.fiber):
                continue  # two that use each other: one of them has to go first
            self.fiber.tree.gate.touch(consumer, because_of=self.fiber)
            self.fiber.waits_on = consumer
            yield consumer.unload_steps()
            self.fiber.waits_on = None
        if self.made_home:
            vars(self.value).pop("home", None)
        slot.changed(self)
        slot.services.reclaim(slot)


def _is_within(fiber: Fiber | None, ancestor: Fiber) -> bool:
    while fiber is not None:
        if fiber is ancestor:
            return True
        fiber = fiber.parent
    return False


class Slot:
    """One service key in one realm."""

    __slots__ = ("binding", "consumers", "key", "overrides", "realm", "services", "state")

    def __init__(self, services: Services, key: str, realm: object) -> None:
        self.services = services
        self.key = key
        self.realm = realm
        self.binding: Binding | None = None
        self.overrides: list[Override] = []
        self.consumers: dict[Injection, None] = {}
        self.state: dict[str, Any] = {}
        """What outlives a restart of the service; see `Context.shared_state`."""

    def changed(self, binding: Binding | None) -> None:
        """Let every consumer look again, and tell the `service/change` listeners."""
        tree = self.services.tree
        for injection in tuple(self.consumers):
            tree.enqueue(injection.fiber.refresh)
        if self.services.on_change is not None:
            self.services.on_change(self.key, binding.fiber if binding else None)

    def find(self, ctx: Context) -> Binding | Override | None:
        """Return what `ctx` reads: the nearest override above it, else the binding."""
        if self.overrides:
            override = self._nearest_override(ctx)
            if override is not None:
                return override
        return self.binding

    def _nearest_override(self, ctx: Context | None) -> Override | None:
        while ctx is not None:
            for override in reversed(self.overrides):
                if override.ctx is ctx:
                    return override
            ctx = ctx.parent
        return None


_RUNNING = frozenset({FiberState.LOADING, FiberState.ACTIVE, FiberState.UNLOADING})


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


class Injection:
    """What one fiber needs, and what it was given: the `Requirements` of the fiber."""

    __slots__ = ("_failed_with", "ctx", "fiber", "slots", "taken")

    def __init__(self, fiber: Fiber, ctx: Context, slots: dict[str, Slot]) -> None:
        self.fiber = fiber
        self.ctx = ctx
        self.slots = slots
        self.taken: dict[str, Binding | Override] = {}
        self._failed_with: dict[str, int] = {}

    def watch(self) -> None:
        """Be told of changes, until `unwatch`."""
        for slot in self.slots.values():
            slot.consumers[self] = None

    def unwatch(self) -> None:
        """Stop being told."""
        for slot in self.slots.values():
            slot.consumers.pop(self, None)
            slot.services.reclaim(slot)

    def _find(self) -> dict[str, Binding | Override] | None:
        found: dict[str, Binding | Override] = {}
        for key, slot in self.slots.items():
            binding = slot.find(self.ctx)
            if binding is None or not binding.available:
                return None
            found[key] = binding
        return found

    def take(self) -> bool:
        """Resolve all; True if all are there."""
        found = self._find()
        if found is None:
            return False
        self.taken = found
        return True

    def hold(self) -> bool:
        """Whether what was taken is still what would be taken now.

        Between a binding and an override there is no difference that matters: a read goes
        through to whichever is in force.
        """
        found = self._find()
        if found is None:
            return False
        for key, binding in found.items():
            taken = self.taken.get(key)
            overridden = isinstance(binding, Override) or isinstance(taken, Override)
            if binding is not taken and not (overridden and taken is not None):
                return False
        self.taken = found
        return True

    def drop(self) -> None:
        """Forget what was taken."""
        self.taken = {}

    def remember_failure(self) -> None:
        """Forget what was taken, but for knowing it again: a failed fiber keeps nothing alive."""
        self._failed_with = {key: found.serial for key, found in self.taken.items()}
        self.taken = {}

    def offer_others(self) -> bool:
        """Whether all are there, and not the very ones of the failure."""
        found = self._find()
        return found is not None and self._failed_with != {
            key: one.serial for key, one in found.items()
        }

    def uses(self, binding: Binding) -> bool:
        """Whether the fiber was given `binding` and still runs on it."""
        return self.taken.get(binding.slot.key) is binding and self.fiber.state in _RUNNING

    def missing(self) -> list[str]:
        """Return the keys that are not available."""
        absent: list[str] = []
        for key, slot in self.slots.items():
            binding = slot.find(self.ctx)
            if binding is None or not binding.available:
                absent.append(key)
        return absent


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
        if slot.binding is None and not (slot.consumers or slot.overrides or slot.state):
            self._slots.pop((slot.key, slot.realm), None)

    def keys(self) -> list[str]:
        """Return the keys that somebody provides, for messages."""
        return sorted({key for (key, _), slot in self._slots.items() if slot.binding is not None})

    def publish(self, slot: Slot, fiber: Fiber, value: Any) -> Effect:
        """Provide `value` in `slot`; undone by unloading its consumers, then taking it back.

        Raises ServiceConflictError if the slot is taken.
        """
        if is_provider(value):
            refuse_provider(value, slot.key)
        if slot.binding is not None:
            raise ServiceConflictError(slot.key, slot.binding.fiber.path)
        binding = Binding(slot, fiber, value)
        effect = fiber.register(("service", slot.key), steps=binding.withdraw_steps)
        slot.binding = binding
        fiber.services[slot.key] = binding
        if fiber.state is FiberState.ACTIVE:
            binding.announce()
        return effect


# Providers of dependency-injector, which is imported only when somebody uses it


def is_provider(value: object) -> bool:
    """Whether `value` is a provider of dependency-injector."""
    module = sys.modules.get("dependency_injector.providers")
    return module is not None and isinstance(value, module.Provider)


def refuse_provider(provider: Any, key: str) -> None:
    """Raise PluginError for a provider whose lifetime is not synchronous."""
    from dependency_injector import providers

    kinds = providers.Resource, providers.Coroutine
    parts: Iterable[Any] = provider.traverse(types=kinds)
    for part in (provider, *parts):
        if not isinstance(part, kinds) and not part.is_async_mode_enabled():
            continue
        raise PluginError(
            f'service "{key}": {class_name(part)} provides asynchronously or shuts down by '
            "itself, in another task and in an order that cannot be trusted. Acquire it in the "
            "plugin with `await ctx.enter(...)` and provide the value."
        )


def resolve_provider(provider: Any, key: str) -> Any:
    """Return what a provider gives for one read."""
    value = provider()
    if hasattr(value, "__await__"):
        if hasattr(value, "close"):
            value.close()
        raise PluginError(
            f'service "{key}": its provider gave an awaitable. Acquire it in the plugin with '
            "`await ctx.enter(...)` and provide the value."
        )
    return value
