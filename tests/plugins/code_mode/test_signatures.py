"""Signatures: what JSON schemas are in Python, always readable, always the same bytes."""

from __future__ import annotations

import ast
import textwrap
from typing import Any

import attrs
import pytest
from harness_plugins.code_mode.annotations import Annotations
from harness_plugins.code_mode.signatures import Signatures, functions_of
from harness_plugins.tools.api import Tool, function_tool
from hypothesis import given, settings
from hypothesis import strategies as st


def made(schema: Any, name: str = "tool", description: str = "") -> Tool:
    """Return a tool with these arguments."""
    return Tool(name, description, schema, run=lambda _: None)


def text(*tools: Tool) -> str:
    """Return the signatures of tools."""
    return Signatures().text({one.name: one for one in tools})


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({}, "Any"),
        (True, "Any"),
        (False, "Never"),
        ({"type": "string"}, "str"),
        ({"type": "integer"}, "int"),
        ({"type": "number"}, "float"),
        ({"type": "boolean"}, "bool"),
        ({"type": "null"}, "None"),
        ({"type": "unknown"}, "Any"),
        ({"type": ["string", "null"]}, "str | None"),
        ({"type": ["null", "array"], "items": {"type": "integer"}}, "list[int] | None"),
        ({"type": "string", "nullable": True}, "str | None"),
        ({"type": "array"}, "list[Any]"),
        ({"type": "array", "items": {"type": "array", "items": {"type": "string"}}},
         "list[list[str]]"),
        ({"items": {"type": "string"}}, "list[str]"),
        ({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}],
          "items": False}, "list[str | int]"),
        ({"type": "object"}, "dict[str, Any]"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "dict[str, int]"),
        ({"type": "object", "additionalProperties": False}, "dict[str, Never]"),
        ({"enum": ["a", "it's", 1, None, True]}, "Literal['a', \"it's\", 1, True] | None"),
        ({"enum": [[1]]}, "Any"),
        ({"enum": [1.5]}, "Any"),
        ({"enum": [None]}, "None"),
        ({"const": "a"}, "Literal['a']"),
        ({"anyOf": [{"type": "null"}, {"type": "string"}, {"type": "string"}]}, "str | None"),
        ({"oneOf": [{"type": "string"}, {}]}, "Any"),
        ({"allOf": [{"type": "string"}]}, "str"),
        ({"allOf": [{"type": "string"}, {"maxLength": 3}]}, "str"),
        ({"allOf": [True]}, "Any"),
        ({"$ref": "https://example.org/other"}, "Any"),
        ({"$ref": "#/$defs/Nobody"}, "Any"),
        ({"$ref": "#/$defs/Short"}, "str"),
        ({"$ref": "#/$defs/Deep/properties/x"}, "str"),
        ({"$ref": "#/$defs/a~1b"}, "int"),
        ({"$ref": "#/list/1"}, "bool"),
        ({"$ref": "#/list/7"}, "Any"),
        ({"$ref": "#/$defs/Loop"}, "ToolLoop"),
    ],
)  # fmt: skip
def test_every_schema_has_an_annotation(schema: Any, expected: str) -> None:
    """The nearest that Python has; `Any` where it has none."""
    defs = {
        "Short": {"type": "string"},
        "a/b": {"type": "integer"},
        "Loop": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/Loop"}]},
        "Deep": {"properties": {"x": {"type": "string"}}},
    }
    root = {"$defs": defs, "list": [{}, {"type": "boolean"}]}
    assert Annotations(root, "Tool").of(schema, "ToolIt") == expected


def test_a_schema_without_an_end_has_an_annotation() -> None:
    """To a depth that a person would read."""
    schema: Any = {"type": "string"}
    for _ in range(100):
        schema = {"type": "array", "items": schema}
    found = Annotations({}, "Tool").of(schema, "ToolIt")
    assert found == "list[" * 20 + "Any" + "]" * 20


