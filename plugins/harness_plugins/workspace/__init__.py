"""`workspace`: the prompt variables `{{cwd}}`, `{{platform}}` and `{{user}}`.

    - name: workspace
      config:
        cwd: .            # each is optional; what is written here stands in for the real value
        user: developer

`cwd` is the working directory at the time of each assembly, that of its agent if the agent has one
of its own; `platform` the system and machine (`linux x86_64`), `user` the login name. Nothing else
of the environment is ever read, since what stands in a prompt leaves the machine. A value that
cannot be found out has no value in the assembly, so a text that refers to it fails loudly instead
of showing a hole.
"""

from __future__ import annotations

import getpass
import platform
from collections.abc import Callable

import attrs

from harness_core import Context
from harness_core.prompt import AssembleContext, SystemPrompt

from .api import working_directory

__all__ = ["Config", "apply", "inject", "name"]

name = "workspace"
inject = ["system_prompt"]


@attrs.frozen
class Config:
    """Values that stand in for the real ones; None for the real one."""

    cwd: str | None = None
    platform: str | None = None
    user: str | None = None


def apply(ctx: Context, config: Config) -> None:
    """Register the three variables."""
    prompt = ctx[SystemPrompt]
    prompt.variable("cwd", _given_or(config.cwd, working_directory))
    prompt.variable("platform", _given_or(config.platform, _platform))
    prompt.variable("user", _given_or(config.user, _user))


Finder = Callable[[AssembleContext], str | None]


def _given_or(given: str | None, find: Finder) -> str | Finder:
    return find if given is None else given


def _platform(_: AssembleContext) -> str:
    return f"{platform.system()} {platform.machine()}".strip().lower()


def _user(_: AssembleContext) -> str | None:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # no such user in the password database
        return None
