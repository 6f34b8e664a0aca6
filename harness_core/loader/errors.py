"""What goes wrong while the file is put in the place of what runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..errors import ManifestError

__all__ = ["ReconcileError"]


class ReconcileError(ManifestError):
    """Rows of the file will not do; the rows before run on.

    `faults` holds the error of each by the row's id; file, line and column are those of the first.
    """

    def __init__(self, faults: Mapping[str, ManifestError] | Iterable[tuple[str, ManifestError]]):
        self.faults = dict(faults)
        first, *others = self.faults.values()
        names = ", ".join(f'"{one}"' for one in self.faults)
        rows = "row" if not others else "rows"
        said = "\n".join([first.message, *(f"  {other}" for other in others)])
        super().__init__(
            f"{rows} {names}: {said}", file=first.file, line=first.line, column=first.column
        )
