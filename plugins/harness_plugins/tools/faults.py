"""Errors of tools, as far as a model may read them."""

from __future__ import annotations

import re

__all__ = ["summary", "without_traceback"]

_TRACEBACK = re.compile(r"\s*Traceback \(most recent call last\):.*", re.DOTALL)


def without_traceback(text: str) -> str:
    """Cut off a traceback that an error carries in its message, as those of other processes do."""
    return _TRACEBACK.sub("", text)


def summary(error: BaseException) -> str:
    """Return kind and message of an error, and nothing of where it happened."""
    try:
        text = without_traceback(str(error)).strip()
    except Exception:  # its own __str__ is at fault
        text = ""
    kind = type(error).__name__
    return f"{kind}: {text}" if text else kind
