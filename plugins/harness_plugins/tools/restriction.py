"""Reading the arguments of `restrict`: what they may be, and what is said where they are not."""

from __future__ import annotations

from collections.abc import Iterable

from harness_core import Context
from harness_core.errors import PluginError, closest

from .entries import RestrictionEntry
from .errors import RestrictionError

__all__ = ["read_restriction"]


def read_restriction(
    allow: Iterable[str] | None, deny: Iterable[str] | None, ctx: Context, known: tuple[str, ...]
) -> RestrictionEntry:
    """Return the restriction; raise RestrictionError or PluginError for one without sense."""
    allowed, denied = _names("allow", allow), _names("deny", deny)
    if ctx.tag is None:
        raise RestrictionError(
            "a restriction belongs to a scope: in the global layer it would bind everybody. "
            "Call it through a scope's context",
            known=known,
        )
    if allowed is None and denied is None:
        raise RestrictionError("restrict() takes allow=[...], deny=[...] or both", known=known)
    named = sorted({*(allowed or ()), *(denied or ())})
    unknown = tuple(name for name in named if name not in known)
    if unknown:
        guesses = [f'"{guess}"' for name in unknown if (guess := closest(name, known))]
        hint = f"; did you mean {', '.join(guesses)}?" if guesses else ""
        quoted = ", ".join(f'"{name}"' for name in unknown)
        raise RestrictionError(f"unknown tools {quoted}{hint}", unknown, known)
    return RestrictionEntry(allowed, denied or frozenset(), ctx)


def _names(what: str, names: Iterable[str] | None) -> frozenset[str] | None:
    if names is None:
        return None
    if isinstance(names, str):
        raise PluginError(f"{what} is {names!r}; to name one tool, write [{names!r}]")
    found = frozenset(names)
    if not all(isinstance(name, str) for name in found):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise PluginError(f"{what} must hold tool names, got {list(found)!r}")
    return found
