"""Where new code failed: the module, the file, the line and the code around it."""

from __future__ import annotations

import linecache
import os
from collections.abc import Iterator
from importlib.util import decode_source
from types import TracebackType

from .errors import StagingError
from .roots import Roots
from .source import Failure

__all__ = ["excerpt", "place_of", "staging_error", "without_machinery"]

_HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "")
_IMPORTLIB = os.path.join("importlib", "__init__.py")

AROUND = 2
"""Lines to show before and after the one in question."""


def staging_error(
    error: BaseException, failure: Failure, wanted: str, roots: Roots
) -> StagingError:
    """Return the error to raise for `error`, which came up while `wanted` was being imported."""
    importing = failure.importing if failure.error is error else []
    file, line = place_of(error, roots)
    if file is None and importing:
        file = importing[0][1]
    said = error.msg if isinstance(error, SyntaxError) else str(error)
    kind = type(error).__name__
    return StagingError(
        f"{kind}: {said}" if said else kind,
        module=importing[0][0] if importing else wanted,
        file=file,
        line=line,
        excerpt=excerpt(file, line) if file is not None and line is not None else "",
        importing=tuple(name for name, _ in importing) or (wanted,),
    )


def place_of(error: BaseException, roots: Roots) -> tuple[str | None, int | None]:
    """Return file and line of the innermost code below the roots that led to an error."""
    if isinstance(error, SyntaxError) and roots.covers(error.filename):
        return error.filename, error.lineno
    places = [(file, line) for file, line in _frames(error.__traceback__) if roots.covers(file)]
    return places[-1] if places else (None, None)


def without_machinery(error: BaseException) -> BaseException:
    """Let the traceback of an error begin with the code that was imported."""
    traceback = error.__traceback__
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if not file.startswith((_HERE, "<frozen importlib")) and not file.endswith(_IMPORTLIB):
            break
        traceback = traceback.tb_next
    return error.with_traceback(traceback)


def _frames(traceback: TracebackType | None) -> Iterator[tuple[str, int]]:
    while traceback is not None:
        yield traceback.tb_frame.f_code.co_filename, traceback.tb_lineno
        traceback = traceback.tb_next


def excerpt(file: str, line: int) -> str:
    """Return the lines around one, numbered, as the file is now; "" if it cannot be read."""
    linecache.cache.pop(file, None)
    try:
        with open(file, "rb") as source:
            content = source.read()
    except OSError:
        return ""
    try:
        text = decode_source(content)
    except (SyntaxError, UnicodeDecodeError):
        text = content.decode("utf-8", errors="replace")
    lines = text.splitlines()
    first, last = max(line - AROUND, 1), min(line + AROUND, len(lines))
    width = len(str(last))
    shown = (
        f"{'>' if number == line else ' '} {number:>{width}} | {lines[number - 1]}".rstrip()
        for number in range(first, last + 1)
    )
    return "\n".join(shown)
