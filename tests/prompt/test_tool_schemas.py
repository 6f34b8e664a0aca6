"""Tool parameters: read-only, equal to and serialised like what they came from, plain JSON."""

from __future__ import annotations

import copy
import enum
import json
import pickle
from collections import UserDict
from typing import Any

import attrs
import pytest

from harness_core import create_scope
from harness_core.errors import InvalidSchemaError
from harness_core.prompt import PromptAssembly, ToolSchema

from .tree import Key, live

PARAMETERS: dict[str, Any] = {
    "type": "object",
    "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
    "properties": {
        "b": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]},
        "a": {"type": "array", "items": {"enum": [1, 2.5, None, True, "ä"]}, "default": []},
    },
    "required": ["b"],
    "additionalProperties": False,
}


def schema() -> dict[str, Any]:
    """Return a fresh copy."""
    return copy.deepcopy(PARAMETERS)


def test_parameters_equal_and_serialise_like_their_source() -> None:
    """Every keyword kept, key order kept, and real dicts and lists to any library."""
    tool = ToolSchema("t", "d", schema())
    assert tool.parameters == PARAMETERS
    assert json.dumps(tool.parameters) == json.dumps(PARAMETERS)
    assert json.dumps(tool.parameters, indent=2) == json.dumps(PARAMETERS, indent=2)
    assert isinstance(tool.parameters, dict)
    assert isinstance(tool.parameters["required"], list)
    assert repr(tool.parameters) == repr(PARAMETERS)


def test_the_source_is_not_kept_and_not_changed() -> None:
    """Changing it later changes no tool."""
    source = schema()
    tool = ToolSchema("t", "d", source)
    assert source == PARAMETERS
    source["properties"]["a"]["default"].append(1)
    source["required"].clear()
    assert tool.parameters == PARAMETERS


def _change_top(parameters: Any) -> None:
    parameters["type"] = "x"


def _change_deep(parameters: Any) -> None:
    parameters["properties"]["a"]["default"].append(1)


