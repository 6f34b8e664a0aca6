"""Errors of tools, as far as a model may read them."""

from __future__ import annotations

import re

__all__ = ["alone", "summary", "without_traceback"]

_TRACEBACK = re.compile(r"\s*Traceback \(most recent call last\):.*", re.DOTALL)


def without_traceback(text: str) -> str:
    """Cut off a traceback that an error carries in its message, as those of other processes do."""
    return _TRACEBACK.sub("", text)


def alone(error: BaseException) -> BaseException:
    """Return the one error that a group holds, as task groups make of any; else the error."""
    inner = _inner(error)
    return alone(inner[0]) if len(inner) == 1 else error


def _inner(error: BaseException) -> tuple[BaseException, ...]:
    """Return the errors of a group; none for one that is no group."""
    found: tuple[BaseException, ...] = getattr(error, "exceptions", ())
    return found if isinstance(error, BaseExceptionGroup) else ()


def summary(error: BaseException) -> str:
    """Return kind and message of an error, and nothing of where it happened."""
    error = alone(error)
    several = _inner(error)
    if several:
        return "; ".join(map(summary, several))
    try:
        text = without_traceback(str(error)).strip()
    except Exception:  # its own __str__ is at fault
        text = ""
    kind = type(error).__name__
    return f"{kind}: {text}" if text else kind
