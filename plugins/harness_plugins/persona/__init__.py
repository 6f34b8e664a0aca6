"""`persona`: who the agent is, as a text or from a file.

    - name: persona
      config:
        text: You are the maintainer of this library.     # or: file: ./persona.md

A file's path starts at the manifest's directory. The text may refer to variables (`{{cwd}}`),
unless `literal: true` says that it is data. A file is read when the plugin loads; under
`harness dev`, saving it loads the plugin again.

Which section it becomes depends on where the plugin is mounted:

- in an agent's scope it is `deployment:persona`, order 0: it replaces the deployment's persona
  and, by an empty section `persona`, one that this plugin gave to all agents;
- in the global layer, where the system prompt has registered `deployment:persona` itself, it is
  a section `persona`, order 1: it follows the deployment's persona, which is empty by default.
"""

from __future__ import annotations

from pathlib import Path

import attrs

from harness_core import Context
from harness_core.errors import ConfigError

from .api import set_persona

__all__ = ["Config", "apply", "inject", "name"]

name = "persona"
inject = ["system_prompt"]


@attrs.frozen
class Config:
    """Either `text` or `file`; `literal` says that it is data, never scanned for references."""

    text: str | None = None
    file: str | None = None
    literal: bool = False

    def __attrs_post_init__(self) -> None:
        if (self.text is None) == (self.file is None):
            raise ValueError("give either text or file")


def apply(ctx: Context, config: Config) -> None:
    """Register the persona of the layer that the plugin is mounted in."""
    text = config.text if config.text is not None else _read(ctx, config.file or "")
    set_persona(ctx, text, literal=config.literal)


def _read(ctx: Context, file: str) -> str:
    loader = ctx.get("loader")
    path = (loader.directory if loader is not None else Path.cwd()) / file
    try:
        text = ctx.watch_file(path)
    except OSError as error:
        raise ConfigError([f"file: cannot read {file}: {error.strerror}"], plugin=name) from error
    except UnicodeDecodeError as error:
        problem = f"file: {file} is not UTF-8 (byte {error.start})"
        raise ConfigError([problem], plugin=name) from None
    return text.rstrip("\n")