def test_a_rich_schema_is_classes_and_a_function() -> None:
    """Nested, recursive, optional, with defaults, descriptions and limits."""
    schema = {
        "type": "object",
        "properties": {
            "node": {"$ref": "#/$defs/Node", "description": "Where\nto begin."},
            "unit": {"enum": ["c", "k"], "default": "c"},
            "count": {"type": "integer", "minimum": 1, "maximum": 9, "default": 3},
            "filter": {
                "type": "object",
                "properties": {
                    "max-age": {"type": "number", "description": "Days."},
                    "deep": {"type": "object", "properties": {"x": {}}, "required": ["x"]},
                },
                "required": ["deep"],
            },
            "any": {"$ref": "#/$defs/Json"},
            "long": {"type": "array", "default": list(range(100))},
        },
        "required": ["node"],
        "$defs": {
            "Node": {
                "type": "object",
                "description": "A node.",
                "properties": {
                    "next": {"$ref": "#/$defs/Node"},
                    "kind": {"const": "node", "description": "Always."},
                },
                "required": ["kind"],
            },
            "Json": {
                "anyOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#/$defs/Json"}}]
            },
        },
    }
    expected = '''
    class WalkTreeNode(TypedDict):
        # A node.
        next: NotRequired[WalkTreeNode]
        kind: Literal['node']  # Always.

    WalkTreeFilter = TypedDict("WalkTreeFilter", {
        'max-age': NotRequired[float],  # Days.
        'deep': WalkTreeFilterDeep,
    })

    class WalkTreeFilterDeep(TypedDict):
        x: Any

    WalkTreeJson = str | list[WalkTreeJson]

    async def walk_tree(
        node: WalkTreeNode,
        unit: Literal['c', 'k'] = 'c',
        count: int = 3,
        filter: WalkTreeFilter = ...,
        any: WalkTreeJson = ...,
        long: list[Any] = ...,
    ) -> Any:
        """Walk a tree.

        Twice: \\\\d "x" \\"\\"\\"y\\"\\"\\" z"

        node: Where to begin.
        count: (minimum: 1, maximum: 9)
        """
    '''
    written = text(made(schema, "walk-tree", 'Walk a tree.\n\nTwice: \\d "x" """y""" z" '))
    assert written == textwrap.dedent(expected).strip()
    doc = ast.get_docstring(ast.parse(written).body[-1])  # type: ignore[arg-type]
    assert doc is not None
    assert 'Twice: \\d "x" """y""" z"' in doc


@attrs.frozen
class Place:
    """A place.

    Attributes:
        city: Its name.
    """

    city: str
    country: str | None = None
    near: list[Place] = attrs.field(factory=list)


def test_a_typed_function_comes_out_as_it_went_in() -> None:
    """What made the schema is what is made of it."""

    async def forecast(place: Place, days: int = 3) -> str:
        """Say what the weather will be.

        Args:
            place: Where.
        """
        return ""

    written = text(function_tool(forecast, names=globals()))
    assert "class ForecastPlace(TypedDict):" in written
    assert "    near: NotRequired[list[ForecastPlace]]" in written
    assert "async def forecast(place: ForecastPlace, days: int = 3) -> Any:" in written
    assert "    place: Where." in written


@pytest.mark.parametrize(
    ("schema", "head"),
    [
        ({}, "async def tool() -> Any: ..."),
        ({"additionalProperties": False}, "async def tool() -> Any: ..."),
        ({"additionalProperties": {"type": "null"}}, "async def tool(**others: None) -> Any: ..."),
        ({"anyOf": [{"required": ["a"]}]}, "async def tool(**others: Any) -> Any: ..."),
        ({"properties": {"a": {}, "b": {}, "c": {}}, "required": ["c", "b"]},
         "async def tool(b: Any, c: Any, a: Any = ...) -> Any: ..."),
        ({"properties": {"class": {}, "class_": {}, "a-b": {}, "a b": {}, "1": {}, "": {},
                         "others": {}}},
         "async def tool(\n" + "".join(f"    {name}: Any = ...,\n" for name in (
             "class__2", "class_", "a_b", "a_b_2", "_1", "_", "others")) + ") -> Any: ..."),
        ({"properties": {"a": {"default": None}, "b": {"default": {"x": [1.5, True]}},
                         "c": {"default": "s"}}},
         "async def tool(a: Any = None, b: Any = {'x': [1.5, True]}, c: Any = 's') -> Any: ..."),
    ],
)  # fmt: skip
def test_arguments_stand_in_the_order_of_the_schema_the_required_ones_first(
    schema: dict[str, Any], head: str
) -> None:
    """With names that Python can write, and defaults as far as they are short."""
    assert text(made({"type": "object", **schema})) == head


def test_no_two_tools_share_a_name_or_a_class() -> None:
    """Also where only signs tell them apart."""
    nested = {"type": "object", "properties": {"of": {"$ref": "#/$defs/X"}},
              "$defs": {"X": {"type": "object", "properties": {"a": {}}}}}  # fmt: skip
    names = ["a-b", "a_b", "aB", "a.b", "print"]
    tools = {name: made(nested, name) for name in names}
    functions = Signatures().of(tools)
    assert [one.name for one in functions] == ["a_b_2", "a_b", "aB", "a_b_3", "print_"]
    classes = [name for one in functions for name in one.classes]
    assert len(set(classes)) == len(classes) == 5
    assert [one["tool"] for one in functions_of(functions)] == names
    ast.parse(Signatures().text(tools))


def test_what_is_written_once_is_kept_while_the_tool_is() -> None:
    """The same function for the same tool, not for another of its name."""
    signatures = Signatures()
    one = made({"type": "object"}, "a")
    (first,) = signatures.of({"a": one})
    assert signatures.of({"a": one})[0] is first
    assert signatures.of({"a": made({"type": "object"}, "a", "Other.")})[0] is not first


