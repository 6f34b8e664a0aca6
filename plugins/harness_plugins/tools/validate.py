"""Arguments against a JSON schema: every violation is listed, nothing is coerced.

Draft 2020-12, unless a schema names another draft in `$schema`. Nothing is ever fetched: a
reference that leads out of the schema is an error of the tool. Formats are checked where a check
needs nothing but Python, so that the answer is the same on every machine.
"""

from __future__ import annotations

import datetime
import functools
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from harness_core.errors import HarnessError, InvalidSchemaError, PluginError

from .quick import quick_check

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator

__all__ = ["ArgumentsError", "Schema", "path_of", "plain_copy"]

LONGEST_MESSAGE = 300
"""Characters of one violation: a message quotes the value, which may be huge."""


class ArgumentsError(HarnessError, ValueError):
    """Arguments that a tool does not take. `violations` holds one line for each fault."""

    def __init__(self, violations: Iterable[str]) -> None:
        self.violations = tuple(violations)
        super().__init__("; ".join(self.violations))


def plain_copy(value: Any) -> Any:
    """Return a copy of JSON data that nobody else holds.

    Raises ArgumentsError for keys and numbers that JSON does not have.
    """
    if isinstance(value, dict):
        return {
            _key(key): plain_copy(one) for key, one in cast("dict[object, object]", value).items()
        }
    if isinstance(value, list):
        return [plain_copy(item) for item in cast("list[object]", value)]
    if isinstance(value, float) and not math.isfinite(value):
        raise ArgumentsError((f"$: {value!r} is no JSON number",))
    return value


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise ArgumentsError((f"$: the key {key!r} is no str",))
    return key


def path_of(parts: Iterable[object]) -> str:
    """Return a place in the arguments as text: `$.items[0].name`."""
    path = "$"
    for part in parts:
        path += f"[{part}]" if isinstance(part, int) else f".{part}"
    return path


class Schema:
    """The schema of one tool's arguments, checked when it is made."""

    __slots__ = ("_parameters", "_quick", "_tool", "_validator")

    def __init__(self, tool: str, parameters: Mapping[str, Any]) -> None:
        self._tool = tool
        self._parameters = parameters
        self._validator: Validator | None = None
        problem = _problem_of(json.dumps(parameters))
        if problem is not None:
            raise InvalidSchemaError(tool, *problem)
        self._quick = quick_check(parameters)

    def check(self, arguments: Any) -> None:
        """Raise ArgumentsError, with every violation, unless the arguments fit."""
        if not isinstance(arguments, dict):
            kind = type(arguments).__name__
            raise ArgumentsError((f"$: the arguments must be a JSON object, got {kind}",))
        if self._quick is not None and self._quick(arguments):
            return
        validator = self._validator
        if validator is None:
            validator = self._validator = _validator(self._parameters)
        errors: list[ValidationError] = list(
            validator.iter_errors(cast("dict[str, Any]", arguments))
        )
        if errors:
            lines = [line for error in errors for line in _lines(error)]
            raise ArgumentsError(dict.fromkeys(sorted(lines)))


def _lines(error: ValidationError, indent: str = "") -> Iterator[str]:
    message = error.message
    if len(message) > LONGEST_MESSAGE:
        half = LONGEST_MESSAGE // 2
        message = f"{message[:half]} … {message[-half:]}"
    inner = "".join(
        f"\n{indent}    {line}"
        for one in sorted(error.context or (), key=lambda one: str(one.schema_path))
        for line in _lines(one, indent + "    ")
    )
    yield f"{path_of(error.absolute_path)}: {message}{inner}"


@functools.cache
def _tools_of_the_trade() -> tuple[Any, Any, Any]:
    """Return the library, a registry that fetches nothing, and a format checker.

    Imported when first needed.
    """
    try:
        import jsonschema
        import referencing
    except ModuleNotFoundError as error:
        raise PluginError(
            f"tools need {error.name}, which is not installed. Install the extra: "
            'pip install "harness-core[tools]"'
        ) from error

    formats: Any = jsonschema.FormatChecker(formats=("date", "ipv4", "ipv6", "uuid"))
    formats.checks("date-time", raises=ValueError)(_is_date_time)
    formats.checks("time", raises=ValueError)(_is_time)
    made: Any = referencing
    return jsonschema, made.Registry(), formats


