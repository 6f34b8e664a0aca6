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

_ENCODER = json.JSONEncoder(ensure_ascii=False)


def to_text(value: object) -> str:
    """Return a str as it is, nothing for None, and anything else as JSON.

    Raises TypeError for what JSON cannot say.
    """
    if isinstance(value, str):
        return str(value)
    if value is None:
        return ""
    return _ENCODER.encode(to_json(value))


def to_json(value: Any, *, as_argument: bool = False) -> Any:
    """Return a value as plain JSON data; raise TypeError for what JSON cannot say.

    `as_argument` leaves out the fields of a class that cannot be given when it is made.
    """
    if isinstance(value, enum.Enum):
        return to_json(value.value)
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, type):
        raise TypeError(f"the class {value.__name__} is no JSON data")
    fields = _fields(value, as_argument)
    if fields is not None:
        return {name: to_json(one, as_argument=as_argument) for name, one in fields.items()}
    if isinstance(value, Mapping):
        pairs = cast("Mapping[object, object]", value).items()
        return {_key(key): to_json(one, as_argument=as_argument) for key, one in pairs}
    if isinstance(value, list | tuple):
        items = cast("list[object]", value)
        return [to_json(one, as_argument=as_argument) for one in items]
    if isinstance(value, AbstractSet):
        members = cast("AbstractSet[object]", value)
        plain = [to_json(one, as_argument=as_argument) for one in members]
        return sorted(plain, key=lambda one: json.dumps(one, sort_keys=True))
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, uuid.UUID | pathlib.PurePath):
        return str(value)
    raise TypeError(f"a value of type {type(value).__name__} is no JSON data")


def _fields(value: Any, as_argument: bool) -> dict[str, Any] | None:
    """Return the fields of an instance of an attrs class or dataclass, None for all else."""
    kind = cast("Any", type(value))
    if attrs.has(kind):
        names = {one.name: one.alias for one in attrs.fields(kind) if one.init or not as_argument}
    elif dataclasses.is_dataclass(kind):
        known = dataclasses.fields(kind)
        names = {one.name: one.name for one in known if one.init or not as_argument}
    else:
        return None
    return {alias: getattr(value, name) for name, alias in names.items()}


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
