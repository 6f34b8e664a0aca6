"""Python types as JSON schemas, and JSON values as values of those types: one source for both.

A `Shape` is a schema and the function that reads a value which fits it. `Shapes` makes them for
one signature and collects the named types (classes, enums, type aliases) as `$defs`, so that a
type may be nested or recursive.
"""

from __future__ import annotations

import collections.abc as abc
import enum
import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

from harness_core.errors import PluginError

from .classes import Field, fields_of, is_record
from .encode import to_json
from .scalars import SCALARS, Mismatch, Read, Shape, anything

__all__ = ["Shapes", "record_shape"]

_ARRAYS: dict[Any, Callable[[list[Any]], Any]] = {
    list: list,
    abc.Sequence: list,
    abc.Iterable: list,
    abc.Collection: list,
    set: set,
    abc.Set: frozenset,
    frozenset: frozenset,
}
_OBJECTS = (dict, abc.Mapping, abc.MutableMapping)


class Shapes:
    """Makes the shapes of one signature. `defs` holds the schemas of its named types."""

    def __init__(self, whose: str, names: Mapping[str, Any] | None = None) -> None:
        self.whose = whose
        self._names: Mapping[str, Any] = names or {}
        self.defs: dict[str, dict[str, Any]] = {}
        self._named: dict[Any, Shape] = {}

    def of(self, kind: Any, place: str) -> Shape:
        """Return the shape of a type; raise PluginError, with the place, for one that has none."""
        origin, args = get_origin(kind), get_args(kind)
        if origin is Annotated:
            return _annotated(self.of(args[0], place), args[1:])
        simple = SCALARS.get(kind)
        if simple is not None:
            return Shape(dict(simple.schema), simple.read)
        if origin in (Union, types.UnionType):
            return _union([self.of(arm, place) for arm in args])
        if origin is Literal:
            return self._one_of(args, place)
        if (origin or kind) is tuple:
            return self._tuple(args, place)
        if (origin or kind) in _ARRAYS:
            return self._array(origin or kind, args, place)
        if (origin or kind) in _OBJECTS:
            return self._object(args, place)
        if isinstance(kind, typing.NewType):
            return self.of(kind.__supertype__, place)
        aliased = getattr(kind, "__value__", None)
        if aliased is not None:
            return self._name(kind, lambda: self.of(aliased, place))
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            return self._name(kind, lambda: self._enum(kind, place))
        if is_record(kind):
            return self._name(kind, lambda: self._record(kind))
        raise PluginError(
            f"{self.whose}: {place} is {kind!r}, which has no JSON schema; use str, int, float, "
            "bool, None, list, tuple, set, dict, Literal, enums, dates, UUID, Path, attrs classes, "
            "dataclasses, typed dictionaries or unions of them, or register a Tool with a schema "
            "of its own"
        )

    def _name(self, kind: Any, make: Callable[[], Shape]) -> Shape:
        known = self._named.get(kind)
        if known is not None:
            return known
        name, count = str(kind.__name__), 1
        while name in self.defs:
            count += 1
            name = f"{kind.__name__}_{count}"
        self.defs[name] = {}
        body: list[Shape] = []
        shape = Shape({"$ref": f"#/$defs/{name}"}, lambda value, path: body[0].read(value, path))
        self._named[kind] = shape
        body.append(make())
        self.defs[name].update(body[0].schema)
        return shape

    def _record(self, kind: Any) -> Shape:
        return record_shape(self, kind.__name__, fields_of(kind, self._names), kind)

    def _enum(self, kind: type[enum.Enum], place: str) -> Shape:
        members = {_strict(member.value): member for member in kind}
        values = self._one_of(tuple(member.value for member in kind), place)
        text = (kind.__doc__ or "").strip()
        inherited = text == (enum.Enum.__doc__ or "").strip() or text == "An enumeration."
        described = {"description": text} if text and not inherited else {}
        return Shape(
            values.schema | described,
            lambda value, path: members[_strict(values.read(value, path))],
        )

    def _one_of(self, values: tuple[Any, ...], place: str) -> Shape:
        plain = [value.value if isinstance(value, enum.Enum) else value for value in values]
        for value in plain:
            if not isinstance(value, str | int | float | bool | None):
                raise PluginError(f"{self.whose}: {place} has the value {value!r}, no JSON scalar")
        found = {_strict(value): original for value, original in zip(plain, values, strict=True)}
        schema: dict[str, Any] = {"enum": plain}
        if all(isinstance(value, str) for value in plain):
            schema = {"type": "string", "enum": plain}

        def read(value: Any, path: str) -> Any:
            key = _strict(value)
            if key not in found:
                raise Mismatch(path, f"expected one of {plain!r}, got {value!r}")
            return found[key]

        return Shape(schema, read)

    def _array(self, kind: Any, args: tuple[Any, ...], place: str) -> Shape:
        make = _ARRAYS[kind]
        item = self.of(args[0], f"an item of {place}") if args else anything()
        schema: dict[str, Any] = {"type": "array"}
        if item.schema:
            schema["items"] = item.schema
        if make is not list:
            schema["uniqueItems"] = True
        return Shape(schema, lambda value, path: make(_read_items(value, path, item.read)))

    def _tuple(self, args: tuple[Any, ...], place: str) -> Shape:
        if not args or (len(args) == 2 and args[1] is Ellipsis):
            array = self._array(list, args[:1], place)
            return Shape(array.schema, lambda value, path: tuple(array.read(value, path)))
        items = [self.of(arg, f"an item of {place}") for arg in args]
        size = len(items)
        schema = {
            "type": "array",
            "prefixItems": [item.schema for item in items],
            "items": False,
            "minItems": size,
            "maxItems": size,
        }

        def read(value: Any, path: str) -> Any:
            if not isinstance(value, list) or len(cast("list[object]", value)) != size:
                raise Mismatch(path, f"expected {size} items, got {value!r}")
            pairs = zip(items, cast("list[object]", value), strict=True)
            return tuple(one.read(v, f"{path}[{i}]") for i, (one, v) in enumerate(pairs))

        return Shape(schema, read)

    def _object(self, args: tuple[Any, ...], place: str) -> Shape:
        if args and args[0] is not str:
            raise PluginError(f"{self.whose}: {place} has keys {args[0]!r}; JSON has str keys only")
        item = self.of(args[1], f"a value of {place}") if args else anything()
        schema: dict[str, Any] = {"type": "object"}
        if item.schema:
            schema["additionalProperties"] = item.schema

        def read(value: Any, path: str) -> Any:
            pairs = _read_object(value, path).items()
            return {key: item.read(one, f"{path}.{key}") for key, one in pairs}

        return Shape(schema, read)