CHANGES = {
    "set": _change_top,
    "deep append": _change_deep,
    "del": lambda p: p.__delitem__("type"),
    "pop": lambda p: p.pop("type"),
    "popitem": lambda p: p.popitem(),
    "clear": lambda p: p.clear(),
    "update": lambda p: p.update(a=1),
    "setdefault": lambda p: p.setdefault("new", 1),
    "ior": lambda p: p.__ior__({"a": 1}),
    "list set": lambda p: p["required"].__setitem__(0, "x"),
    "list del": lambda p: p["required"].__delitem__(0),
    "list iadd": lambda p: p["required"].__iadd__(["x"]),
    "list imul": lambda p: p["required"].__imul__(2),
    "list extend": lambda p: p["required"].extend(["x"]),
    "list insert": lambda p: p["required"].insert(0, "x"),
    "list pop": lambda p: p["required"].pop(),
    "list remove": lambda p: p["required"].remove("b"),
    "list clear": lambda p: p["required"].clear(),
    "list sort": lambda p: p["required"].sort(),
    "list reverse": lambda p: p["required"].reverse(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_parameters_are_read_only(change: str) -> None:
    """Every way to change them raises, says what to do instead, and changes nothing."""
    tool = ToolSchema("t", "d", schema())
    with pytest.raises(TypeError, match=r"attrs\.evolve"):
        CHANGES[change](tool.parameters)
    assert tool.parameters == PARAMETERS


def test_a_deep_copy_is_plain_and_changeable() -> None:
    """The way that the error names works."""
    tool = ToolSchema("t", "d", schema())
    mine = copy.deepcopy(tool.parameters)
    assert type(mine) is dict
    assert type(mine["required"]) is list
    mine["required"].append("a")
    changed = attrs.evolve(tool, parameters=mine)
    assert changed.parameters["required"] == ["b", "a"]
    assert tool.parameters == PARAMETERS


def test_a_tool_survives_pickling_read_only() -> None:
    """It can travel to another process."""
    again = pickle.loads(pickle.dumps(ToolSchema("t", "d", schema())))
    assert again == ToolSchema("t", "d", schema())
    with pytest.raises(TypeError):
        again.parameters["type"] = "x"


def test_a_tool_is_frozen() -> None:
    """It is replaced, not changed."""
    tool = ToolSchema("t")
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        tool.name = "u"  # type: ignore[misc]
    assert attrs.evolve(tool, description="new") == ToolSchema("t", "new")


def test_without_parameters_a_tool_takes_an_empty_object() -> None:
    """A schema that any model accepts."""
    assert ToolSchema("t").parameters == {"type": "object", "properties": {}}


def test_mappings_and_tuples_become_dicts_and_lists() -> None:
    """What JSON would make of them."""
    tool = ToolSchema("t", "", UserDict({"enum": ("a", "b")}))
    assert tool.parameters == {"enum": ["a", "b"]}
    assert json.dumps(tool.parameters) == '{"enum": ["a", "b"]}'


def test_an_enumeration_of_texts_is_a_text() -> None:
    """Subclasses of str and int serialise as they do in JSON."""

    class Color(enum.StrEnum):
        RED = "red"

    tool = ToolSchema("t", "", {"default": Color.RED})
    assert json.dumps(tool.parameters) == '{"default": "red"}'


def _selfish() -> dict[str, Any]:
    inside: dict[str, Any] = {}
    inside["properties"] = {"me": inside}
    return inside


BAD: dict[str, tuple[Any, str, str]] = {
    "nan": ({"default": float("nan")}, "parameters.default", "no JSON number"),
    "infinity": ({"x": [1, float("inf")]}, "parameters.x[1]", "no JSON number"),
    "itself": (_selfish(), "parameters.properties.me", "contains itself"),
    "object": ({"x": {"y": object}}, "parameters.x.y", "no JSON value"),
    "set": ({"enum": {1}}, "parameters.enum", "no JSON value"),
    "bytes": ({"default": b"x"}, "parameters.default", "no JSON value"),
    "key": ({"properties": {5: {}}}, "parameters.properties", "key 5 is no string"),
    "no object": (5, "parameters", ""),
    "list": ([], "parameters", ""),
}


@pytest.mark.parametrize("case", BAD)
def test_what_json_cannot_carry_is_refused_with_the_path(case: str) -> None:
    """`InvalidSchemaError(tool, path, problem)`, a `ValueError`."""
    parameters, path, problem = BAD[case]
    with pytest.raises(InvalidSchemaError) as caught:
        ToolSchema("bash", "", parameters)
    assert isinstance(caught.value, ValueError)
    assert (caught.value.tool, caught.value.path) == ("bash", path)
    assert problem in str(caught.value)
    assert "'bash'" in str(caught.value)


def test_one_object_twice_is_not_itself_inside_itself() -> None:
    """Sharing is fine; only cycles are not."""
    shared = {"type": "string"}
    assert ToolSchema("t", "", {"a": shared, "b": [shared, shared]}).parameters["b"][1] == shared


@pytest.mark.asyncio
async def test_a_bad_schema_from_a_provider_names_the_plugin() -> None:
    """L9, and the assembly fails rather than drop the tool."""
    async with live() as (_, sp):
        sp.tools(lambda: [{"name": "bash", "parameters": {"x": float("nan")}}])
        with pytest.raises(InvalidSchemaError, match="bash") as caught:
            await sp.assemble()
        assert 'plugin "root"' in "\n".join(caught.value.__notes__)


@pytest.mark.asyncio
async def test_an_assembly_never_shares_changeable_schemas_with_anyone() -> None:
    """L7: a listener that swaps a tool touches neither the provider's dict nor another scope."""
    mine = {"name": "t", "description": "d", "parameters": schema()}
    async with live() as (root, sp):
        key = Key()

        async def listen(assembly: PromptAssembly, context: object, next: Any) -> object:
            assembly.tools[0] = attrs.evolve(assembly.tools[0], description="changed")
            return await next()

        create_scope(root, key).ctx.on("system-prompt/assemble", listen)
        sp.tools(lambda: [mine])
        changed = await sp.assemble(scope=key)
        plain = await sp.assemble()
        assert changed.tools[0].description == "changed"
        assert plain.tools[0].description == "d"
        assert mine == {"name": "t", "description": "d", "parameters": PARAMETERS}
        with pytest.raises(TypeError):
            plain.tools[0].parameters["type"] = "x"  # type: ignore[index]


@pytest.mark.asyncio
async def test_a_mapping_changed_in_place_is_seen_at_the_next_assembly() -> None:
    """Same name, same object, other schema: not served from memory."""
    mine: dict[str, Any] = {"name": "t", "parameters": {"x": 1}}
    async with live() as (_, sp):
        sp.tools(lambda: [mine])
        first = (await sp.assemble()).tools
        mine["parameters"]["x"] = 2
        second = (await sp.assemble()).tools
        assert [tools[0].parameters for tools in (first, second)] == [{"x": 1}, {"x": 2}]
