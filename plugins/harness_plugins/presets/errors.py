"""What goes wrong with presets themselves; what goes wrong in their plugins is raised as it is."""

from __future__ import annotations

from collections.abc import Iterable

from harness_core.errors import HarnessError, did_you_mean

__all__ = ["PresetError", "UnknownPresetError"]


class PresetError(HarnessError, ValueError):
    """A preset that cannot be read or mounted."""


class UnknownPresetError(PresetError, LookupError):
    """No preset has this name. `known` are the names there are."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name = name
        self.known = tuple(known)
        listed = ", ".join(self.known) or "(none)"
        hint = did_you_mean(name, self.known)
        super().__init__(f'there is no preset "{name}"; presets: {listed}{hint}')
