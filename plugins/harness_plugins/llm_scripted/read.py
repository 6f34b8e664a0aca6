"""Reading a script, from a file or from the config: every fault with its place."""

from __future__ import annotations

import os
from typing import Any

import attrs

from harness_core import Context
from harness_core.errors import ConfigError, ManifestError
from harness_plugins.llm.api import loading_extra

from .config import Config
from .script import Script
from .structure import ScriptError, structured

__all__ = ["script_of"]


def script_of(ctx: Context, config: Config) -> Script:
    """Return the script of a config; its file is watched.

    Raises ManifestError, with file, line and column, or ConfigError for turns in the config.
    """
    if config.file is not None:
        script = _from_file(ctx, config.file)
    else:
        try:
            script = structured({"turns": config.turns})
        except ScriptError as error:
            path = error.path.removeprefix("$.")
            raise ConfigError([f"{path}: {error.problem}"], plugin="llm_scripted") from None
    return attrs.evolve(
        script,
        at_end=config.at_end or script.at_end,
        pace=script.pace if config.pace is None else config.pace,
    )


def _from_file(ctx: Context, file: str) -> Script:
    # Imported where it is needed: the parser needs an extra.
    with loading_extra("llm_scripted", "scripted"):
        from harness_core.loader import Place, as_list, parse_yaml, place_at, plain

    loader = ctx.get("loader")
    path = os.path.join(str(loader.directory), file) if loader is not None else file
    try:
        text = ctx.watch_file(path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ManifestError(f"the script cannot be read: {reason}", file=path) from error
    except UnicodeDecodeError as error:
        raise ManifestError(f"the script is no UTF-8 text: {error}", file=path) from error
    data: Any = parse_yaml(text, path)
    holds_turns = as_list(data) is not None
    try:
        script = structured({"turns": plain(data)} if holds_turns else plain(data))
    except ScriptError as error:
        inside = error.path.removeprefix("$").removeprefix(".turns" if holds_turns else "")
        problem = f"{inside.removeprefix('.')}: {error.problem}"
        raise place_at(data, problem, Place(path, 1, 1)).fault(error.problem) from None
    return attrs.evolve(script, where=path)
