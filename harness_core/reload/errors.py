"""What goes wrong while new code is imported or put in the place of the old."""

from __future__ import annotations

from typing import Any

from ..errors import HarnessError

__all__ = ["StagingError"]


def _rebuild(facts: dict[str, Any]) -> StagingError:
    return StagingError(**facts)


class StagingError(HarnessError, ImportError):
    """The new version of some code cannot be used; the old version goes on.

    `module` is the module that failed, `importing` the modules that were being imported at that
    moment, innermost first. `file`, `line` and `excerpt` (the code around the line) are None or
    empty where there is no place. The original error is the `__cause__`; `reason` is its text,
    which also survives pickling.
    """

    def __init__(
        self,
        reason: str,
        *,
        module: str,
        file: str | None = None,
        line: int | None = None,
        excerpt: str = "",
        importing: tuple[str, ...] = (),
    ) -> None:
        self.reason = reason
        self.module = module
        self.file = file
        self.line = line
        self.excerpt = excerpt
        self.importing = importing or (module,)
        place = ":".join(str(part) for part in (file, line) if part is not None)
        head = f"{place}: {reason}" if place else reason
        super().__init__(f"{head}\n{excerpt}" if excerpt else head)
        self.name = module
        self.path = file

    def __reduce__(self) -> tuple[Any, ...]:
        names = ("reason", "module", "file", "line", "excerpt", "importing")
        return _rebuild, ({name: getattr(self, name) for name in names},)
