"""The loader: mounts the rows of a manifest, and knows which fiber runs which row.

A row is its fiber: disposing the fiber also takes back what the row's name imported. Rows may
come in any order, since plugins wait for the services they inject. Contract: section 8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import attrs

from .. import Context, Effect, Fiber, FiberState, Service
from ..errors import ConfigError, HarnessError, ManifestError, PluginError
from ..kernel.plugin import PluginSpec, read_plugin
from .blame import raised_at
from .manifest import Entry, Manifest, read_entries
from .places import Place, located, place_at, plain
from .resolve import Found, Resolver

__all__ = ["Loader", "MountedEntry"]


@attrs.frozen(eq=False)
class MountedEntry:
    """A row that runs: its fiber, what its plugin says it provides, and what its name imported."""

    entry: Entry
    fiber: Fiber
    provides: tuple[str, ...] = ()
    module: Effect | None = None

    @property
    def fault(self) -> ManifestError | None:
        """Why the row's fiber failed, at a place in the manifest; None if it did not."""
        error = self.fiber.error
        if self.fiber.state is not FiberState.FAILED or error is None:
            return None
        if isinstance(error, ManifestError):
            return error
        fault = self._place_of(error).fault(self._said(error))
        fault.__cause__ = error
        return fault

    def _place_of(self, error: BaseException) -> Place:
        if not isinstance(error, ConfigError):
            return self.entry.place_of("name")
        first = error.problems[0] if error.problems else ""
        return place_at(self.entry.config, first, self.entry.place_of("config"))

    def _said(self, error: BaseException) -> str:
        if isinstance(error, ConfigError):
            return str(error)
        kind = "" if isinstance(error, HarnessError) else f"{type(error).__name__}: "
        place = raised_at(error)
        where = f" ({place})" if place else ""
        return f'plugin "{self.entry.name or self.entry.id}" failed: {kind}{error}{where}'


def provided_by(plugin: object, spec: PluginSpec) -> tuple[str, ...]:
    """Return the services that a plugin declares to provide; a service class provides its key."""
    if spec.provides:
        return spec.provides
    if isinstance(plugin, type) and issubclass(plugin, Service):
        return (plugin.key,)
    return ()


