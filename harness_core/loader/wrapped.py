"""The plugin that a row runs: its own, one that waits for more services, or a group."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from .. import Context
from ..kernel.plugin import PluginSpec, read_plugin
from .manifest import Entry

__all__ = ["Group", "derived", "unwrapped", "wrapped"]


class Group:
    """The plugin that a group is: its body mounts the rows it holds."""

    def __init__(self, entry: Entry, mount_children: Callable[[Context, str], None]) -> None:
        self.name = entry.id
        self.mount_children = mount_children

    def apply(self, ctx: Context) -> None:
        self.mount_children(ctx, self.name)


class _Injecting:
    """A plugin that needs, besides what it declares itself, what its row says."""

    def __init__(self, plugin: object, entry: Entry) -> None:
        spec = read_plugin(plugin)
        self.inner = plugin
        self.__module__ = (  # where the plugin is, for whoever follows its code
            plugin.__name__ if isinstance(plugin, ModuleType) else str(plugin.__module__)
        )
        self.name = spec.name
        self.inject: dict[str, Any] = {**spec.inject, **entry.inject}
        self.provides = spec.provides
        self.grace = spec.grace
        self.overlap = spec.overlap
        self.Config = spec.config_class
        self.Container = spec.container_class
        self.apply = _with_config(spec) if spec.arity > 1 else _without_config(spec)


def wrapped(plugin: object, entry: Entry) -> object:
    """Return what to mount for a row that means `plugin`."""
    return _Injecting(plugin, entry) if entry.inject else plugin


def unwrapped(plugin: object) -> object:
    """Return the plugin that was wrapped for a row."""
    return plugin.inner if isinstance(plugin, _Injecting) else plugin


def derived(ctx: Context, entry: Entry) -> Context:
    """Return the context that a row's plugin is mounted below: with its realms and intercepts."""
    for key, label in entry.isolate.items():
        ctx = ctx.isolate(key, label)
    for key, config in entry.intercept.items():
        ctx = ctx.intercept(key, config)
    return ctx


def _with_config(spec: PluginSpec) -> Callable[..., object]:
    def apply(ctx: Context, config: object) -> object:
        return spec.run(ctx, config)

    return apply


def _without_config(spec: PluginSpec) -> Callable[..., object]:
    def apply(ctx: Context) -> object:
        return spec.run(ctx, None)

    return apply
