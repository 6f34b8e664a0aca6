"""How the tools of a scope are presented: as they are, as code, or both."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import attrs

from harness_core.errors import HarnessError, PluginError, closest, safe_repr
from harness_core.prompt import Origin

__all__ = ["MODES", "Mode", "Presentation", "PresentationError", "read_mode"]

Mode: TypeAlias = Literal["native", "code", "both"]
MODES: tuple[Mode, ...] = get_args(Mode)


class PresentationError(HarnessError, ValueError):
    """Tools are presented as code where no tool runs code."""

    def __init__(self, presentation: Presentation) -> None:
        self.mode = presentation.mode
        self.scope = presentation.scope
        origin = presentation.origin
        said = "" if origin is None else f" for {where(origin.scope)}"
        super().__init__(
            f"tools are presented as {presentation}{said}, but no tool that runs code is visible: "
            'mount the plugin "code_mode", do not hide its tool, or call present_as("native")'
        )


@attrs.frozen
class Presentation:
    """How a scope's tools are presented. `str()` says so, and who said it.

    `mode` is "native", "code" or "both"; `runner` the name of the tool that runs code there, None
    where none does. `origin` is the `present_as` that counts; None: nobody said anything.
    """

    mode: Mode
    scope: object | None = None
    runner: str | None = None
    origin: Origin | None = None

    def __str__(self) -> str:
        by = f" by {self.origin}" if self.origin is not None else ""
        return f'"{self.mode}"{by}'


def read_mode(mode: object) -> Mode:
    """Return a mode; raise PluginError for anything else."""
    for known in MODES:
        if mode == known:
            return known
    guess = closest(mode, MODES) if isinstance(mode, str) else None
    hint = f'; did you mean "{guess}"?' if guess else ""
    raise PluginError(f'present_as takes "native", "code" or "both", got {mode!r}{hint}')


def where(scope: object | None) -> str:
    """Name a scope in a sentence."""
    return "the global layer" if scope is None else f"scope {safe_repr(scope)}"