def _class_for(schema: Mapping[str, Any]) -> Any:
    """Return the validator class of the draft that a schema is written in."""
    library = _tools_of_the_trade()[0]
    return _with_nullable(
        library.validators.validator_for(schema, default=library.Draft202012Validator)
    )


@functools.cache
def _with_nullable(draft: Any) -> Any:
    """Return a draft in which `nullable: true` means what those who write it mean by it."""
    check = draft.VALIDATORS["type"]

    def kind(validator: Any, types: Any, instance: object, schema: Mapping[str, Any]) -> Any:
        if instance is None and schema.get("nullable") is True:
            return ()
        return check(validator, types, instance, schema) or ()

    return _tools_of_the_trade()[0].validators.extend(draft, {"type": kind})


def _validator(parameters: Mapping[str, Any]) -> Validator:
    _, registry, formats = _tools_of_the_trade()
    chosen = _class_for(parameters)
    validator: Validator = chosen(parameters, registry=registry, format_checker=formats)
    return validator


@functools.lru_cache(maxsize=4096)
def _problem_of(text: str) -> tuple[str, str] | None:
    """Return place and problem of a schema that is none. Remembered: tools come back."""
    library = _tools_of_the_trade()[0]
    schema: dict[str, Any] = json.loads(text)
    if not isinstance(schema.get("$schema", ""), str):
        return "parameters.$schema", f"{schema['$schema']!r} names no draft"
    try:
        _class_for(schema).check_schema(schema)
    except library.exceptions.SchemaError as error:
        return path_of(error.absolute_path).replace("$", "parameters", 1), error.message
    if schema.get("type", "object") != "object":
        return "parameters.type", f"arguments are an object, not {schema['type']!r}"
    return next(_dangling(schema, schema, "parameters"), None)


_DATA = frozenset({"const", "default", "enum", "example", "examples"})
"""Keywords whose values are data, not schemas."""


def _dangling(node: object, root: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    """Yield references to places in the schema that are not there."""
    if isinstance(node, list):
        for index, item in enumerate(cast("list[object]", node)):
            yield from _dangling(item, root, f"{path}[{index}]")
    if not isinstance(node, dict):
        return
    mapping = cast("dict[str, Any]", node)
    if isinstance(mapping.get("$id"), str):
        return  # its references start elsewhere; they are followed when arguments are checked
    for key, value in mapping.items():
        if key == "$ref" and isinstance(value, str):
            if value.startswith("#/") and not _leads_somewhere(value, root):
                yield f"{path}.$ref", f"{value!r} leads nowhere: the schema does not hold it"
            elif re.match("#[^/]", value) and not _holds_anchor(root, value):
                yield f"{path}.$ref", f"{value!r} leads nowhere: the schema has no such anchor"
            elif not value.startswith("#"):
                yield f"{path}.$ref", f"{value!r} leads out of the schema, and nothing is fetched"
        elif key not in _DATA:
            yield from _dangling(value, root, f"{path}.{key}")


def _holds_anchor(node: object, ref: str) -> bool:
    if isinstance(node, list):
        return any(_holds_anchor(item, ref) for item in cast("list[object]", node))
    if not isinstance(node, dict):
        return False
    mapping = cast("dict[str, object]", node)
    if ref[1:] in (mapping.get("$anchor"), mapping.get("$dynamicAnchor")):
        return True
    if ref in (mapping.get("$id"), mapping.get("id")):  # as older drafts say it
        return True
    return any(_holds_anchor(item, ref) for item in mapping.values())


def _leads_somewhere(pointer: str, root: object) -> bool:
    from urllib.parse import unquote

    at: Any = root
    for part in unquote(pointer[2:]).split("/"):
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(at, dict) and key in at:
            at = cast("dict[str, Any]", at)[key]
        elif isinstance(at, list) and key.isdecimal() and int(key) < len(cast("list[object]", at)):
            at = cast("list[object]", at)[int(key)]
        else:
            return False
    return True


_TIME = r"\d\d:\d\d:\d\d(\.\d{1,9})?(Z|z|[+-]\d\d:\d\d)"
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]" + _TIME)


def _is_date_time(value: object) -> bool:
    if not isinstance(value, str):
        return True
    datetime.datetime.fromisoformat(value.upper())
    return _RFC3339.fullmatch(value) is not None


def _is_time(value: object) -> bool:
    if not isinstance(value, str):
        return True
    datetime.time.fromisoformat(value.upper())
    return re.fullmatch(_TIME, value) is not None
