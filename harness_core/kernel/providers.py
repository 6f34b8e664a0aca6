"""Providers of dependency-injector as services: which ones will do, and what a read gives.

The library is imported only when somebody uses it. Contract: section 2, "dependency-injector",
place (1).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from ..errors import PluginError
from .signatures import class_name

__all__ = ["is_provider", "refuse_provider", "resolve_provider"]


def is_provider(value: object) -> bool:
    """Whether `value` is a provider of dependency-injector."""
    module = sys.modules.get("dependency_injector.providers")
    return module is not None and isinstance(value, module.Provider)


def refuse_provider(provider: Any, key: str) -> None:
    """Raise PluginError for a provider whose lifetime is not synchronous."""
    from dependency_injector import providers

    kinds: tuple[Any, ...] = (providers.Resource, providers.Coroutine)
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