class Loader(Service, key="loader"):
    """The service that mounts rows: the manifest's own, and those that plugins are given.

    `directory` is where relative paths in the manifest start.
    """

    def __init__(self, manifest: Manifest, resolver: Resolver) -> None:
        self.manifest = manifest
        self.resolver = resolver
        self.directory = manifest.directory
        self.mounted: dict[Fiber, MountedEntry] = {}
        self.mounting: list[Entry] = []
        """Rows whose plugins are being mounted just now, outermost first."""
        self.refused: dict[str, ManifestError] = {}
        """By id: the manifest's rows that could not be mounted at all, and why."""

    def start(self, default: Iterable[str] = ()) -> None:
        """Mount the manifest's rows, in file order, below the calling context.

        `default` names plugins that are mounted first unless a row of the manifest names them.
        A row that cannot be mounted is noted in `refused` and stops no other.
        """
        ctx = self._caller
        ctx.on("fiber/state", self._state_changed, unfiltered=True)
        named = {entry.name for entry in self.manifest.walk()}
        place = Place(self.manifest.file)
        missing = [Entry(name, name, place=place) for name in default if name not in named]
        for entry in (*missing, *self.manifest.entries):
            self._mount_or_note(ctx, entry)

    def mount(self, rows: object) -> list[Fiber]:
        """Mount rows, given as plain data, below the calling context; return their fibers.

        All or nothing: raises ManifestError for the first faulty row, with nothing mounted.
        """
        ctx = self._caller
        entries = read_entries(self._written(rows, ctx), place=Place(self.manifest.file))
        fibers: list[Fiber] = []
        try:
            for entry in entries:
                fibers += self._mount(ctx, entry)
        except BaseException:
            for fiber in reversed(fibers):
                fiber.dispose()
            raise
        return fibers

    def _written(self, rows: object, ctx: Context) -> object:
        """Return the rows as the manifest holds them, places and all, if they come from it."""
        fiber: Fiber | None = ctx.fiber
        while fiber is not None and fiber not in self.mounted:
            fiber = fiber.parent
        entries = self.mounting[-1:] or ([self.mounted[fiber].entry] if fiber else [])
        return located(rows, entries[0].config) if entries else rows

    def _mount_or_note(self, ctx: Context, entry: Entry) -> None:
        try:
            self.refused.pop(entry.id, None)
            self._mount(ctx, entry)
        except ManifestError as fault:
            self.refused[entry.id] = fault

    def _mount(self, ctx: Context, entry: Entry) -> list[Fiber]:
        if entry.disabled:
            return []
        found, spec = self.find(entry)
        module: Effect | None = None
        if found.forget is not None:
            module = ctx.fiber.register(("module", entry.name or ""), found.forget)
        plugin = _Injecting(spec, entry) if entry.inject else found.plugin
        self.mounting.append(entry)
        try:
            fiber = _derived(ctx, entry).mount(plugin, plain(entry.config), _name=found.label)
        except BaseException:
            if module is not None:
                module()
            raise
        finally:
            self.mounting.pop()
        if fiber.state is FiberState.DISPOSED:  # its body disposed it
            if module is not None:
                module()
            return []
        self.mounted[fiber] = MountedEntry(entry, fiber, provided_by(found.plugin, spec), module)
        return [fiber]

    def find(self, entry: Entry) -> tuple[Found, PluginSpec]:
        """Return the plugin that a row names; raise ManifestError, at the row, if there is none."""
        if entry.group:
            group = _Group(self, entry)
            return Found(group), read_plugin(group)
        assert entry.name is not None
        found: Found | None = None
        try:
            found = self.resolver.resolve(entry.name)
            return found, read_plugin(found.plugin)
        except PluginError as error:
            if found is not None and found.forget is not None:
                found.forget()
            raise entry.place_of("name").fault(str(error)) from (error.__cause__ or error)

    def mount_children(self, ctx: Context, entry: Entry) -> None:
        """Mount the rows of a group below its context."""
        for child in entry.children:
            self._mount_or_note(ctx, child)

    def _state_changed(self, fiber: Fiber, _: FiberState) -> None:
        if fiber.state is FiberState.DISPOSED:
            mounted = self.mounted.pop(fiber, None)
            if mounted is not None and mounted.module is not None:
                mounted.module()


def _derived(ctx: Context, entry: Entry) -> Context:
    """Return the context that a row's plugin is mounted below: with its realms and intercepts."""
    for key, label in entry.isolate.items():
        ctx = ctx.isolate(key, label)
    for key, config in entry.intercept.items():
        ctx = ctx.intercept(key, config)
    return ctx


class _Group:
    """The plugin that a group is: it mounts the rows it holds."""

    def __init__(self, loader: Loader, entry: Entry) -> None:
        self.name = entry.id
        self.loader = loader
        self.entry = entry

    def apply(self, ctx: Context) -> None:
        self.loader.mount_children(ctx, self.entry)


class _Injecting:
    """A plugin that needs, besides what it declares itself, what its row says."""

    def __init__(self, spec: PluginSpec, entry: Entry) -> None:
        self.name = spec.name
        self.inject: dict[str, Any] = {**spec.inject, **entry.inject}
        self.provides = spec.provides
        self.grace = spec.grace
        self.Config = spec.config_class
        self.Container = spec.container_class
        self.apply = _with_config(spec) if spec.arity > 1 else _without_config(spec)


def _with_config(spec: PluginSpec) -> Callable[..., object]:
    def apply(ctx: Context, config: object) -> object:
        return spec.run(ctx, config)

    return apply


def _without_config(spec: PluginSpec) -> Callable[..., object]:
    def apply(ctx: Context) -> object:
        return spec.run(ctx, None)

    return apply
