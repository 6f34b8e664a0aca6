"""The command line: `harness prompt`, `check`, `tree`, `run`, `dev`, ... Contract: section 10.

This module imports neither click nor rich, so that it can say what is missing.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence

__all__ = ["main"]

_EXTRA = frozenset({"click", "rich", "ruamel"})


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 for success, 1 for faults, 2 for a wrong call."""
    try:
        from .commands import harness
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _EXTRA:
            raise
        print(
            f"harness: the command line needs {missing}, which is not installed. "
            'Install the extra: pip install "harness-core[cli]"',
            file=sys.stderr,
        )
        sys.exit(1)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # no text may be impossible to print
            stream.reconfigure(errors="backslashreplace")
    here = os.getcwd()
    if "" not in sys.path and here not in sys.path:
        sys.path.append(here)  # where a console script, unlike `python -m`, does not look
    harness.main(args=None if arguments is None else list(arguments), prog_name="harness")
