"""What went wrong in a running harness: the message, the place, and the code around it."""

from __future__ import annotations

import re

import attrs

from ..errors import ManifestError
from ..loader import raised_at
from ..reload import excerpt
from .faults import Fault

__all__ = ["Trouble", "trouble_in_manifest", "trouble_of"]

_PLACE = re.compile(r"(?P<file>.+?):(?P<line>\d+)(:\d+)?")


@attrs.frozen
class Trouble:
    """What went wrong, where, and the code around it."""

    message: str
    file: str | None = None
    line: int | None = None
    excerpt: str = ""

    @property
    def where(self) -> str | None:
        """The place as `file:line`."""
        parts = [str(part) for part in (self.file, self.line) if part is not None]
        return ":".join(parts) or None


def trouble_in_manifest(error: ManifestError) -> Trouble:
    """Return a fault of the manifest, with the code that raised, if that is to blame."""
    around = excerpt(error.file, error.line) if error.line is not None else ""
    cause = error.__cause__
    match = _PLACE.fullmatch((raised_at(cause) if cause is not None else None) or "")
    if match is not None:
        around = excerpt(match["file"], int(match["line"]))
    return Trouble(error.message, error.file, error.line, around)


def trouble_of(fault: Fault) -> Trouble:
    """Return what a fault says, with the code around its place."""
    if isinstance(fault.error, ManifestError):
        return trouble_in_manifest(fault.error)
    match = _PLACE.fullmatch(fault.where or "")
    if match is None:
        return Trouble(fault.message, fault.where)
    file, line = match["file"], int(match["line"])
    return Trouble(fault.message, file, line, excerpt(file, line))
