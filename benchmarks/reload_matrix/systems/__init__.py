"""The systems that are compared. Each module here has a class `Adapter`."""

from __future__ import annotations

import importlib
from typing import cast

from benchmarks.reload_matrix.model import System

__all__ = ["SYSTEMS", "make"]

SYSTEMS = {
    "harness-core": "ours",
    "jurigged": "with_jurigged",
    "importlib.reload": "by_hand",
}


def make(name: str) -> System:
    """Return an adapter; raises ImportError if its system is not installed."""
    module = importlib.import_module(f"{__name__}.{SYSTEMS[name]}")
    return cast("System", module.Adapter())
