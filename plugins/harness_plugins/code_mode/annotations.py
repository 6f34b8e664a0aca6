"""JSON schemas as Python annotations: what a model reads before it writes code.

They are for reading. What a call may really hold is decided by the schema itself.
"""

from __future__ import annotations

import json
import keyword
import math
import re
from collections.abc import Mapping
from typing import Any, TypeAlias, cast

from harness_plugins.tools.api import identifier

__all__ = ["Annotations", "JsonSchema", "camel", "literal", "note", "one_line"]

JsonSchema: TypeAlias = "dict[str, Any]"

DEEPEST = 20
"""Levels of schemas within schemas that are spelled out."""
MOST = 5000
"""Schemas that are spelled out for one tool: references can make a short one long without end."""
_LONG = 60
"""Characters from which on an annotation that has a name of its own is written once."""

_NO_KEY = frozenset({*keyword.kwlist, "__debug__"})

_SCALARS = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
}
_LIMITS = (
    *("format", "pattern", "minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"),
    *("multipleOf", "minLength", "maxLength", "minItems", "maxItems", "uniqueItems"),
    *("minProperties", "maxProperties"),
)


def one_line(text: str) -> str:
    """Return a text in one line that Python can read in a comment."""
    return " ".join(text.replace("\0", " ").split())


def camel(name: str) -> str:
    """Return a name as the name of a class."""
    parts = [part for part in re.split(r"[\W_]+", name) if part]
    return "".join(part[0].upper() + part[1:] for part in parts)


def literal(value: Any) -> str | None:
    """Return JSON data as Python source; None for what is too long, or no number that Python has.

    Data of several lines stays in one.
    """
    text = repr(value)
    if len(text) > _LONG or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return text


def note(schema: Any) -> str:
    """Return what an annotation does not say: description and limits, in one line."""
    if not isinstance(schema, dict):
        return ""
    known = cast("JsonSchema", schema)
    said = one_line(str(known.get("description") or ""))
    limits = [f"{key}: {json.dumps(known[key])}" for key in _LIMITS if key in known]
    return " ".join([*([said] if said else []), *([f"({', '.join(limits)})"] if limits else [])])


