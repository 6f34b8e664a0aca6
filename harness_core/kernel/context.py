"""Context: what a plugin sees. The only module that knows all nouns of the kernel.

A context is cheap and immutable: deriving one (`isolate`, `intercept`, a scope's, a child
plugin's) makes a new one that differs in one thing. What is registered through a context belongs
to its fiber and is visible in its scope.

Contract: sections 2 and 3.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar, cast, overload

import anyio

from ..errors import ConfigError, PluginError, ServiceAccessError
from .access import read_service
from .effects import Effect, unwind
from .fiber import Fiber
from .hosting import enter, enter_now
from .injection import Injection
from .kernel import Getter, Kernel, Setter
from .lifecycle import FiberState
from .listeners import Event, Target
from .mount import Mount, Running, UpdateHandler
from .plugin import Injected, read_plugin
from .service import Key, Service, key_of, read_inject
from .services import Override, Slot
from .setup import absorb
from .signatures import accepts, class_of, is_mapping
from .steps import run_steps

__all__ = ["Context", "override"]

S = TypeVar("S", bound=Service)
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class Context:
    """A plugin's view of the tree; the root one opens and closes it.

        async with Context() as root:
            fiber = await root.plugin(my_plugin, {"greeting": "hello"})

    Services are attributes (`ctx.database`) or typed items (`ctx[Database]`).
    """

    fiber: Fiber
    """The fiber that owns what is registered through this context."""
    parent: Context | None
    """The context this one was derived from."""
    tag: object | None
    """The key of the nearest scope, or None."""
    kernel: Kernel
    realms: dict[str, object]
    _intercepts: dict[str, tuple[Mapping[str, Any], ...]]
    acts_for: tuple[Context, ...]

    __iter__ = None  # __getitem__ is for services, not a sequence

    def __init__(self, *, grace: float | None = None) -> None:
        kernel = Kernel()
        fiber = Fiber(kernel.tree, "root", None, grace=grace)
        self.__dict__.update(
            fiber=fiber,
            parent=None,
            tag=None,
            kernel=kernel,
            realms={},
            _intercepts={},
            acts_for=(),
        )
        fiber.ctx = self

    def _derive(self, **changes: Any) -> Context:
        derived = object.__new__(Context)
        own = self.__dict__
        derived.__dict__.update(
            fiber=own["fiber"],
            parent=self,
            tag=own["tag"],
            kernel=own["kernel"],
            realms=own["realms"],
            _intercepts=own["_intercepts"],
            acts_for=own["acts_for"],
        )
        if changes:
            derived.__dict__.update(changes)
        return derived

    # The tree

    async def __aenter__(self) -> Context:
        if self.parent is not None or self.fiber.state is not FiberState.PENDING:
            raise PluginError("only a new root Context() opens a tree, and only once")
        await self.kernel.tree.start()
        self.fiber.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        interrupted = await _to_the_end(self.fiber.dispose().wait)
        while self.kernel.at_close:
            self.kernel.at_close.popitem()[1]()
        interrupted = await _to_the_end(self.kernel.tree.stop) or interrupted
        await self.kernel.tree.leave()
        if interrupted is not None:
            raise interrupted

    @property
    def root(self) -> Context:
        """The context that opened the tree."""
        ctx = self
        while ctx.parent is not None:
            ctx = ctx.parent
        return ctx

    # Plugins

    def plugin(self, plugin: object, config: object = None, **options: Any) -> Fiber:
        """Mount a plugin and return its fiber at once; await the fiber to wait for its load.

        `config` is a mapping or an instance of the plugin's `Config`; keyword options are another
        way to write it. Raises PluginError for something that is no plugin, and
        InactiveFiberError when this context's fiber is closing. An invalid config or a raising
        body makes the fiber FAILED, and is raised by awaiting it. (Section 2.)
        """
        return self.mount(plugin, config, **options)

    def mount(
        self,
        plugin: object,
        config: object = None,
        /,
        *,
        _name: str | None = None,
        _in_place_of: Fiber | None = None,
        **options: Any,
    ) -> Fiber:
        """Do the work of `plugin`: under another name, or where an unloaded plugin stood."""
        if options:
            if config is not None:
                raise PluginError(
                    f"give the config as a mapping or as keyword options, not both: {config!r} "
                    f"and {options!r}"
                )
            config = options
        spec = read_plugin(plugin)
        ctx = self._derive(acts_for=())  # a plugin reads what it injects itself
        running = Running(plugin, spec, config, None, None)
        mount = Mount(running, ctx)
        fiber = Fiber(
            self.kernel.tree,
            _name or spec.name,
            self.fiber,
            setup=mount.run,
            grace=spec.grace,
        )
        fiber.ctx = ctx
        fiber.plugin = plugin
        fiber.updater = mount
        ctx.__dict__["fiber"] = fiber
        self.fiber.adopt(fiber)
        if _in_place_of is not None:
            fiber.inherit(_in_place_of)
        if spec.inject:
            ctx.require(fiber, spec.inject)
        bus = self.kernel.bus
        if bus.heard("plugin/mount"):
            bus.emit("plugin/mount", (fiber,), None)
        try:
            running.config = spec.structure(config)
        except ConfigError as error:
            running.fault = error
            fiber.fail(error, "reading its config")
            return fiber
        fiber.start()
        return fiber

    def require(self, fiber: Fiber, wanted: Mapping[str, Mapping[str, Any] | None]) -> None:
        """Make `fiber`, whose own context this is, need the services `wanted`, and no others."""
        if fiber.requirements is not None:
            fiber.requirements.unwatch()
            fiber.requirements = None
        if wanted or self.parent is not None:
            self.layer(wanted, self.parent)
        fiber.requirements = self.needs(fiber, wanted)

    def needs(
        self, fiber: Fiber, wanted: Mapping[str, Mapping[str, Any] | None]
    ) -> Injection | None:
        """Return the need of services `wanted`, which watches them for `fiber`; None for none."""
        if not wanted:
            return None
        services, realms = self.kernel.services, self.realms
        slots = {key: services.slot(key, realms.get(key)) for key in wanted}
        needs = Injection(fiber, self, slots)
        needs.watch()
        return needs

    def layer(self, wanted: Mapping[str, Mapping[str, Any] | None], above: Context | None) -> None:
        """Put what a plugin asks of the services it injects on top of what `above` says."""
        below = above._intercepts if above is not None else {}
        asked = {key: (*below.get(key, ()), config) for key, config in wanted.items() if config}
        self.__dict__["_intercepts"] = {**below, **asked} if asked else below

    def derive_for(self, life: Fiber, wanted: Mapping[str, Mapping[str, Any] | None]) -> Context:
        """Return the context of a life inside the fiber whose own context this is."""
        ctx = self._derive(fiber=life)
        ctx.layer(wanted, self.parent)
        return ctx

    def inject(self, keys: object, body: Callable[..., object]) -> Fiber:
        """Mount `body` as a child plugin that runs while the services `keys` are there."""
        return self.plugin(Injected(body, read_inject(keys)))

    def own_fiber(self, name: str, *, tag: object | None = None) -> Context:
        """Return a context with a child fiber of its own and no plugin: a scope's."""
        ctx = self._derive()
        fiber = Fiber(self.kernel.tree, name, self.fiber)
        fiber.ctx = ctx
        ctx.__dict__["fiber"] = fiber
        if tag is not None:
            ctx.__dict__["tag"] = tag
        self.fiber.adopt(fiber)
        fiber.start()
        return ctx

    def at_close(self, callback: Callable[[], object], key: object) -> None:
        """Call `callback` when the tree has been disposed, once for each hashable `key`.

        For what no fiber can own, because it outlives the fiber.
        """
        self.kernel.at_close[key] = callback

    def on_update(self, handler: UpdateHandler) -> Effect:
        """Accept config updates in place: `handler(config)` instead of a restart.

        The handler may be asynchronous. If it raises, the old config stays; if it returns False,
        the plugin is restarted with the new config.
        """
        mount = self.fiber.updater
        if not isinstance(mount, Mount):
            raise PluginError("only a plugin's own context takes config updates")
        return mount.accept_updates(handler)

    def carry(self, key: str, default: T) -> T:
        """Return what this plugin kept under `key` in an earlier life, else keep `default`.

        The value outlives restarts and reloads, and goes when the plugin is disposed. Carry an
        object that can change, such as a dict: it is the same one in every life. (Section 9.)
        """
        self.fiber.check_open()
        return cast("T", self.fiber.carried.setdefault(key, default))

    def watch_file(self, path: str | Path) -> str:
        """Read a UTF-8 text file, and let a change of it restart this plugin in dev mode.

        A byte-order mark is dropped and line ends become a single newline. A plugin that is put
        back after a reload that failed reads what it has read before. Raises OSError or
        UnicodeDecodeError. (Section 9.)
        """
        place = Path(path).absolute()
        watched, texts = self.kernel.watched_files, self.kernel.texts

        def unwatch() -> None:
            fibers = watched[place]
            fibers.remove(self.fiber)
            self.kernel.note_read(self.fiber, place)
            if not fibers:
                del watched[place]
                texts.pop(place, None)

        self.fiber.register(("watched file", str(path)), unwatch)
        watched.setdefault(place, []).append(self.fiber)
        text = self.kernel.tree.gate.remembered(self.fiber, place)
        if text is None:
            text = place.read_text(encoding="utf-8-sig")
        texts[place] = text
        return text

    # Effects

    def effect(self, body: Callable[..., object], label: str | None = None) -> Effect:
        """Run `body` like a plugin's body and return the effect that undoes it.

        `body` takes this context, or nothing. Whatever it registers belongs to the effect. If it
        raises, nothing is left and the error is raised here; an asynchronous body's by awaiting
        the effect. (Laws L3, L5.)
        """
        name = label or str(getattr(body, "__name__", "effect"))
        arity = accepts(body, 1, required=True)
        fiber = self.fiber
        effect = fiber.register(name)
        switch = fiber.collect_into(effect)
        switch(True)
        try:
            rest = absorb(fiber, body(self) if arity else body(), name)
        except BaseException as error:
            fiber.attribute(error, f"setting up {effect}")
            switch(False)
            effect()
            raise
        switch(False)
        if rest is not None:
            effect.set_up(rest, switch)
        elif effect.disposed and effect.children:
            # The body ended its own effect or fiber, and then handed over a disposer.
            run_steps(fiber.tree, unwind(effect.children))
        return effect

    @overload
    async def enter(self, manager: AbstractAsyncContextManager[T]) -> T: ...
    @overload
    async def enter(self, manager: AbstractContextManager[T]) -> T: ...
    async def enter(self, manager: Any) -> Any:
        """Enter a context manager that is left when this fiber is torn down; return its value.

        An asynchronous one is held by a task of its own, which both enters and leaves it.
        """
        cls = class_of(manager)
        if hasattr(cls, "__aenter__"):
            return await enter(self.fiber, manager, cls.__name__)
        if not hasattr(cls, "__enter__"):
            raise PluginError(f"{manager!r} is no context manager")
        return enter_now(self.fiber, manager, cls.__name__)

    def start_soon(
        self, fn: Callable[..., Awaitable[Any]], *args: object, name: str | None = None
    ) -> Effect:
        """Run `fn(*args)` in a background task, cancelled and awaited at teardown.

        If it raises, the fiber is torn down and FAILED.
        """
        label = name or str(getattr(fn, "__qualname__", None) or repr(fn))
        return self.fiber.run_soon(lambda: fn(*args), ("task", label))

    # Services

    def provide(self, key: Key, value: object) -> Effect:
        """Publish a value, or a dependency-injector provider, as the service `key`.

        Raises ServiceConflictError if the key is taken in this realm.
        """
        return self.publish_service(key_of(key), value)

    def publish_service(self, key: str, value: object) -> Effect:
        """Publish a value under a key that has been checked."""
        if key in RESERVED:
            raise PluginError(f'service key "{key}" is taken by Context.{key}; choose another')
        self.fiber.check_open()
        return self.kernel.services.publish(self.service_slot(key), self.fiber, value)

    def check_free(self, key: str) -> None:
        """Raise ServiceConflictError if the key is taken in this realm."""
        slot = self.kernel.services.peek(key, self.realms.get(key))
        if slot is not None:
            slot.refuse_second(self.fiber)

    def service_slot(self, key: str) -> Slot:
        return self.kernel.services.slot(key, self.realms.get(key))

    def get(self, key: Key) -> Any:
        """Return the service `key` as seen from here, or None if it is not available."""
        name = key_of(key)
        slot = self.kernel.services.peek(name, self.realms.get(name))
        found = slot.find(self) if slot is not None else None
        return found.read(self) if found is not None and found.available else None

    def provided(self, prefix: str = "") -> tuple[str, ...]:
        """Return the keys of the services that `get` finds from here, sorted.

        With `prefix`, those that begin with it. Reading them needs no `inject`. (Section 2.)
        """
        keys = self.kernel.services.keys()
        return tuple(key for key in keys if key.startswith(prefix) and self.get(key) is not None)

    @overload
    def __getitem__(self, key: type[S]) -> S: ...
    @overload
    def __getitem__(self, key: str) -> Any: ...
    def __getitem__(self, key: Any) -> Any:
        name = key if isinstance(key, str) else key_of(key)
        cached = self.__dict__.get(name)
        return cached if isinstance(cached, Service) else read_service(self, name)

    def __getattr__(self, name: str) -> Any:
        # Reached only for what is neither a method nor a service this context has read before.
        if name.startswith("_"):
            raise AttributeError(name)
        accessor = self.kernel.accessors.get(name)
        return accessor[0](self) if accessor is not None else read_service(self, name)

    def __setattr__(self, name: str, value: object) -> None:
        accessor = self.kernel.accessors.get(name)
        if accessor is None or accessor[1] is None:
            raise AttributeError(
                f"a context has no state of its own: cannot set {name!r}. Publish it with "
                f"ctx.provide({name!r}, ...), or declare it with ctx.accessor({name!r}, get, set)."
            )
        accessor[1](self, value)

    def acting_for(self, home: Context) -> Context:
        """Return this context with leave to read what `home` may read (section 2, "acts for")."""
        if home.fiber is self.fiber:
            return self
        return self._derive(acts_for=(*self.acts_for, home))

    def recheck(self, key: Key) -> None:
        """Let the consumers of a service look at its `check()` again: call it when that changes."""
        slot = self.service_slot(key_of(key))
        slot.changed(slot.binding)

    def isolate(self, key: Key, label: str | None = None) -> Context:
        """Return a context with a slot of its own for `key`; one `label` shares one slot."""
        name = key_of(key)
        realm: object = object() if label is None else ("label", label)
        return self._derive(realms={**self.realms, name: realm})

    def intercept(self, key: Key, config: Mapping[str, Any]) -> Context:
        """Return a context for which the service `key` sees `config` on top of outer layers."""
        name = key_of(key)
        if not isinstance(config, Mapping):
            raise PluginError(f"intercept config must be a mapping, got {config!r}")
        layers = (*self._intercepts.get(name, ()), config)
        return self._derive(_intercepts={**self._intercepts, name: layers})

    def intercepted(self, key: Key) -> dict[str, Any]:
        """Return the intercept config of `key`, merged root-most first."""
        merged: dict[str, Any] = {}
        for layer in self._intercepts.get(key_of(key), ()):
            merged.update(layer)
        return merged

    def shared_state(self, key: Key, name: str, make: Callable[[], T]) -> T:
        """Return what a service keeps over its restarts, made when it is first asked for.

        This is where registrations live that callers own: they outlive the service instance.
        `forget_state` drops it once it holds nothing.
        """
        state = self.service_slot(key_of(key)).state
        if name not in state:
            state[name] = make()
        return cast("T", state[name])

    def forget_state(self, key: Key, name: str) -> None:
        """Drop what `shared_state` keeps."""
        slot = self.service_slot(key_of(key))
        slot.state.pop(name, None)
        self.kernel.services.reclaim(slot)

    # Attributes of contexts

    def accessor(self, name: str, getter: Getter, setter: Setter | None = None) -> Effect:
        """Add an attribute to every context of the tree: `getter(ctx)`, `setter(ctx, value)`."""
        kernel = self.kernel
        if name in RESERVED or not name.isidentifier() or not kernel.is_free(name, self.fiber):
            raise PluginError(f'context attribute "{name}" is taken or no identifier')
        pair = (getter, setter)
        effect = self.fiber.register(("accessor", name), lambda: kernel.remove_accessor(name, pair))
        kernel.add_accessor(name, pair, self.fiber)
        return effect

    def mixin(self, key: Key, names: Iterable[str] | Mapping[str, str]) -> Effect:
        """Make attributes of the service `key` attributes of every context.

        `names` lists them, or maps names on the context to names on the service.
        """
        service = key_of(key)
        pairs = _pairs(names)

        def getter(attribute: str) -> Getter:
            def get(ctx: Context) -> Any:
                found = ctx.get(service)
                if found is None:
                    raise ServiceAccessError(
                        service, ctx.fiber, f'"{attribute}" needs service "{service}"'
                    )
                return getattr(found, attribute)

            return get

        def body() -> None:
            for name, attribute in pairs.items():
                self.accessor(name, getter(attribute))

        return self.effect(body, label=f"mixin of {service}")

    # Events

    @overload
    def on(
        self,
        event: str | Event[Any, Any],
        listener: Callable[..., Any],
        *,
        prepend: bool = ...,
        unfiltered: bool = ...,
    ) -> Effect: ...
    @overload
    def on(
        self,
        event: str | Event[Any, Any],
        listener: None = ...,
        *,
        prepend: bool = ...,
        unfiltered: bool = ...,
    ) -> Callable[[F], F]: ...
    def on(
        self,
        event: str | Event[Any, Any],
        listener: Callable[..., Any] | None = None,
        *,
        prepend: bool = False,
        unfiltered: bool = False,
    ) -> Effect | Callable[[F], F]:
        """Register a listener; without one, return a decorator that registers.

        `prepend` calls it before the others; `unfiltered` lets it hear dispatches for any scope.
        (Section 3.)
        """
        heard: Effect | Callable[[F], F] = self._listen(
            event, listener, prepend, unfiltered, once=False
        )
        return heard

    def once(
        self,
        event: str | Event[Any, Any],
        listener: Callable[..., Any] | None = None,
        *,
        prepend: bool = False,
        unfiltered: bool = False,
    ) -> Any:
        """Register a listener that is called at most once, however many dispatches overlap."""
        return self._listen(event, listener, prepend, unfiltered, once=True)

    def _listen(
        self,
        event: str | Event[Any, Any],
        listener: Callable[..., Any] | None,
        prepend: bool,
        unfiltered: bool,
        *,
        once: bool,
    ) -> Any:
        if listener is not None:
            return self.kernel.bus.on(
                self, self.tag, event, listener, prepend=prepend, unfiltered=unfiltered, once=once
            )

        def decorate(fn: F) -> F:
            self._listen(event, fn, prepend, unfiltered, once=once)
            return fn

        return decorate

    def emit(self, event: str | Event[Any, Any], *args: Any, target: Target | None = None) -> None:
        """Call every listener in order. Coroutine listeners run as tasks of their own fibers.

        A raising listener is reported and stops nobody, unless the event is vetoing.
        """
        self.kernel.tree.check_thread()
        self.kernel.bus.emit(event, args, target)

    async def parallel(
        self, event: str | Event[Any, Any], *args: Any, target: Target | None = None
    ) -> None:
        """Run every listener at once and wait for all; raise an ExceptionGroup of all failures."""
        self.kernel.tree.check_thread()
        await self.kernel.bus.parallel(event, args, target)

    async def serial(
        self, event: str | Event[Any, Any], *args: Any, target: Target | None = None
    ) -> Any:
        """Call listeners in order; return the first result that is not None or False."""
        self.kernel.tree.check_thread()
        return await self.kernel.bus.serial(event, args, target)

    def bail(self, event: str | Event[Any, Any], *args: Any, target: Target | None = None) -> Any:
        """Call synchronous listeners in order; return the first result not None or False."""
        self.kernel.tree.check_thread()
        return self.kernel.bus.bail(event, args, target)

    def waterfall(
        self,
        event: str | Event[Any, Any],
        *args: Any,
        inner: Callable[..., Any] | None = None,
        target: Target | None = None,
    ) -> Coroutine[Any, Any, Any]:
        """Run listeners as middleware around `inner`; return what the outermost returns.

        Each listener gets `(*args, next)`. `inner` is called without arguments, or with `args` if
        it asks for them; without it the innermost result is the first argument.
        """
        self.kernel.tree.check_thread()
        return self.kernel.bus.waterfall(event, args, _innermost(inner, args), target)

    def __repr__(self) -> str:
        scope = f" scope={self.tag!r}" if self.tag is not None else ""
        return f"<Context of {self.fiber.path}{scope}>"


