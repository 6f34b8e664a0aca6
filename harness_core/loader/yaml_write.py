"""Values as YAML text: on one line, or as indented lines."""

from __future__ import annotations

import datetime
import json
import math
import re

from .places import as_dict, as_list

__all__ = ["block_text", "flow_text"]

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*([ ./+-]?[A-Za-z0-9_]+)*[.!]?|\./[\w./:-]*[\w/]")
_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})


def flow_text(value: object) -> str:
    """Return a value on one line. Raises TypeError for what YAML cannot hold plainly."""
    mapping, items = as_dict(value), as_list(value)
    if mapping is not None:
        inner = ", ".join(f"{flow_text(key)}: {flow_text(one)}" for key, one in mapping.items())
        return f"{{{inner}}}"
    if items is not None:
        return f"[{', '.join(map(flow_text, items))}]"
    return _scalar(value)


def block_text(value: object, indent: int, newline: str) -> str:
    """Return a value as it stands after a dash or a key; lines after the first are indented.

    A mapping or list that is not empty begins at the place itself, without a line end before it.
    """
    mapping, items = as_dict(value), as_list(value)
    gap = newline + " " * indent
    if mapping:
        return gap.join(
            f"{flow_text(key)}:{_after(one, indent + 2, newline)}" for key, one in mapping.items()
        )
    if items:
        return gap.join(f"- {block_text(one, indent + 2, newline)}" for one in items)
    return flow_text(value)


def _after(value: object, indent: int, newline: str) -> str:
    """Return what stands after the colon of a key."""
    if (as_dict(value) or as_list(value)) and _is_deep(value):
        return f"{newline}{' ' * indent}{block_text(value, indent, newline)}"
    return f" {flow_text(value)}"


def _is_deep(value: object) -> bool:
    inner = [*(as_dict(value) or {}).values(), *(as_list(value) or ())]
    return len(flow_text(value)) > 60 or any(as_dict(one) or as_list(one) for one in inner)


def _scalar(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        is_plain = _PLAIN.fullmatch(value) and value.lower() not in _WORDS
        return value if is_plain else json.dumps(value, ensure_ascii=False)
    if isinstance(value, float) and not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    if isinstance(value, int | float):
        return _number(value)
    if isinstance(value, datetime.date):
        return value.isoformat()
    raise TypeError(f"{value!r} cannot be written to a manifest: expected plain values")


def _number(value: float) -> str:
    text = repr(value)
    if "e" in text and "." not in text:  # YAML takes 1e-05 for a text
        text = text.replace("e", ".0e")
    return text
