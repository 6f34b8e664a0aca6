"""Service: a capability that plugins share, its key, and how it is seen from elsewhere.

Contract: section 2, "Services", "Inject" and "A service acts for its caller".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, cast

from ..errors import PluginError

if TYPE_CHECKING:
    from .context import Context

__all__ = ["Key", "Service", "key_of", "read_inject"]

Key: TypeAlias = "str | type[Service]"


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
