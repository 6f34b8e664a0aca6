"""What counts as a plugin, and what it declares about itself.

`read_plugin` turns every accepted form into one `PluginSpec`; the rest of the kernel knows only
that. Contract: section 2, "Plugin forms", "Config" and "dependency-injector" (plugin containers).
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import ConfigError, PluginError
from .config import structure
from .service import Key, Service, read_inject
from .signatures import accepts

if TYPE_CHECKING:
    from .context import Context

__all__ = ["Injected", "PluginSpec", "inject", "read_plugin"]

Intercepts = Mapping[str, Any]
_F = TypeVar("_F")

_FORMS = (
    "expected a function plugin(ctx) or plugin(ctx, config), a module or object with apply, "
    "or a class deriving from Service"
)


class PluginSpec:
    """What the kernel needs to know to run a plugin."""

    __slots__ = (
        "arity",
        "body",
        "config_class",
        "container_class",
        "grace",
        "inject",
        "name",
        "overlap",
        "provides",
    )

    def __init__(self, name: str, body: Callable[..., object], arity: int) -> None:
        self.name = name
        self.body = body
        self.arity = arity
        self.inject: dict[str, Intercepts | None] = {}
        self.provides: tuple[str, ...] = ()
        """Keys the plugin says it provides, for reports on who waits for whom."""
        self.config_class: Any = None
        self.container_class: Any = None
        self.grace: float | None = None
        self.overlap = False
        """Whether two lives of it may be there at once, so that its next begins before it ends."""

    def structure(self, raw: object) -> Any:
        """Return the config the body gets; raise ConfigError if `raw` will not do."""
        if self.config_class is not None:
            return structure(self.config_class, raw, self.name)
        if self.arity < 2 and raw:
            raise ConfigError([f"the plugin takes no config, got {raw!r}"], plugin=self.name)
        return {} if raw is None else raw

    def run(self, ctx: Context, config: object) -> object:
        """Call the body."""
        if self.arity >= 2:
            return self.body(ctx, config)
        return self.body(ctx) if self.arity else self.body()


def inject(*keys: Key | list[Key] | Mapping[Key, Intercepts | None]) -> Callable[[_F], _F]:
    """Declare, as a decorator, which services a plugin injects.

        @inject("database", Cache)
        def plugin(ctx): ...

    Takes keys, or one list of keys, or one mapping from keys to intercept config. Raises
    PluginError for anything else.
    """
    declared: object = keys[0] if len(keys) == 1 else list(keys)
    wanted = read_inject(declared)

    def decorate(plugin: _F) -> _F:
        plugin.inject = wanted  # type: ignore[attr-defined]
        return plugin

    return decorate


class Injected:
    """A plugin made of a body and the services it waits for; see `Context.inject`.

    It gives itself out as coming from the module of its body, for whoever follows code.
    """

    def __init__(
        self, body: Callable[..., object], wanted: Mapping[str, Intercepts | None]
    ) -> None:
        self.body = body
        self.inject = wanted
        self.name = getattr(body, "__name__", "inject")
        self.overlap = getattr(body, "overlap", False)
        self.__module__ = getattr(body, "__module__", None) or type(self).__module__
        self._takes_context = accepts(body, 1, required=True)

    def apply(self, ctx: Context) -> object:
        """Run the body, with the context or without."""
        return self.body(ctx) if self._takes_context else self.body()


def read_plugin(plugin: object) -> PluginSpec:
    """Return what a plugin is and declares; raise PluginError if it is none."""
    body, arity = _read_body(plugin)
    if arity == 0:
        raise PluginError(f"{plugin!r} takes no arguments: {_FORMS}")
    spec = PluginSpec(_name_of(plugin), body, arity)
    if not isinstance(plugin, types.FunctionType) or plugin.__dict__:
        _read_attributes(plugin, spec)
    return spec


def _read_attributes(plugin: object, spec: PluginSpec) -> None:
    declared = _declared_inject(plugin)
    if declared is not None:
        spec.inject = read_inject(declared)
    container_class = getattr(plugin, "Container", None)
    if container_class is not None:
        from .containers import dependencies_of

        spec.container_class = container_class
        spec.inject = {**dict.fromkeys(dependencies_of(container_class)), **spec.inject}
    provides: str | Iterable[str] = getattr(plugin, "provides", ())
    spec.provides = (provides,) if isinstance(provides, str) else tuple(provides)
    spec.config_class = getattr(plugin, "Config", None)
    spec.grace = getattr(plugin, "grace", None)
    spec.overlap = _read_overlap(plugin)


def _declared_inject(plugin: object) -> object:
    """Return what a plugin says it injects: itself, or its decorated `apply`."""
    declared: object = getattr(plugin, "inject", None)
    if declared is inject:  # a module that has imported the decorator
        declared = None
    return getattr(getattr(plugin, "apply", None), "inject", None) if declared is None else declared


def _read_overlap(plugin: object) -> bool:
    overlap: object = getattr(plugin, "overlap", False)
    if not isinstance(overlap, bool):
        raise PluginError(f"overlap is {overlap!r}: expected True or False")
    return overlap


def _read_body(plugin: object) -> tuple[Callable[..., object], int]:
    """Return what to call to run a plugin, and with how many arguments."""
    if isinstance(plugin, types.FunctionType):
        return plugin, accepts(plugin, 2)
    if isinstance(plugin, type):
        return _read_class(plugin)
    apply = getattr(plugin, "apply", None)
    body = apply if callable(apply) else plugin
    if callable(body):
        return body, accepts(body, 2)
    raise PluginError(f"{plugin!r} ({type(plugin).__name__}) is not a plugin: {_FORMS}")


def _read_class(cls: type[Any]) -> tuple[Callable[..., object], int]:
    if issubclass(cls, Service):
        if not cls.key:
            raise PluginError(f'service {cls.__name__} has no key: add key="..." to its class')
        return _service_body(cls), 2
    if isinstance(inspect.getattr_static(cls, "apply", None), types.FunctionType):
        name = cls.__name__
        raise PluginError(f"{name}.apply is a method: mount an instance of it, {name}()")
    apply = getattr(cls, "apply", None)
    if callable(apply):
        return apply, accepts(apply, 2)
    raise PluginError(f"{cls!r} is not a plugin: {_FORMS}")


def _name_of(plugin: object) -> str:
    name = getattr(plugin, "name", None)
    if isinstance(name, str) and name:
        return name
    if isinstance(plugin, types.ModuleType):
        return plugin.__name__.rpartition(".")[2]
    key = getattr(plugin, "key", None)
    if isinstance(plugin, type) and isinstance(key, str):
        return key
    target: object = getattr(plugin, "func", plugin)  # what a functools.partial calls
    name = str(getattr(target, "__name__", None) or type(target).__name__)
    return "anonymous" if name == "<lambda>" else name


def _service_body(cls: type[Service]) -> Callable[..., object]:
    """Return the body that makes, sets up and publishes a service."""

    def body(ctx: Context, config: object) -> object:
        ctx.check_free(cls.key)
        instance = object.__new__(cls)
        instance.provided_by(ctx)
        if cls.__init__ is not object.__init__:
            count = accepts(cls.__init__, 3) - 1  # without self
            instance.__init__(*(ctx, config)[:count])  # type: ignore[misc]
        setup = getattr(instance, "setup", None)
        publish = ctx.publish_service
        if setup is None:
            publish(cls.key, instance)
            return None
        return _set_up_then(ctx, setup(), lambda: publish(cls.key, instance))

    return body


def _set_up_then(ctx: Context, outcome: object, publish: Callable[[], object]) -> object:
    from .setup import absorb

    rest = absorb(ctx.fiber, outcome, f"setup of {ctx.fiber.name}")
    if rest is None:
        publish()
        return None

    async def finish() -> None:
        await rest
        publish()

    return finish()
