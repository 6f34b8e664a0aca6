"""How many tokens a text has: counted with tiktoken where it is installed, else estimated."""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib import import_module

__all__ = ["count_tokens", "is_estimate"]

_ENCODING = "o200k_base"
_PER_TOKEN = 4


def count_tokens(text: str) -> int:
    """Return the number of tokens; the estimate is a quarter of the characters, rounded up."""
    encode = _encoder()
    return encode(text) if encode is not None else -(-len(text) // _PER_TOKEN)


def is_estimate() -> bool:
    """Whether `count_tokens` estimates."""
    return _encoder() is None


@functools.cache
def _encoder() -> Callable[[str], int] | None:
    try:
        encoding = import_module("tiktoken").get_encoding(_ENCODING)
    except Exception:  # not installed, or its vocabulary cannot be had
        return None
    return lambda text: len(encoding.encode(text, disallowed_special=()))