names = st.sampled_from(
    ["a", "b-c", "class", "日本", "", "a b", "#", "x" * 30, "$ref", "\n", "a\0"]
)
scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
)
schemas = st.recursive(
    st.booleans()
    | st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["string", "integer", "number", "boolean", "null", "object"]),
            "description": st.text(max_size=20),
            "default": scalars | st.lists(scalars, max_size=2),
            "minimum": st.integers(),
        },
    )
    | st.fixed_dictionaries({"enum": st.lists(scalars, min_size=1, max_size=3, unique_by=repr)})
    | st.sampled_from([{"$ref": "#/$defs/D"}, {"$ref": "#"}, {"$ref": "#/properties/a"}]),
    lambda inner: st.one_of(
        st.fixed_dictionaries(
            {
                "type": st.just("object"),
                "properties": st.dictionaries(names, inner, max_size=3),
            },
            optional={"additionalProperties": inner, "description": st.text(max_size=9)},
        ),
        st.fixed_dictionaries({"type": st.just("array"), "items": inner}),
        st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"allOf": st.lists(inner, min_size=1, max_size=2)}),
    ),
    max_leaves=8,
)


@settings(max_examples=80, deadline=None)
@given(
    properties=st.dictionaries(names, schemas, max_size=4),
    definition=schemas,
    description=st.text(max_size=40),
)
def test_any_schema_is_python_that_compiles_and_the_same_bytes_each_time(
    properties: dict[str, Any], definition: Any, description: str
) -> None:
    """Whatever it holds."""
    schema = {"type": "object", "properties": properties, "$defs": {"D": definition}}
    try:
        tools = {name: made(schema, name, description) for name in ("a-b", "a_b", "open")}
    except Exception:  # no tool can have this schema
        return
    written = Signatures().text(tools)
    compile(written.encode("utf-8", "backslashreplace").decode(), "signatures", "exec")
    assert Signatures().text(tools) == written
    functions = [node.name for node in ast.parse(written).body
                 if isinstance(node, ast.AsyncFunctionDef)]  # fmt: skip
    assert functions == ["a_b_2", "a_b", "open_"]
    for function in Signatures().of(tools):
        assert {one.name for one in function.parameters} == set(properties)
        assert len({one.code_name for one in function.parameters}) == len(properties)


@pytest.mark.parametrize("key", ["_", "1", "ﬁle", "__debug__", "class", "a-b", "²", "others", ""])
@pytest.mark.parametrize(
    "name", ["7zip", "1", "print", "ﬁle", "Never", "none", "typed", "__debug__"]
)
def test_whatever_tools_and_arguments_are_called_the_signature_is_python(
    name: str, key: str
) -> None:
    """Python reads `ﬁle` as `file`, knows no name with a digit in front, and takes a few itself."""
    nested = {"type": "object", "properties": {key: {"type": "integer"}}}
    schema = {
        "type": "object",
        "properties": {key: nested, "file": {}, "dict": nested, "other": nested},
        "additionalProperties": True,
    }
    source = text(made(schema, name))
    compile(source, "signatures", "exec")
    taken = {"Any", "Literal", "Never", "NotRequired", "TypedDict", "None"}
    for part in ast.parse(source).body:
        assert not isinstance(part, ast.ClassDef) or part.name not in taken


def test_no_class_has_the_name_of_another_tool() -> None:
    nested = {"type": "object", "properties": {"x": {"type": "integer"}}}
    first = made({"type": "object", "properties": {"a": nested}}, "git-log")
    second = made({"type": "object"}, "GitLogA")
    names = [getattr(part, "name", "") for part in ast.parse(text(first, second)).body]
    assert len(set(names)) == len(names) == 3


def test_references_that_lead_in_a_circle_have_an_end() -> None:
    """A server can send such a schema; nobody may wait for its signature for ever."""
    tool = made(
        {
            "type": "object",
            "properties": {"a": {"allOf": [{"$ref": "#/$defs/A"}, {"type": "object"}]}},
            "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}},
        }
    )
    assert text(tool) == "async def tool(a: Any = ...) -> Any: ..."


def test_a_short_schema_cannot_make_a_signature_without_an_end() -> None:
    """Each level names the next one twice, and each time it would be spelled out anew."""
    defs: dict[str, Any] = {"L19": {"type": "object", "properties": {"x": {}}}}
    for level in range(19):
        below = {"allOf": [{"$ref": f"#/$defs/L{level + 1}"}, {"title": "more"}]}
        parts = {f"p{at}": below for at in range(5)}
        defs[f"L{level}"] = {"type": "object", "properties": parts}
    tool = made({"type": "object", "properties": {"a": {"$ref": "#/$defs/L0"}}, "$defs": defs})
    assert len(text(tool)) < 500_000
