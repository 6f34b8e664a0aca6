"""Where the code of a manifest's plugins lies: what `harness dev` watches, and finds them by."""

from __future__ import annotations

import importlib.util
import os
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from .. import Fiber
from ..loader import Loader, Manifest, as_dict, as_list, entry_points, unwrapped, wrapped
from ..reload import PluginFinder, Staged, find_again, find_at, module_of

__all__ = ["RowFinder", "roots_of"]

_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_STDLIB = os.path.realpath(sysconfig.get_path("stdlib"))
_INSTALLED = frozenset({"site-packages", "dist-packages"})


def roots_of(loader: Loader, manifest: Manifest | None = None) -> list[Path]:
    """Return the directories of the manifest and of its plugins, but not of installed ones."""
    known = entry_points()
    found = {loader.directory: None}
    manifest = manifest or loader.manifest
    for name in {name for entry in manifest.walk() for name in _names(entry)}:
        if name.startswith((".", "/")):
            file = name.rpartition(":")[0] if ".py:" in name else name
            found[Path(os.path.realpath(loader.directory / file)).parent] = None
        else:
            found.update(dict.fromkeys(_homes(known.get(name, name))))
    return [path for path in found if path.is_dir()]


def _names(value: Any) -> Iterator[str]:
    """Yield the names of rows, also of those in a plugin's config."""
    name = getattr(value, "name", None)
    if isinstance(name, str):
        yield name
        yield from _names(value.config)
    mapping, items = as_dict(value), as_list(value)
    if mapping is not None:
        if isinstance(mapping.get("name"), str):
            yield mapping["name"]
        items = list(mapping.values())
    for one in items or ():
        yield from _names(one)


def _homes(target: str) -> Iterator[Path]:
    top = target.partition(":")[0].partition(".")[0]
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return
    if spec is None:
        return
    places: list[str] = list(spec.submodule_search_locations or ())
    if not places and spec.origin is not None and os.path.isfile(spec.origin):
        places = [os.path.dirname(spec.origin)]
    for place in map(os.path.realpath, places):
        is_foreign = not _INSTALLED.isdisjoint(Path(place).parts) or place.startswith(_STDLIB)
        if not is_foreign and place != _OWN:
            yield Path(place)


class RowFinder(PluginFinder):
    """Finds the plugins of rows, which may be wrapped to wait for more services."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader
        self._installed = entry_points()

    def modules_of(self, fiber: Fiber, loaded: Mapping[str, ModuleType]) -> Iterable[str]:
        """Return the modules that give a row's plugin: the one it names, the one it comes from."""
        plugin = unwrapped(fiber.plugin)
        named = {module_of(plugin), (self._place_of(fiber) or (None,))[0]}
        found = [name for name in named if name is not None and name in loaded]
        return found or [
            one
            for one, module in loaded.items()
            if any(value is plugin for value in vars(module).values())
        ]

    def find(self, fiber: Fiber, staged: Staged | None) -> object:
        """Return the plugin that the row's fiber is to run now: what its name means by then."""
        plugin, place = unwrapped(fiber.plugin), self._place_of(fiber)
        if staged is None:
            found = plugin
        elif place is not None and place[0] in staged.replaced:
            found = find_at(*place, staged)
        else:
            found = find_again(plugin, staged)
        mounted = self.loader.mounted.get(fiber)
        if found is plugin or mounted is None:
            return fiber.plugin if found is plugin else found
        return wrapped(found, mounted.entry)

    def _place_of(self, fiber: Fiber) -> tuple[str, str] | None:
        """Return the module and the attribute ("" for itself) that the name of a row means."""
        mounted = self.loader.mounted.get(fiber)
        if mounted is None or mounted.entry.name is None or mounted.found is None:
            return None
        name = mounted.entry.name
        if mounted.found.module is not None:
            return mounted.found.module.__name__, name.rpartition(":")[2] if ".py:" in name else ""
        target = self._installed.get(name, name)
        module, _, attribute = target.partition(":")
        return module, attribute
