"""What a tool returned, as JSON data and as the text that the model reads."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
import pathlib
import uuid
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any, cast

import attrs

__all__ = ["to_json", "to_text", "truncate"]


def to_text(value: object) -> str:
    """Return a str as it is, nothing for None, and anything else as JSON.

    Raises TypeError for what JSON cannot say.
    """
    if isinstance(value, str):
        return str(value)
    if value is None:
        return ""
    return json.dumps(to_json(value), ensure_ascii=False)


def to_json(value: Any) -> Any:
    """Return a value as plain JSON data; raise TypeError for what JSON cannot say."""
    if isinstance(value, enum.Enum):
        return to_json(value.value)
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, type):
        raise TypeError(f"the class {value.__name__} is no JSON data")
    if attrs.has(type(value)):
        return {one.alias: to_json(getattr(value, one.name)) for one in attrs.fields(type(value))}
    if dataclasses.is_dataclass(value):
        return {one.name: to_json(getattr(value, one.name)) for one in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {_key(key): to_json(item) for key, item in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in cast("list[Any]", value)]
    if isinstance(value, AbstractSet):
        items = [to_json(item) for item in cast("AbstractSet[Any]", value)]
        return sorted(items, key=lambda item: json.dumps(item, sort_keys=True))
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, uuid.UUID | pathlib.PurePath):
        return str(value)
    raise TypeError(f"a value of type {type(value).__name__} is no JSON data")


def _key(key: Any) -> str:
    plain = key.value if isinstance(key, enum.Enum) else key
    if not isinstance(plain, str):
        raise TypeError(f"the key {key!r} is no str")
    return str(plain)


def truncate(text: str, limit: int | None) -> tuple[str, int]:
    """Return a text of `limit` characters at most, and how many were taken off its end.

    A text that is cut says so in its last line.
    """
    if limit is None or len(text) <= limit:
        return text, 0
    size = len(text)
    room = limit - len(_notice(size, size))
    return text[:room] + _notice(room, size), size - room


def _notice(shown: int, size: int) -> str:
    return f"\n[output truncated: the first {shown} of {size} characters are shown]"
