"""A fast yes for arguments that plainly fit: the common part of JSON schema, as closures.

It never says no. What it does not understand, or does not accept, goes to the real validator,
which finds the violations and is twenty times slower.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast

__all__ = ["Accept", "quick_check"]

Accept: TypeAlias = Callable[[Any], bool]

_NOTES = frozenset(
    {"title", "description", "default", "examples", "deprecated", "$comment", "$defs"}
    | {"readOnly", "writeOnly"}
)
_DRAFT = "https://json-schema.org/draft/2020-12/schema"


class _TooHard(Exception):
    """A schema that is not among the common ones."""


def quick_check(schema: Mapping[str, Any]) -> Accept | None:
    """Return a check that accepts only what fits the schema; None if it is none of the simple."""
    if schema.get("$schema", _DRAFT) != _DRAFT:
        return None
    try:
        return _Compiler(schema).compile({k: v for k, v in schema.items() if k != "$schema"})
    except _TooHard:
        return None


_TYPES: dict[str, Accept] = {
    "string": lambda value: type(value) is str,
    "integer": lambda value: type(value) is int,
    "number": lambda value: type(value) is int or type(value) is float,
    "boolean": lambda value: type(value) is bool,
    "null": lambda value: value is None,
    "object": lambda value: type(value) is dict,
    "array": lambda value: type(value) is list,
}


class _Compiler:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._refs: dict[str, list[Accept]] = {}

    def compile(self, schema: Any) -> Accept:
        if schema is True:
            return _yes
        if not isinstance(schema, dict):
            raise _TooHard
        rest = {k: v for k, v in cast("dict[str, Any]", schema).items() if k not in _NOTES}
        checks: list[Accept] = []
        if "$ref" in rest:
            checks.append(self._ref(rest.pop("$ref")))
        if "enum" in rest:
            checks.append(_one_of(rest.pop("enum")))
        if "anyOf" in rest:
            checks.append(_any([self.compile(arm) for arm in rest.pop("anyOf")]))
        if "type" in rest:
            kind = rest.pop("type")
            if kind == "object":
                checks.append(self._object(rest))
            elif kind == "array":
                checks.append(self._array(rest))
            elif isinstance(kind, list):
                checks.append(_any([_TYPES[str(one)] for one in cast("list[object]", kind)]))
            else:
                checks.append(_TYPES[kind])
        if rest:
            raise _TooHard
        return checks[0] if len(checks) == 1 else lambda value: all(one(value) for one in checks)

    def _ref(self, ref: str) -> Accept:
        name = ref.removeprefix("#/$defs/")
        if name == ref or not name.isidentifier():
            raise _TooHard
        found = self._refs.get(ref)
        if found is None:
            found = self._refs[ref] = []
            found.append(self.compile(self._root["$defs"][name]))
        # Not found[0]: in a recursive schema it is not there yet.
        return lambda value: found[0](value)

    def _object(self, rest: dict[str, Any]) -> Accept:
        parts = {key: self.compile(one) for key, one in rest.pop("properties", {}).items()}
        required: list[str] = rest.pop("required", [])
        others = rest.pop("additionalProperties", True)
        other = None if others is False else self.compile(others)

        def accept(value: Any) -> bool:
            if type(value) is not dict:
                return False
            given = cast("dict[str, Any]", value)
            for name in required:
                if name not in given:
                    return False
            for name, item in given.items():
                check = parts.get(name, other)
                if check is None or not check(item):
                    return False
            return True

        return accept

    def _array(self, rest: dict[str, Any]) -> Accept:
        item = self.compile(rest.pop("items", True))

        def accept(value: Any) -> bool:
            return type(value) is list and all(map(item, cast("list[object]", value)))

        return accept


def _yes(_: object) -> bool:
    return True


def _one_of(values: list[Any]) -> Accept:
    if not all(type(value) is str for value in values):
        raise _TooHard
    allowed = frozenset(values)
    return lambda value: type(value) is str and value in allowed


def _any(arms: list[Accept]) -> Accept:
    return lambda value: any(arm(value) for arm in arms)
