"""Faults as the command line reports them: one message each, with a place where there is one."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import traceback
from collections.abc import Generator, Iterable, Mapping
from pathlib import Path

import attrs
from rich.console import Console
from rich.text import Text

from .. import Fiber
from ..errors import HarnessError, ManifestError, PromptRenderError
from ..loader import raised_at
from ..prompt import PromptAssembly
from .origins import written_text
from .safe import one_line

__all__ = [
    "Fault",
    "Faulty",
    "fault_in_scope",
    "fault_of_report",
    "logged",
    "print_faults",
    "relative",
]


@attrs.frozen
class Fault:
    """One fault. `where` is `file`, `file:line` or `file:line:column`; `hint` says whose it is."""

    message: str
    where: str | None = None
    hint: str = ""
    error: BaseException | None = attrs.field(default=None, eq=False)

    @classmethod
    def of_manifest(cls, error: ManifestError) -> Fault:
        """Return the fault that a ManifestError reports."""
        where = ":".join(str(part) for part in (error.file, error.line, error.column) if part)
        return cls(error.message, where, error=error)

    def as_data(self) -> dict[str, str | None]:
        """Return it as JSON can hold it, without the error."""
        return {"message": self.message, "where": self.where, "hint": self.hint}


class Faulty(Exception):
    """The run ends because of these faults."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = list(faults)
        super().__init__("; ".join(fault.message for fault in self.faults))


def relative(text: str) -> str:
    """Return a text in which paths below the working directory are relative."""
    here = os.getcwd().rstrip(os.sep) + os.sep
    return text.replace(here, "") if len(here) > 1 else text


def fault_in_scope(
    error: BaseException,
    scope: str,
    assembly: PromptAssembly | None = None,
    texts: Mapping[Path, str] | None = None,
) -> Fault:
    """Return the fault of an assembly, or of its rendering, that raised.

    `texts` are the files that plugins have read.
    """
    where = raised_at(error)
    if isinstance(error, PromptRenderError) and assembly is not None:
        where = written_text(error, assembly, texts or {}) or where
    kind = "" if isinstance(error, HarnessError) else f"{type(error).__name__}: "
    notes = [note for note in getattr(error, "__notes__", ()) if isinstance(note, str)]
    return Fault(
        relative(f'scope "{scope}" cannot be assembled: {kind}{error}'),
        where,
        relative("; ".join(notes)),
        error,
    )


def fault_of_report(fiber: Fiber, error: BaseException) -> Fault:
    """Return an error without a caller, as it was reported for a fiber, as a fault."""
    notes = [note for note in getattr(error, "__notes__", ()) if isinstance(note, str)]
    message = f"fiber {fiber.path}: {type(error).__name__}: {error}"
    return Fault(relative(message), None, relative("; ".join(notes)), error)


def print_faults(console: Console, faults: Iterable[Fault], *, debug: bool) -> None:
    """Print each fault; with `debug` its traceback too."""
    for fault in faults:
        line = Text("error: ", style="bold red")
        if fault.where:
            line.append(f"{one_line(fault.where)}: ", style="bold")
        line.append("\n".join(one_line(part) for part in fault.message.split("\n")))
        console.print(line, soft_wrap=True)
        if fault.hint:
            console.print(Text(f"  {one_line(fault.hint)}", style="dim"), soft_wrap=True)
        if debug and fault.error is not None:
            trace = "".join(traceback.format_exception(fault.error))
            console.print(Text(trace, style="dim"), soft_wrap=True)


@contextlib.contextmanager
def logged(debug: bool) -> Generator[None]:
    """Keep the log to this run: with `debug` it goes to stderr, else faults are reported by us."""
    logger = logging.getLogger("harness_core")
    handler: logging.Handler = logging.StreamHandler(sys.stderr) if debug else logging.NullHandler()
    propagates, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagates
