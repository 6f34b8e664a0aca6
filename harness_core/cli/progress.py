"""Saying that something takes its time: on a terminal, and only once it has taken a second."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Generator

from rich.console import Console

__all__ = ["progress"]

_PATIENCE = 1.0


@contextlib.contextmanager
def progress(console: Console, what: str) -> Generator[None]:
    """Show `what` on a terminal while the block runs, if it runs for more than a second."""
    if not console.is_terminal:
        yield
        return
    status = console.status(f"{what} ...")
    timer = threading.Timer(_PATIENCE, status.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        status.stop()
