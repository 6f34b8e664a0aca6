"""The shapes of types that have no parts, and what a shape is."""

from __future__ import annotations

import datetime
import pathlib
import uuid
from collections.abc import Callable
from typing import Any, TypeAlias

import attrs

__all__ = ["SCALARS", "Mismatch", "Read", "Shape", "anything"]

Read: TypeAlias = Callable[[Any, str], Any]


class Mismatch(ValueError):
    """A value that is not of a shape."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")


@attrs.frozen
class Shape:
    """The schema of a type, and how a value of it is read: `read(value, path)`."""

    schema: dict[str, Any]
    read: Read


def _exactly(kind: str, *accepted: type) -> Shape:
    def read(value: Any, path: str) -> Any:
        if type(value) not in accepted:
            raise Mismatch(path, f"expected {kind}, got {value!r}")
        return value

    return Shape({"type": kind}, read)


def _read_int(value: Any, path: str) -> int:
    # For JSON schema 3.0 is an integer.
    if type(value) is float and value.is_integer():
        return int(value)
    if type(value) is not int:
        raise Mismatch(path, f"expected integer, got {value!r}")
    return value


def _parsed(format: str | None, parse: Callable[[str], Any]) -> Shape:
    def read(value: Any, path: str) -> Any:
        if not isinstance(value, str):
            raise Mismatch(path, f"expected string, got {value!r}")
        try:
            return parse(value)
        except ValueError as error:
            raise Mismatch(path, str(error)) from error

    return Shape({"type": "string"} | ({"format": format} if format else {}), read)


def _upper(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda text: parse(text.upper())


def anything() -> Shape:
    """Return the shape that everything has."""
    return Shape({}, lambda value, _: value)


SCALARS: dict[Any, Shape] = {
    Any: anything(),
    object: anything(),
    str: _exactly("string", str),
    int: Shape({"type": "integer"}, _read_int),
    float: _exactly("number", float, int),
    bool: _exactly("boolean", bool),
    type(None): _exactly("null", type(None)),
    None: _exactly("null", type(None)),
    datetime.datetime: _parsed("date-time", _upper(datetime.datetime.fromisoformat)),
    datetime.date: _parsed("date", datetime.date.fromisoformat),
    datetime.time: _parsed("time", _upper(datetime.time.fromisoformat)),
    uuid.UUID: _parsed("uuid", uuid.UUID),
    pathlib.Path: _parsed(None, pathlib.Path),
}
"""By type."""
