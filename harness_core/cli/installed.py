"""`harness plugins`: what is installed, what it is for, and which settings it takes."""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any, get_type_hints

import attrs
import click
from rich.text import Text

from ..app import Application, Settings
from ..errors import PluginError
from ..kernel.plugin import read_plugin
from ..loader import Resolver, entry_points, provided_by
from .frame import print_json
from .safe import one_line, visible

__all__ = ["plugins"]

_REQUIRED: Any = object()


@attrs.frozen
class Setting:
    """One setting of a plugin. `default` is its text; None where the setting is required."""

    name: str
    type: str
    required: bool
    default: str | None


@attrs.frozen
class Installed:
    """One installed plugin; `error` says why it cannot be used."""

    name: str
    target: str
    doc: str = ""
    provides: tuple[str, ...] = ()
    inject: tuple[str, ...] = ()
    config: tuple[Setting, ...] | None = None
    error: str | None = None


@click.command(epilog="Exit codes: 0 nothing to complain about, 1 some plugin cannot be imported.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, and nothing else on stdout.")
def plugins(as_json: bool) -> None:
    """Print the installed plugins, what each is for, and the settings it takes."""
    app = Application(settings=Settings(""))
    resolver = Resolver.here()
    found = [_look_at(resolver, name, at) for name, at in sorted(entry_points().items())]
    if as_json:
        print_json(app, [attrs.asdict(one) for one in found])
    else:
        for one in found:
            _show(app, one)
    raise SystemExit(1 if any(one.error for one in found) else 0)


def _look_at(resolver: Resolver, name: str, target: str) -> Installed:
    try:
        plugin = resolver.resolve(name).plugin
        spec = read_plugin(plugin)
    except PluginError as error:
        return Installed(name, target, error=str(error))
    return Installed(
        name,
        target,
        _first_paragraph(plugin),
        provided_by(plugin, spec),
        tuple(spec.inject),
        _settings_of(spec.config_class),
    )


def _first_paragraph(plugin: object) -> str:
    doc = plugin.__doc__ if isinstance(plugin, ModuleType) else inspect.getdoc(plugin)
    if not doc:
        module = inspect.getmodule(plugin)
        doc = module.__doc__ if module is not None else None
    return " ".join(inspect.cleandoc(doc or "").partition("\n\n")[0].split())


def _settings_of(config: Any) -> tuple[Setting, ...] | None:
    """Return the settings that a config class takes; None if it says nothing of them."""
    if config is None:
        return None
    hints = _hints(config)
    if attrs.has(config):
        fields: list[tuple[str, Any, Any]] = [
            (field.alias or field.name, hints.get(field.name, field.type), _attrs_default(field))
            for field in attrs.fields(config)
            if field.init
        ]
    else:  # a pydantic model
        models: dict[str, Any] = getattr(config, "model_fields", {})
        fields = [
            (name, field.annotation, _REQUIRED if field.is_required() else _made(field))
            for name, field in models.items()
        ]
    return tuple(
        Setting(
            name,
            _type_text(kind),
            default is _REQUIRED,
            None if default is _REQUIRED else _default_text(default),
        )
        for name, kind, default in fields
    )


def _hints(config: Any) -> dict[str, Any]:
    try:
        return get_type_hints(config)
    except Exception:  # a name that is there for type checkers only
        return {}


def _attrs_default(field: Any) -> Any:
    default: Any = field.default
    if default is attrs.NOTHING:
        return _REQUIRED
    if isinstance(default, attrs.Factory):  # type: ignore[arg-type]
        factory: Any = default
        return "..." if factory.takes_self else _call(factory.factory)
    return default


def _made(field: Any) -> Any:
    return _call(field.default_factory) if field.default_factory is not None else field.default


def _call(factory: Any) -> Any:
    try:
        return factory()
    except Exception:
        return "..."


def _type_text(kind: Any) -> str:
    if isinstance(kind, type) and not getattr(kind, "__args__", None):
        return kind.__name__
    return str(kind).replace("typing.", "").replace("NoneType", "None")


def _default_text(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _show(app: Application, one: Installed) -> None:
    console = app.output()
    line = Text(one_line(one.name), style="bold cyan")
    line.append(f"  {one_line(one.target)}", style="dim")
    console.print(line, soft_wrap=True)
    if one.error is not None:
        console.print(Text(f"  {visible(one.error)}", style="red"), soft_wrap=True)
        return
    if one.doc:
        console.print(Text(f"  {one_line(one.doc)}"), soft_wrap=True)
    for word, keys in (("provides", one.provides), ("needs", one.inject)):
        if keys:
            console.print(Text(f"  {word}: {', '.join(keys)}", style="dim"), soft_wrap=True)
    for setting in one.config or ():
        state = "required" if setting.required else f"default {setting.default}"
        line = Text("    ").append(setting.name, style="green")
        line.append(f": {one_line(setting.type)}").append(f"  {one_line(state)}", style="dim")
        console.print(line, soft_wrap=True)
