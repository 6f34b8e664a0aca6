"""From plain data to a script: nothing is coerced, and a fault has a path."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any, cast, get_origin

import attrs

from harness_core.errors import HarnessError, closest

from .script import Script

__all__ = ["ScriptError", "structured"]


class ScriptError(HarnessError, ValueError):
    """A fault in a script. `path` leads to it: `$.turns[2].tools[0].name`."""

    def __init__(self, path: str, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"{path}: {problem}")


def structured(data: object) -> Script:
    """Return plain data as a script. Nothing is coerced; raises ScriptError."""
    import cattrs

    if not isinstance(data, dict):
        raise ScriptError("$", f"expected turns, got {data!r}")
    known = [field.name for field in attrs.fields(Script) if field.name != "where"]
    for key in cast("dict[object, object]", data):
        if key not in known:
            raise ScriptError(f"$.{key}", f"unknown key {key!r} (known keys: {', '.join(known)})")
    try:
        # Made anew each time: a converter keeps the classes it has seen, also after a reload.
        script: Script = _converter().structure(data, Script)
    except cattrs.BaseValidationError as error:
        lines = cattrs.transform_error(error, path="$", format_exception=_describe)
        # A key that is misspelt is missing, too, and says more.
        line = next((one for one in lines if one.startswith("unknown key")), lines[0])
        problem, _, path = line.rpartition(" @ ")
        raise ScriptError(path, problem) from None
    return script


def _describe(error: BaseException, _: type | None) -> str:
    import cattrs

    if isinstance(error, cattrs.ForbiddenExtraKeysError):
        known = [field.name for field in attrs.fields(error.cl)]
        key = str(min(error.extra_fields, key=str))
        guess = closest(key, known)
        hint = f", did you mean {guess!r}?" if guess else ""
        return f"unknown key {key!r}{hint} (known keys: {', '.join(known)})"
    if isinstance(error, KeyError):
        return f"required key {error.args[0]!r} is missing"
    said = str(error) or type(error).__name__
    value, is_choice, choices = said.partition(" not in literal typing.Literal")
    return f"expected one of {choices}, got {value!r}" if is_choice else said


def _converter() -> Any:
    from cattrs import Converter
    from cattrs.cols import homogenous_tuple_structure_factory
    from cattrs.gen import make_dict_structure_fn

    converter = Converter(forbid_extra_keys=True, detailed_validation=True)
    for kind, taken, name in (
        (str, (str,), "text"),
        (bool, (bool,), "true or false"),
        (int, (int,), "a whole number"),
        (float, (float, int), "a number"),
    ):
        converter.register_structure_hook(kind, _exactly(taken, name))

    def is_list(kind: Any) -> bool:
        return get_origin(kind) is tuple

    def lists(kind: Any, owner: Any) -> Callable[[Any, Any], Any]:
        return _checked(list, "a list", homogenous_tuple_structure_factory(kind, owner))

    def records(kind: Any, owner: Any) -> Callable[[Any, Any], Any]:
        plain = make_dict_structure_fn(
            kind, owner, _cattrs_forbid_extra_keys=True, _cattrs_detailed_validation=True
        )
        return _checked(dict, "a mapping", plain)

    converter.register_structure_hook_factory(is_list, lists)
    converter.register_structure_hook_factory(attrs.has, records)
    return converter


def _exactly(taken: tuple[type, ...], name: str) -> Callable[[object, object], object]:
    def hook(value: object, _: object) -> object:
        if isinstance(value, datetime.date):  # YAML makes one of a text that looks like it
            raise TypeError(f"expected {name}, got a date: put it in quotes")
        if type(value) not in taken:  # by type: a bool is an int, and is never meant as one
            raise TypeError(f"expected {name}, got {value!r}")
        return value

    return hook


def _checked(taken: type, name: str, plain: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def hook(value: Any, kind: Any) -> Any:
        if not isinstance(value, taken):
            raise TypeError(f"expected {name}, got {value!r}")
        return plain(value, kind)

    return hook
