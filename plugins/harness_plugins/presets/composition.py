"""Composition: what a preset is made of, and where that is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import anyio
import attrs

from harness_core import Context
from harness_core.errors import ManifestError, closest

from .errors import PresetError

__all__ = ["Composition", "PresetConfig", "read_composition"]

KEYS = ("persona", "plugins")


@attrs.frozen
class PresetConfig:
    """One preset: a persona and rows as in the manifest, or a file that holds the two.

    A path starts at the manifest's directory.
    """

    persona: str | None = None
    plugins: list[Any] = attrs.field(factory=list)
    file: str | None = None

    def __attrs_post_init__(self) -> None:
        if self.file is not None and (self.persona is not None or self.plugins):
            raise ValueError("give either a file, or persona and plugins")


@attrs.frozen
class Composition:
    """What one generation of a preset is made of; two that are equal are one generation."""

    persona: str | None = attrs.field(default=None, eq=False)
    plugins: list[Any] = attrs.field(factory=list[Any], eq=False, repr=False)
    _print: str = attrs.field(init=False, repr=False)
    """As text: to a plugin `1`, `1.0` and `true` are not the same, though Python says so."""

    def __attrs_post_init__(self) -> None:
        text = json.dumps([self.persona, self.plugins], default=repr)
        object.__setattr__(self, "_print", text)


async def read_composition(ctx: Context, name: str, config: PresetConfig) -> Composition:
    """Return what a preset is made of now; raise PresetError for a file that is none."""
    if config.file is None:
        return Composition(config.persona, config.plugins)
    loader = ctx.get("loader")
    path = (loader.directory if loader is not None else Path.cwd()) / config.file
    try:
        raw = await anyio.Path(path).read_bytes()
        text = raw.decode("utf-8-sig")
    except OSError as error:
        said = f"cannot read {config.file}: {error.strerror}"
        raise PresetError(f'preset "{name}": {said}') from error
    except UnicodeDecodeError as error:
        said = f"{config.file} is not UTF-8 (byte {error.start})"
        raise PresetError(f'preset "{name}": {said}') from None
    return _parsed(text.replace("\r\n", "\n"), name, config.file)


def _parsed(text: str, name: str, file: str) -> Composition:
    # Imported where it is needed: the parser of manifests needs an extra.
    from harness_core.loader import parse_yaml

    try:
        data: object = parse_yaml(text, file)
    except ManifestError as error:
        raise PresetError(f'preset "{name}": {error}') from error
    if data is None:
        data = {}
    if not isinstance(data, dict):
        raise PresetError(f'preset "{name}": {file} holds no mapping: expected {", ".join(KEYS)}')
    mapping = cast("dict[str, Any]", data)
    for key in mapping:
        if key not in KEYS:
            guess = closest(key, KEYS)
            hint = f', did you mean "{guess}"?' if guess else ""
            raise PresetError(
                f'preset "{name}": {file}: unknown key "{key}"{hint} (there are: persona, plugins)'
            )
    persona: object = mapping.get("persona")
    plugins: Any = mapping.get("plugins")
    if persona is not None and not isinstance(persona, str):
        raise PresetError(f'preset "{name}": {file}: persona is a text, got {persona!r}')
    if plugins is not None and not isinstance(plugins, list):
        raise PresetError(f'preset "{name}": {file}: plugins is a list of rows, got {plugins!r}')
    return Composition(persona, cast("list[object]", plugins or []))
