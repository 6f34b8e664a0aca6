"""Read-only JSON: dicts and lists that equal and serialise like plain ones, and cannot change.

They are real `dict` and `list`, so `json`, model SDKs and `isinstance` take them as they are.
`copy.deepcopy` gives a plain, changeable copy. Contract: section 5, "Tool parameters".
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NoReturn

from ..errors import InvalidSchemaError
from ..kernel.signatures import class_of, is_mapping, is_sequence

__all__ = ["EMPTY_PARAMETERS", "FrozenDict", "FrozenList", "freeze", "thaw"]


def _refuse(*_: object, **__: object) -> NoReturn:
    raise TypeError(
        "tool parameters are read-only: take copy.deepcopy(tool.parameters), change that, and "
        "replace the tool with attrs.evolve(tool, parameters=...)"
    )


class FrozenDict(dict[str, Any]):
    """A dict of JSON values that cannot be changed."""

    __slots__ = ()
    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __deepcopy__(self, memo: object) -> dict[str, Any]:
        return {key: thaw(value) for key, value in self.items()}

    def __reduce__(self) -> tuple[Any, ...]:
        return freeze, (thaw(self), None)


class FrozenList(list[Any]):
    """A list of JSON values that cannot be changed."""

    __slots__ = ()
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = _refuse
    pop = remove = reverse = sort = _refuse

    def __deepcopy__(self, memo: object) -> list[Any]:
        return [thaw(value) for value in self]

    def __reduce__(self) -> tuple[Any, ...]:
        return freeze, (thaw(self), None)


def thaw(value: Any) -> Any:
    """Return a plain, changeable copy."""
    if is_mapping(value):
        return {key: thaw(item) for key, item in value.items()}
    if is_sequence(value):
        return [thaw(item) for item in value]
    return value


def freeze(value: Any, tool: object) -> Any:
    """Return a read-only copy of a JSON value.

    Raises InvalidSchemaError, with the path, for what JSON cannot carry: other types, keys that
    are not strings, NaN and infinities, and a value that contains itself.
    """
    return _freeze(value, tool, "parameters", set())


def _freeze(value: Any, tool: object, path: str, inside: set[int]) -> Any:
    kind = class_of(value)
    if kind is str or value is None or kind is bool or kind is int:
        return value
    if kind is FrozenDict or kind is FrozenList:
        return value
    if kind is float:
        if not math.isfinite(value):
            raise InvalidSchemaError(tool, path, f"{value!r} is no JSON number")
        return value
    if is_mapping(value) or is_sequence(value):
        if id(value) in inside:
            raise InvalidSchemaError(
                tool, path, "the schema contains itself; use $ref and $defs for recursive types"
            )
        inside.add(id(value))
        try:
            return _freeze_container(value, tool, path, inside)
        finally:
            inside.discard(id(value))
    if isinstance(value, str | bool | int):  # subclasses, such as string enums
        return value
    raise InvalidSchemaError(
        tool, path, f"{value!r} ({kind.__name__}) is no JSON value; expected plain data"
    )


def _freeze_container(
    value: Mapping[Any, Any] | list[Any] | tuple[Any, ...],
    tool: object,
    path: str,
    inside: set[int],
) -> Any:
    if is_sequence(value):
        return FrozenList(
            _freeze(item, tool, f"{path}[{index}]", inside) for index, item in enumerate(value)
        )
    assert is_mapping(value)
    for key in value:
        if not isinstance(key, str):
            raise InvalidSchemaError(tool, path, f"key {key!r} is no string")
    return FrozenDict(
        (key, _freeze(item, tool, f"{path}.{key}", inside)) for key, item in value.items()
    )


EMPTY_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}
