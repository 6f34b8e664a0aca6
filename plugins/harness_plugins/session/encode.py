"""Data as JSON text that any file and any database can hold, and back.

Every `str` comes back: NUL and other control characters are escapes in JSON anyway, and so are
lone surrogates here, which UTF-8 cannot carry. One thing is put right on the way: two surrogates
that together mean a character become that character.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, cast

__all__ = ["as_mapping", "from_text", "plain", "to_text"]

# Surrogates, and the line ends that JSON allows in a string but readers of lines may break at.
_ESCAPED = re.compile("[\ud800-\udfff\x85\u2028\u2029]")


def to_text(data: object) -> str:
    """Return data as one line of JSON; raise ValueError or TypeError for what JSON has not."""
    try:
        text = json.dumps(data, ensure_ascii=False, allow_nan=False)
    except RecursionError:
        raise ValueError("it is nested too deeply, or contains itself") from None
    return _ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def from_text(text: str) -> Any:
    """Return the data that `to_text` wrote; raise ValueError for anything else."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def plain(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return data as it will be read back: a copy, tuples as lists. Raises as `to_text` does."""
    return as_mapping(from_text(to_text(dict(data))))


def as_mapping(data: object) -> dict[str, Any]:
    """Return data that has to be a JSON object; raise TypeError if it is another thing."""
    if not isinstance(data, dict):
        raise TypeError(f"expected an object, got {data!r}")
    return cast("dict[str, Any]", data)
