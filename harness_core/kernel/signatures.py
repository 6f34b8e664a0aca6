"""How callables and objects of unknown type are looked at."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, TypeGuard

from ..errors import PluginError

__all__ = ["accepts", "class_name", "class_of", "is_mapping", "is_sequence"]


def is_mapping(value: object) -> TypeGuard[Mapping[Any, Any]]:
    """Whether something untyped is a mapping, of whatever it may hold."""
    return isinstance(value, Mapping)


def is_sequence(value: object) -> TypeGuard[list[Any] | tuple[Any, ...]]:
    """Whether something untyped is a list or a tuple, of whatever it may hold."""
    return isinstance(value, list | tuple)


def class_of(value: object) -> Any:
    """Return the class of something untyped, as untyped as that."""
    return type(value)


def class_name(value: object) -> str:
    """Return the name of the class of something untyped, for messages."""
    return type(value).__name__


def accepts(function: Callable[..., object], count: int, *, required: bool = False) -> int:
    """Return how many of `count` positional arguments a callable takes.

    With `required`, a parameter whose default is not None does not count: in `lambda name=name:
    ...` it holds a value, and asks for nothing. Raises PluginError if the callable needs more, or
    keyword arguments that nobody would pass.
    """
    if isinstance(function, FunctionType) and not function.__code__.co_flags & 0x0C:
        code, defaults = function.__code__, function.__defaults__ or ()
        needed = code.co_argcount - len(defaults)
        if needed <= count and not code.co_kwonlyargcount:
            if defaults:
                needed += sum(1 for default in defaults if default is None or not required)
            return int(min(count, needed))
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return count
    taken = 0
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            return count
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            if required and parameter.default not in (parameter.empty, None):
                continue
            if taken == count and parameter.default is parameter.empty:
                raise PluginError(f"{function!r} needs more than {count} arguments")
            taken = min(count, taken + 1)
        elif parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty:
            raise PluginError(
                f"{function!r} needs the keyword argument {parameter.name!r}, which is not passed"
            )
    return taken
