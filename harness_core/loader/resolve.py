"""From a row's name to the plugin it means.

    persona                  an entry point of the group `harness.plugins`
    package.module           a module with `apply`
    package.module:attribute what a module holds
    ./rules.py               a file beside the manifest, a module with `apply`
    ./rules.py:attribute     what a file holds

Where nothing is installed (a source tree, a zip) the project's own plugins are found by their
place. Contract: section 8.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import importlib.util
import itertools
import os
import pkgutil
import sys
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import attrs

from ..errors import PluginError, closest
from ..reload import LOOSE, SourceLoader
from .blame import raised_at

__all__ = ["ENTRY_POINTS", "Found", "Resolver"]

ENTRY_POINTS = "harness.plugins"

_OWN = {
    "system_prompt": "harness_core.prompt:SystemPrompt",
    "system_prompt_invariant": "harness_core.prompt.invariant",
}
_OWN_PACKAGE = "harness_plugins"
_numbers = itertools.count(1)


@attrs.frozen
class Found:
    """A plugin, what it is called, and how to take back the import (None: nothing to take back).

    `module` is what a file was imported as.
    """

    plugin: object
    label: str | None = None
    forget: Callable[[], None] | None = None
    module: ModuleType | None = None

    def enter(self) -> None:
        """Make the file's module known by its name again, if it has been forgotten."""
        if self.module is not None:
            sys.modules.setdefault(self.module.__name__, self.module)


class Resolver:
    """Finds plugins by name. `directory` is where names of files start."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @classmethod
    def here(cls) -> Resolver:
        """Return a resolver for which names of files start in the working directory."""
        return cls(Path.cwd())

    def resolve(self, name: str) -> Found:
        """Return the plugin that a name means.

        Raises PluginError if there is none, or if importing it fails: the message then names file
        and line, and the cause is the original error.
        """
        if name.startswith(("./", "../", "/", ".\\", "..\\")):
            return self._from_file(name)
        target = entry_points().get(name)
        if target is not None:
            return Found(_from_module(target, name))
        if ".py" in name and name.partition(":")[0].endswith(".py"):
            raise PluginError(f'unknown plugin "{name}": a file begins with ./ (./{name})')
        if "." in name or ":" in name or _is_importable(name):
            return Found(_from_module(name, name))
        raise PluginError(self.unknown(name))

    def unknown(self, name: str) -> str:
        """Return the message for a name that nothing has."""
        known = sorted(entry_points())
        guess = closest(name, known)
        hint = f'; did you mean "{guess}"?' if guess else ""
        return (
            f'unknown plugin "{name}"{hint} Installed plugins: {", ".join(known) or "(none)"}; '
            "or name a package.module, a package.module:attribute, or a ./file.py"
        ).replace('" Installed', '". Installed')

    def _from_file(self, name: str) -> Found:
        file, _, attribute = name.rpartition(":") if ".py:" in name else (name, "", "")
        path = Path(os.path.realpath(self.directory / file))
        if not path.is_file():
            what = "this is a directory" if path.is_dir() else "there is no such file"
            siblings = path.parent.glob("*.py") if path.parent.is_dir() else ()
            guess = closest(path.name, [sibling.name for sibling in siblings])
            hint = f'; did you mean "{file[: -len(path.name)]}{guess}"?' if guess else ""
            raise PluginError(f'unknown plugin "{name}": {what}{hint}')
        module, forget = _import_file(path, name)
        try:
            plugin = _attribute(module, attribute, name) if attribute else module
            _require_plugin(plugin, name, path.name)
        except BaseException:
            forget()
            raise
        label = path.stem if plugin is module and not hasattr(module, "name") else None
        return Found(plugin, label, forget, module)


def entry_points() -> dict[str, str]:
    """Return every short name with the place it stands for."""
    found = dict(_OWN)
    with contextlib.suppress(ImportError):
        package = importlib.import_module(_OWN_PACKAGE)
        for module in pkgutil.iter_modules(package.__path__):
            if module.name not in package.PARTS:
                found[module.name] = f"{_OWN_PACKAGE}.{module.name}"
    for point in importlib.metadata.entry_points(group=ENTRY_POINTS):
        found[point.name] = point.value
    return found


def _is_importable(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _from_module(target: str, name: str) -> object:
    path, _, attribute = target.partition(":")
    try:
        module = importlib.import_module(path)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if path == missing or path.startswith(f"{missing}."):
            raise PluginError(f'unknown plugin "{name}": there is no module "{missing}"') from None
        raise _import_failed(name, error) from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # an exit or a cancellation in a module is its fault
        raise _import_failed(name, error) from error
    plugin = _attribute(module, attribute, name) if attribute else module
    _require_plugin(plugin, name, path)
    return plugin


def _import_file(path: Path, name: str) -> tuple[ModuleType, Callable[[], None]]:
    unique = f"{LOOSE}{next(_numbers)}.{path.stem}"
    spec = importlib.util.spec_from_file_location(unique, path)
    if spec is None or spec.loader is None:
        raise PluginError(f'unknown plugin "{name}": a plugin file ends in .py')
    if isinstance(spec.loader, SourceFileLoader):
        spec.loader = SourceLoader(unique, str(path))  # bytecode may be of a save just before
    module = importlib.util.module_from_spec(spec)
    # Where annotations are resolved and objects are pickled, a module is looked up by its name.
    sys.modules[unique] = module

    def forget() -> None:
        sys.modules.pop(unique, None)

    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        forget()
        if isinstance(error, KeyboardInterrupt):
            raise
        raise _import_failed(name, error) from error  # an exit in a module is its fault too
    return module, forget


def _attribute(module: ModuleType, attribute: str, name: str) -> Any:
    value: Any = module
    for step in attribute.split("."):
        if not hasattr(value, step):
            public = [one for one in dir(value) if not one.startswith("_")]
            guess = closest(step, public)
            hint = f'; did you mean "{guess}"?' if guess else ""
            raise PluginError(f'unknown plugin "{name}": nothing there is called "{step}"{hint}')
        value = getattr(value, step)
    return value


def _require_plugin(plugin: object, name: str, place: str) -> None:
    if isinstance(plugin, ModuleType) and not callable(getattr(plugin, "apply", None)):
        functions = [
            one
            for one, value in vars(plugin).items()
            if callable(value)
            and getattr(value, "__module__", "") == plugin.__name__
            and not one.startswith("_")
        ]
        hint = f"; to mount one thing of it, write {name}:{functions[0]}" if functions else ""
        raise PluginError(f'"{name}" is no plugin: {place} has no function apply(ctx){hint}')


def _import_failed(name: str, error: BaseException) -> PluginError:
    place = raised_at(error)
    where = f"{place}: " if place else ""
    said = error.msg if isinstance(error, SyntaxError) else str(error)
    return PluginError(f'plugin "{name}" cannot be imported: {where}{type(error).__name__}: {said}')