def record_shape(
    shapes: Shapes, owner: str, fields: list[Field], make: Callable[..., Any]
) -> Shape:
    """Return the shape of an object with named fields, read by `make(**fields)`."""
    parts = {one.name: shapes.of(one.kind, f"{one.name} of {owner}") for one in fields}
    required = [one.name for one in fields if one.is_required]
    properties = {one.name: _described(parts[one.name].schema, one) for one in fields}
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    schema |= {"required": required} if required else {}
    schema["additionalProperties"] = False

    def read(value: Any, path: str) -> Any:
        given = _read_object(value, path)
        missing = [name for name in required if name not in given]
        unknown = [name for name in given if name not in parts]
        if missing or unknown:
            raise Mismatch(path, f"missing: {missing}, unknown: {unknown}")
        values = {name: parts[name].read(one, f"{path}.{name}") for name, one in given.items()}
        try:
            return make(**values)
        except (ValueError, TypeError) as error:
            raise Mismatch(path, str(error)) from error

    return Shape(schema, read)


def _described(schema: dict[str, Any], field: Field) -> dict[str, Any]:
    described = dict(schema)
    if field.description and "description" not in described:
        described["description"] = field.description
    if field.has_default:
        try:
            described["default"] = to_json(field.default, as_argument=True)
        except TypeError:
            pass  # a default that JSON cannot say; the argument may be left out all the same
    return described


def _read_items(value: Any, path: str, read: Read) -> list[Any]:
    if not isinstance(value, list):
        raise Mismatch(path, f"expected array, got {value!r}")
    items = cast("list[object]", value)
    return [read(one, f"{path}[{index}]") for index, one in enumerate(items)]


def _read_object(value: Any, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Mismatch(path, f"expected object, got {value!r}")
    return cast("dict[str, Any]", value)


def _strict(value: Any) -> tuple[bool, Any]:
    """Return a key that tells True from 1, as JSON does, but not 1 from 1.0, as it does not."""
    return isinstance(value, bool), value


def _annotated(shape: Shape, notes: tuple[Any, ...]) -> Shape:
    schema = dict(shape.schema)
    for note in notes:
        if isinstance(note, str):
            schema["description"] = note
        elif isinstance(note, Mapping):
            schema.update(cast("Mapping[str, Any]", note))
    return Shape(schema, shape.read)


def _union(arms: list[Shape]) -> Shape:
    # Integers last: 3.0 is one for JSON schema, and is to stay a float where it may be one.
    in_turn = sorted(arms, key=lambda arm: arm.schema.get("type") == "integer")

    def read(value: Any, path: str) -> Any:
        problems: list[str] = []
        for arm in in_turn:
            try:
                return arm.read(value, path)
            except Mismatch as error:
                problems.append(str(error))
        raise Mismatch(path, "; ".join(problems))

    return Shape({"anyOf": [arm.schema for arm in arms]}, read)