class Annotations:
    """The annotations of one tool, and the classes that they need: `classes`, source by name."""

    def __init__(self, root: JsonSchema, prefix: str) -> None:
        self._root = root
        self._prefix = prefix
        self._depth = 0
        self._spelled = 0
        self._names: dict[str, str] = {}
        """For a reference what stands for it."""
        self._recursive: set[str] = set()
        self._taken: set[str] = set()
        self.classes: dict[str, str] = {}

    def of(self, schema: Any, hint: str) -> str:
        """Return the annotation of a schema; `hint` is what it would be called."""
        if schema is False:
            return "Never"
        if not isinstance(schema, dict) or self._depth >= DEEPEST or self._spelled >= MOST:
            return "Any"
        self._depth += 1
        self._spelled += 1
        try:
            known = cast("JsonSchema", schema)
            found = self._of(known, hint)
            if known.get("nullable") is True:
                found = _union([found, "None"])
            return found
        finally:
            self._depth -= 1

    def _of(self, schema: JsonSchema, hint: str) -> str:
        if isinstance(schema.get("$ref"), str):
            return self._ref(schema["$ref"])
        if "const" in schema:
            return _literals([schema["const"]])
        if isinstance(schema.get("enum"), list):
            return _literals(schema["enum"])
        for word in ("anyOf", "oneOf"):
            if isinstance(schema.get(word), list):
                arms: list[Any] = schema[word]
                return _union([self.of(arm, f"{hint}{at or ''}") for at, arm in enumerate(arms)])
        if isinstance(schema.get("allOf"), list):
            merged = self._merged(schema)
            return self.of(merged, hint) if merged is not None else "Any"
        kind = schema.get("type")
        if isinstance(kind, list):
            kinds = cast("list[object]", kind)
            return _union([self.of({**schema, "type": one}, hint) for one in kinds])
        return self._of_type(kind, schema, hint)

    def _of_type(self, kind: Any, schema: JsonSchema, hint: str) -> str:
        if kind == "object" or (kind is None and "properties" in schema):
            return self._object(schema, hint)
        if kind == "array" or (kind is None and "items" in schema):
            return self._array(schema, hint)
        return _SCALARS.get(kind, "Any") if isinstance(kind, str) else "Any"

    def _array(self, schema: JsonSchema, hint: str) -> str:
        first = schema.get("prefixItems")
        items = schema.get("items", True)
        if not isinstance(first, list):
            return f"list[{self.of(items, f'{hint}Item')}]"
        kinds = [self.of(one, f"{hint}{at}") for at, one in enumerate(cast("list[object]", first))]
        if items is not False:
            kinds.append(self.of(items, f"{hint}Item"))
        return f"list[{_union(kinds)}]"

    def _object(self, schema: JsonSchema, hint: str) -> str:
        properties = schema.get("properties")
        if not isinstance(properties, dict) or not properties:
            return f"dict[str, {self.of(schema.get('additionalProperties', True), f'{hint}Value')}]"
        name = self._free(hint)
        self._class(name, schema)
        return name

    def _class(self, name: str, schema: JsonSchema) -> None:
        self.classes[name] = ""  # so that what it needs stands behind it
        properties: dict[str, Any] = schema["properties"]
        required = _strings(schema.get("required"))
        plain = all(identifier(key, _NO_KEY) == key for key in properties)
        lines = [f"class {name}(TypedDict):" if plain else f'{name} = TypedDict("{name}", {{']
        said = note({"description": schema.get("description")})
        if said:
            lines.append(f"    # {said}")
        for key, value in properties.items():
            kind = self.of(value, f"{name}{camel(key)}")
            kind = kind if key in required else f"NotRequired[{kind}]"
            said = note(value)
            lines.append(f"    {key}: {kind}" if plain else f"    {key!r}: {kind},")
            lines[-1] += f"  # {said}" if said else ""
        self.classes[name] = "\n".join(lines if plain else [*lines, "})"])

    def _ref(self, ref: str) -> str:
        known = self._names.get(ref)
        if known is not None:
            self._recursive.add(ref)
            return known
        target = self._target(ref)
        if not isinstance(target, dict):
            return "Any"
        schema = cast("JsonSchema", target)
        last = ref.rsplit("/", 1)[-1] if "/" in ref else "arguments"
        name = self._names[ref] = self._free(self._prefix + camel(last))
        if isinstance(schema.get("properties"), dict) and schema["properties"]:
            self._class(name, schema)
            return name
        found = self.of(schema, name)
        if ref in self._recursive or len(found) > _LONG:
            self.classes[name] = f"{name} = {found}"
            return name
        self._names[ref] = found
        return found

    def _target(self, ref: str) -> Any:
        """Return what a reference within the schema leads to, or None."""
        if ref != "#" and not ref.startswith("#/"):
            return None
        target: Any = self._root
        for part in ref.split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(target, dict) and key in target:
                target = cast("JsonSchema", target)[key]
            elif isinstance(target, list) and key.isdecimal():
                items = cast("list[object]", target)
                target = items[int(key)] if int(key) < len(items) else None
            else:
                return None
        return target

    def _resolved(self, schema: Any) -> Any:
        """Return what a schema refers to, at the end of all references; None if there is no end."""
        seen: list[JsonSchema] = []
        while isinstance(schema, dict):
            known = cast("JsonSchema", schema)
            if not isinstance(known.get("$ref"), str):
                return known
            if any(known is one for one in seen):
                return None
            seen.append(known)
            schema = self._target(known["$ref"])
        return None

    def _merged(self, schema: JsonSchema) -> JsonSchema | None:
        """Return the schema that all parts of an `allOf` make together, if that is simple."""
        merged: JsonSchema = {key: value for key, value in schema.items() if key != "allOf"}
        parts = cast("list[object]", schema["allOf"])
        for part in parts if len(parts) == 1 else map(self._resolved, parts):
            if not isinstance(part, dict):
                return None
            one = cast("JsonSchema", part)
            properties = {**merged.get("properties", {}), **one.get("properties", {})}
            required = [*merged.get("required", []), *one.get("required", [])]
            merged = {**merged, **one}
            if properties:
                merged["properties"] = properties
            if required:
                merged["required"] = required
        return merged

    def _free(self, wanted: str) -> str:
        name = wanted = identifier(wanted)
        number = 2
        while name in self._taken:
            name, number = f"{wanted}{number}", number + 1
        self._taken.add(name)
        return name


def _union(kinds: list[str]) -> str:
    """Return a union of annotations, each once; None stands last."""
    found = dict.fromkeys(kinds)
    if "Any" in found or not found:
        return "Any"
    rest = [kind for kind in found if kind != "None"]
    return " | ".join([*rest, *(["None"] if "None" in found else [])])


def _literals(values: list[Any]) -> str:
    if not values or not all(value is None or isinstance(value, str | int) for value in values):
        return "Any"
    shown = [repr(value) for value in values if value is not None]
    kinds = [f"Literal[{', '.join(shown)}]"] if shown else []
    return _union([*kinds, *(["None"] if None in values else [])])


def _strings(value: Any) -> Mapping[str, None]:
    listed = cast("list[object]", value) if isinstance(value, list) else []
    return dict.fromkeys(one for one in listed if isinstance(one, str))
