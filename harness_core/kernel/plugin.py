"""What counts as a plugin, and what it declares about itself.

`read_plugin` turns every accepted form into one `PluginSpec`; the rest of the kernel knows only
that. Contract: section 2, "Plugin forms", "Config" and "dependency-injector" (plugin containers).
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from ..errors import ConfigError, PluginError
from .config import structure
from .services import Key, Service, read_inject
from .setup import accepts

if TYPE_CHECKING:
    from .context import Context

__all__ = ["PluginSpec", "inject", "read_plugin"]

Intercepts = Mapping[str, Any]
_F = TypeVar("_F")

_FORMS = (
    "expected a function plugin(ctx) or plugin(ctx, config), a module or object with apply, "
    "or a class deriving from Service"
)


@attrs.frozen
class PluginSpec:
    """What the kernel needs to know to run a plugin."""

    plugin: object
    name: str
    body: Callable[..., object]
    arity: int
    inject: dict[str, Intercepts | None]
    provides: tuple[str, ...] = ()
    config_class: Any = None
    container_class: Any = None
    grace: float | None = None

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


def read_plugin(plugin: object) -> PluginSpec:
    """Return what a plugin is and declares; raise PluginError if it is none."""
    if isinstance(plugin, types.FunctionType):
        body: Callable[..., object] = plugin
        arity = accepts(plugin, 2)
    elif isinstance(plugin, type) and issubclass(plugin, Service):
        if not plugin.key:
            raise PluginError(f'service {plugin.__name__} has no key: add key="..." to its class')
        body, arity = _service_body(plugin), 2
    else:
        body = _find_body(plugin)
        arity = accepts(body, 2)
    if arity == 0:
        raise PluginError(f"{plugin!r} takes no arguments: {_FORMS}")
    declared = getattr(plugin, "inject", None)
    container_class = getattr(plugin, "Container", None)
    needs = read_inject(declared) if declared is not None else {}
    if container_class is not None:
        from .containers import dependencies_of

        needs = {**dict.fromkeys(dependencies_of(container_class)), **needs}
    provides = getattr(plugin, "provides", ())
    return PluginSpec(
        plugin,
        _name_of(plugin),
        body,
        arity,
        needs,
        (provides,) if isinstance(provides, str) else tuple(provides),
        getattr(plugin, "Config", None),
        container_class,
        getattr(plugin, "grace", None),
    )


def _find_body(plugin: object) -> Callable[..., object]:
    apply = getattr(plugin, "apply", None)
    if callable(apply):
        return apply  # type: ignore[no-any-return]
    if callable(plugin) and not isinstance(plugin, type):
        return plugin
    raise PluginError(f"{plugin!r} ({type(plugin).__name__}) is not a plugin: {_FORMS}")


def _name_of(plugin: object) -> str:
    name = getattr(plugin, "name", None)
    if isinstance(name, str) and name:
        return name
    if isinstance(plugin, type) and issubclass(plugin, Service):
        return plugin.key
    if isinstance(plugin, types.ModuleType):
        return plugin.__name__.rpartition(".")[2]
    target = getattr(plugin, "func", plugin)
    name = getattr(target, "__name__", None) or type(target).__name__
    return "anonymous" if name == "<lambda>" else str(name)


def _service_body(cls: type[Service]) -> Callable[..., object]:
    """Return the body that makes, sets up and publishes a service."""

    def body(ctx: Context, config: object) -> object:
        ctx.check_free(cls.key)
        instance = object.__new__(cls)
        instance._caller = ctx
        instance._bridge = ctx
        instance.home = ctx
        takes_config = accepts(cls.__init__, 3)
        arguments = (ctx, config)[: max(0, takes_config - 1)]
        instance.__init__(*arguments)  # type: ignore[misc]
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


def describe_callable(function: object) -> str:
    """Return a name for a callable, for messages."""
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    module = inspect.getmodule(function)
    return f"{module.__name__}.{name}" if module else str(name)
