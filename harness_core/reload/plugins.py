"""From a mounted fiber to its code, and from new code to the fiber's new plugin."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from types import MethodType, ModuleType
from typing import Any

from ..errors import closest
from ..kernel.fiber import Fiber
from ..kernel.plugin import Injected
from .errors import StagingError
from .staged import Staged

__all__ = ["PluginFinder", "find_again", "find_at", "module_of"]


class PluginFinder:
    """Finds a plugin again by where it stands: a module, or what a module holds under a name.

    Override both methods for plugins that were found in another way, by a name in a file for
    instance, or that are wrapped.
    """

    def modules_of(self, fiber: Fiber, loaded: Mapping[str, ModuleType]) -> Iterable[str]:
        """Return those of the modules below the roots that, executed anew, give another plugin."""
        name = module_of(fiber.plugin)
        if name is not None and name in loaded:
            return (name,)
        return [
            name
            for name, module in loaded.items()
            if any(value is fiber.plugin for value in vars(module).values())
        ]

    def find(self, fiber: Fiber, staged: Staged | None) -> object:
        """Return the plugin that the fiber is to run now; it has been committed.

        Raises StagingError if there is none any more.
        """
        return fiber.plugin if staged is None else find_again(fiber.plugin, staged)


def module_of(plugin: object) -> str | None:
    """Return the name of the module that defines a plugin, as far as it says so."""
    if isinstance(plugin, ModuleType):
        return plugin.__name__
    if isinstance(plugin, functools.partial):
        return module_of(plugin.func)
    if isinstance(plugin, MethodType):
        return module_of(plugin.__self__)
    name = getattr(plugin, "__module__", None)
    return name if isinstance(name, str) else None


def find_again(plugin: object, staged: Staged) -> object:
    """Return what stands, in the new version of its module, where `plugin` stands in the old.

    A plugin of a module that was not replaced is returned as it is. Raises StagingError if the
    module is gone, or holds nothing in that place, or if the plugin stands nowhere, since a
    function made it.
    """
    for name, module in staged.replaced.items():
        if module is plugin:
            return _new_module(name, module, staged)
    place = _place_of(plugin, staged)
    if place is not None:
        return find_at(*place, staged)
    if isinstance(plugin, Injected):
        body: Any = find_again(plugin.body, staged)
        return plugin if body is plugin.body else Injected(body, plugin.inject)
    if isinstance(plugin, functools.partial):
        function: Any = find_again(plugin.func, staged)
        return functools.partial(function, *plugin.args, **plugin.keywords)
    if isinstance(plugin, MethodType):
        owner = find_again(plugin.__self__, staged)
        return getattr(owner, plugin.__func__.__name__)
    home = module_of(plugin)
    if home not in staged.replaced:
        return plugin
    raise StagingError(
        f"the plugin {plugin!r} was made while {home} ran, and has no name there by which its "
        "new version could be found: give it one, or mount it from a plugin",
        module=home,
        file=getattr(staged.replaced[home], "__file__", None),
    )


def find_at(name: str, attribute: str, staged: Staged) -> object:
    """Return what the new version of a replaced module has at a name, dotted in classes.

    Without a name, the module. Raises StagingError if there is none.
    """
    new = _new_module(name, staged.replaced[name], staged)
    found: Any = new
    for step in attribute.split(".") if attribute else ():
        if not hasattr(found, step):
            guess = closest(step, dir(found))
            hint = f'; did you rename it to "{guess}"?' if guess else ""
            raise StagingError(
                f'module {name} no longer has the plugin "{attribute}"{hint}',
                module=name,
                file=new.__file__,
            )
        found = getattr(found, step)
    return found


def _new_module(name: str, old: ModuleType, staged: Staged) -> ModuleType:
    new = staged.modules.get(name)
    if new is None:
        file = getattr(old, "__file__", None)
        raise StagingError(f"module {name} is gone: there is no {file}", module=name, file=file)
    return new


def _place_of(plugin: object, staged: Staged) -> tuple[str, str] | None:
    """Return the module and the name, dotted in classes, under which a plugin stands there."""
    home = module_of(plugin)
    name = getattr(plugin, "__qualname__", None)
    if home in staged.replaced and isinstance(name, str):
        found: Any = staged.replaced[home]
        for step in name.split("."):
            found = getattr(found, step, None)
        if found is plugin:
            return home, name
    places = [
        (module, attribute)
        for module, old in staged.replaced.items()
        for attribute, value in vars(old).items()
        if value is plugin
    ]
    own = [place for place in places if place[0] == home]
    return next(iter(own or places), None)
