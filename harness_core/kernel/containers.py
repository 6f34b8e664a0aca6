"""Containers of dependency-injector: published as services, or declared by a plugin.

dependency-injector decides lifetimes and choices of values. Acquiring and releasing stay with
fibers, so nothing here starts, shuts down or wires anything. The library takes 0.15 s to import,
so the functions import it when they are first called. Contract: section 2, "dependency-injector",
places (1) and (2).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

import attrs

from ..errors import PluginError
from .providers import refuse_provider

if TYPE_CHECKING:
    from .context import Context
    from .effects import Effect

__all__ = ["build_container", "dependencies_of", "mount_container"]


def mount_container(ctx: Context, container: Any, only: Iterable[str] | None = None) -> Effect:
    """Publish a container's providers as services, one reversible effect each.

    `only` names the providers to publish; without it, all but configurations, dependencies and
    the container itself. Returns the effect that takes them all back, newest first. Raises
    PluginError for an unknown name or a provider that acquires asynchronously.
    """
    from dependency_injector import providers

    found: dict[str, Any] = dict(container.providers)
    hidden = (providers.Configuration, providers.Dependency, providers.Self)
    if only is None:
        names = [name for name, one in found.items() if not isinstance(one, hidden)]
    else:
        names = list(only)
        unknown = [name for name in names if name not in found]
        if unknown:
            raise PluginError(f"the container has no providers {unknown}; it has {sorted(found)}")
    for name in names:
        refuse_provider(found[name], name)

    def body() -> None:
        for name in names:
            ctx.provide(name, found[name])

    return ctx.effect(body, label="mounted container")


def dependencies_of(container_class: Any) -> list[str]:
    """Return the names that a container declares as `Dependency`: what its plugin injects.

    A dependency with a default is optional, and not among them.
    """
    from dependency_injector import containers, providers

    declarative = containers.DeclarativeContainer
    if not (isinstance(container_class, type) and issubclass(container_class, declarative)):
        raise PluginError(f"Container is {container_class!r}: expected a DeclarativeContainer")
    return [
        name
        for name, provider in container_class.providers.items()
        if isinstance(provider, providers.Dependency) and not _has_default(provider)
    ]


def _has_default(dependency: Any) -> bool:
    return dependency.default is not None


def build_container(ctx: Context, container_class: Any, config: object) -> None:
    """Build a plugin's container as `ctx.container`, checked before the body has any effect."""
    from dependency_injector import errors, providers

    container = container_class()
    for name, provider in container.providers.items():
        if isinstance(provider, providers.Dependency):
            if not _has_default(provider) or ctx.get(name) is not None:
                # Read at each call, so that an override of the service is seen here too.
                cast("Any", provider).override(providers.Callable(ctx.get, name))
        elif isinstance(provider, providers.Configuration):
            provider.from_dict(_settings(config))
        else:
            refuse_provider(provider, name)
    try:
        container.check_dependencies()
    except errors.Error as error:
        raise PluginError(f"container {container_class.__name__}: {error}") from error
    ctx.__dict__["container"] = container

    def drop() -> None:
        ctx.__dict__.pop("container", None)
        container.reset_singletons()

    ctx.fiber.register("container", drop)


def _settings(config: object) -> dict[str, Any]:
    if attrs.has(type(config)):
        return attrs.asdict(config)  # type: ignore[arg-type]
    dump = getattr(config, "model_dump", None)
    if dump is not None:
        return dict(dump())
    return dict(cast("dict[str, Any]", config)) if isinstance(config, dict) else {}