RESERVED = frozenset([*dir(Context), *Context.__annotations__, "container"])
"""Names that contexts have themselves."""


async def _to_the_end(wait: Callable[[], Awaitable[None]]) -> BaseException | None:
    """Wait for something that must be over; return the cancellation that came meanwhile.

    The shield holds off cancel scopes; `asyncio` timeouts and `task.cancel()` come through it.
    """
    interrupted: BaseException | None = None
    is_over = False
    with anyio.CancelScope(shield=True):
        while not is_over:
            try:
                await wait()
                is_over = True
            except anyio.get_cancelled_exc_class() as error:
                interrupted = error
    return interrupted


def _pairs(names: Iterable[str] | Mapping[str, str]) -> dict[str, str]:
    if is_mapping(names):
        return dict(names)
    return {name: name for name in names}


def _innermost(inner: Callable[..., Any] | None, args: tuple[Any, ...]) -> Callable[[], Any]:
    if inner is None:
        return lambda: args[0] if args else None
    count = accepts(inner, len(args), required=True)
    return (lambda: inner(*args[:count])) if count else inner


def override(ctx: Context, key: Key, value: object) -> Override:
    """Give everything below `ctx` another value for a service while the `with` block runs.

        with override(root, "database", FakeDatabase()):
            ...

    Ending it takes back exactly itself, in whatever order overrides end. (Section 2.)
    """
    if isinstance(value, Service) and "home" not in value.__dict__:
        value.provided_by(ctx)
    name = key_of(key)
    return Override(lambda: ctx.service_slot(name), ctx, value)
