"""Tools as the signatures of Python functions: the text of the section, made from the schemas.

The same tools give the same bytes, whatever the order in which they were registered.
"""

from __future__ import annotations

import json
import keyword
from collections.abc import Mapping
from typing import Any, cast
from weakref import WeakKeyDictionary

import attrs

from harness_plugins.tools.api import Tool, python_names

from .annotations import Annotations, JsonSchema, camel, literal, note

__all__ = ["Function", "Signatures", "functions_of"]

WIDTH = 100
_NONE_YET = object()
_NO_ARGUMENT = frozenset({*keyword.kwlist, "__debug__"})
"""What an argument cannot be called."""
_OTHERS = "others"
"""What those are called together that the schema does not name."""


@attrs.frozen
class Parameter:
    """One argument: its name in the schema, its name in code, and its source in a signature."""

    name: str
    code_name: str
    source: str
    note: str


@attrs.frozen
class Function:
    """A tool as code sees it. `classes` are the ones its annotations need, source by name."""

    tool: str
    name: str
    parameters: tuple[Parameter, ...]
    source: str
    classes: Mapping[str, str]


class Signatures:
    """Writes signatures, each once while its tool is the same and has the same name."""

    def __init__(self) -> None:
        self._made: WeakKeyDictionary[Tool, dict[tuple[str, str], Function]] = WeakKeyDictionary()

    def of(self, tools: Mapping[str, Tool]) -> list[Function]:
        """Return the functions for tools, in their order. No two share a name, or a class's."""
        code_names = python_names(tools)
        taken = set(code_names.values())
        found: list[Function] = []
        for name, code_name in code_names.items():
            wanted = prefix = camel(code_name) or "Tool"
            number = 2
            function = self._function(tools[name], code_name, prefix)
            while not taken.isdisjoint(function.classes):
                prefix, number = f"{wanted}{number}", number + 1
                function = self._function(tools[name], code_name, prefix)
            taken.update(function.classes)
            found.append(function)
        return found

    def text(self, tools: Mapping[str, Tool]) -> str:
        """Return the source of all functions, each behind the classes that it needs."""
        parts: list[str] = []
        for function in self.of(tools):
            parts += [*function.classes.values(), function.source]
        return "\n\n".join(parts)

    def _function(self, tool: Tool, code_name: str, prefix: str) -> Function:
        made = self._made.setdefault(tool, {})
        key = (code_name, prefix)
        if key not in made:
            made[key] = function_of(tool, code_name, prefix)
        return made[key]


def functions_of(functions: list[Function]) -> list[dict[str, Any]]:
    """Return what the process that runs code is told of functions, as JSON data."""
    return [
        {
            "tool": one.tool,
            "name": one.name,
            "parameters": [[each.name, each.code_name] for each in one.parameters],
        }
        for one in functions
    ]


def function_of(tool: Tool, code_name: str, prefix: str) -> Function:
    """Return a tool as a function."""
    schema: JsonSchema = json.loads(json.dumps(tool.parameters))
    annotations = Annotations(schema, prefix)
    parameters, others = _parameters(schema, annotations, prefix)
    head = _head(code_name, [*(one.source for one in parameters), *others])
    doc = _docstring(
        tool.description, [f"{one.code_name}: {one.note}" for one in parameters if one.note]
    )
    body = doc or " ..."
    return Function(tool.name, code_name, parameters, f"{head}{body}", annotations.classes)


def _parameters(
    schema: JsonSchema, annotations: Annotations, prefix: str
) -> tuple[tuple[Parameter, ...], list[str]]:
    """Return the parameters, those that must be given first, and the source of all others."""
    given: Any = schema.get("properties")
    properties = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    others = schema.get("additionalProperties")
    rest: list[str] = []
    if (
        isinstance(others, dict)
        or others is True
        or (not properties and others is None and _is_open(schema))
    ):
        rest = [f"**{_OTHERS}: {annotations.of(others, f'{prefix}Other')}"]
    listed = schema.get("required")
    required = (
        set(map(str, cast("list[object]", listed))) if isinstance(listed, list) else set[str]()
    )
    code_names = python_names(properties, _NO_ARGUMENT | {_OTHERS} if rest else _NO_ARGUMENT)
    ordered = sorted(properties, key=lambda name: name not in required)
    return tuple(
        Parameter(
            name,
            code_names[name],
            _source(code_names[name], properties[name], name in required, annotations, prefix),
            note(properties[name]),
        )
        for name in ordered
    ), rest


def _is_open(schema: JsonSchema) -> bool:
    """Whether the arguments are described in another way than by their names."""
    return any(word in schema for word in ("anyOf", "oneOf", "allOf", "$ref", "patternProperties"))


def _source(
    code_name: str, schema: Any, is_required: bool, annotations: Annotations, prefix: str
) -> str:
    source = f"{code_name}: {annotations.of(schema, prefix + camel(code_name))}"
    if is_required:
        return source
    default: Any = _NONE_YET
    if isinstance(schema, dict):
        default = cast("JsonSchema", schema).get("default", _NONE_YET)
    shown = literal(default) if default is not _NONE_YET else None
    return f"{source} = {shown or '...'}"


def _head(name: str, parameters: list[str]) -> str:
    line = f"async def {name}({', '.join(parameters)}) -> Any:"
    if len(line) <= WIDTH:
        return line
    listed = "".join(f"    {one},\n" for one in parameters)
    return f"async def {name}(\n{listed}) -> Any:"


def _docstring(description: str, notes: list[str]) -> str:
    text = description.replace("\0", " ").strip()
    said = "\n\n".join(part for part in (text, "\n".join(notes)) if part)
    if not said:
        return ""
    escaped = said.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    escaped = escaped.replace("\r\n", "\n").replace("\r", "\n")
    lines = [f"    {line}".rstrip() for line in escaped.split("\n")]
    text = "\n".join(lines).strip()
    if text.endswith('"'):
        text += " "
    end = "\n    " if "\n" in text else ""
    return f'\n    """{text}{end}"""'
