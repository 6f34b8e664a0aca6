"""A typed function as a tool: its schema from signature and docstring, its arguments as types."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import functools
import pathlib
import uuid
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NewType, NotRequired, Optional, TypedDict, Union

import attrs
import pytest
from harness_plugins.tools.api import Tool, ToolCall, function_tool

from harness_core.errors import PluginError

from .tree import tree


class Color(enum.Enum):
    """A colour."""

    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@attrs.frozen
class Point:
    x: int
    y: int = 0
    tags: list[str] = attrs.field(factory=list)
    _hidden: bool = attrs.field(default=False)
    made: int = attrs.field(init=False, default=3)


@dataclasses.dataclass
class Tree:
    value: Point
    children: list[Tree] = dataclasses.field(default_factory=list)
    parent: Tree | None = None


class Options(TypedDict):
    depth: int
    follow: NotRequired[bool]


@attrs.frozen
class Positive:
    number: int = attrs.field(validator=attrs.validators.gt(0))


UserId = NewType("UserId", int)


def argument(kind: Any, default: Any = None) -> tuple[Any, Any]:
    """Return the schema of one argument of a type, and of the whole."""

    def function(argument: Any) -> None: ...

    function.__annotations__ = {"argument": kind}
    parameters = function_tool(function).parameters
    return parameters["properties"]["argument"], parameters


@pytest.mark.parametrize(
    ("kind", "schema"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (None, {"type": "null"}),
        (Any, {}),
        (object, {}),
        (list, {"type": "array"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (Sequence[str], {"type": "array", "items": {"type": "string"}}),
        (set[str], {"type": "array", "items": {"type": "string"}, "uniqueItems": True}),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
        (
            tuple[int, str],
            {
                "type": "array",
                "prefixItems": [{"type": "integer"}, {"type": "string"}],
                "items": False,
                "minItems": 2,
                "maxItems": 2,
            },
        ),
        (dict, {"type": "object"}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Mapping[str, Any], {"type": "object"}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (Optional[int], {"anyOf": [{"type": "integer"}, {"type": "null"}]}),  # noqa: UP045
        (Union[int, str], {"anyOf": [{"type": "integer"}, {"type": "string"}]}),  # noqa: UP007
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal[1, "b", None], {"enum": [1, "b", None]}),
        (datetime.datetime, {"type": "string", "format": "date-time"}),
        (datetime.date, {"type": "string", "format": "date"}),
        (datetime.time, {"type": "string", "format": "time"}),
        (uuid.UUID, {"type": "string", "format": "uuid"}),
        (pathlib.Path, {"type": "string"}),
        (UserId, {"type": "integer"}),
        (Annotated[int, "How many.", {"minimum": 1}], None),
    ],
)
def test_types_as_schemas(kind: Any, schema: dict[str, Any] | None) -> None:
    """Each of those that JSON can say."""
    if schema is None:
        schema = {"type": "integer", "description": "How many.", "minimum": 1}
    assert argument(kind)[0] == schema


def test_named_types_are_defs() -> None:
    """Classes and enums, nested and recursive, each once."""
    _, parameters = argument(list[Tree])
    assert parameters == {
        "type": "object",
        "properties": {"argument": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}},
        "required": ["argument"],
        "additionalProperties": False,
        "$defs": {
            "Tree": {
                "type": "object",
                "properties": {
                    "value": {"$ref": "#/$defs/Point"},
                    "children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}},
                    "parent": {
                        "anyOf": [{"$ref": "#/$defs/Tree"}, {"type": "null"}],
                        "default": None,
                    },
                },
                "required": ["value"],
                "additionalProperties": False,
            },
            "Point": {
                "type": "object",
                "properties": {
                    "x": {"type": "integer"},
                    "y": {"type": "integer", "default": 0},
                    "tags": {"type": "array", "items": {"type": "string"}},
                    "hidden": {"type": "boolean", "default": False},
                },
                "required": ["x"],
                "additionalProperties": False,
            },
        },
    }
    assert argument(Color)[1]["$defs"] == {
        "Color": {"type": "string", "enum": ["red", "blue"], "description": "A colour."}
    }
    assert argument(Level)[1]["$defs"] == {"Level": {"enum": [1, 2]}}
    assert argument(Options)[1]["$defs"]["Options"]["required"] == ["depth"]


def test_two_classes_of_one_name_are_two_definitions() -> None:
    """Neither stands in for the other."""
    first = attrs.make_class("Same", {"a": attrs.field(type=int)})
    second = attrs.make_class("Same", {"b": attrs.field(type=int)})
    schema, parameters = argument(first | second)
    assert schema == {"anyOf": [{"$ref": "#/$defs/Same"}, {"$ref": "#/$defs/Same_2"}]}
    assert list(parameters["$defs"]["Same_2"]["properties"]) == ["b"]


def test_defaults_are_shown_and_make_an_argument_optional() -> None:
    """Also those of types that JSON says in its own way; what it cannot say is left out."""

    def function(
        a: int,
        b: str = "x",
        *,
        color: Color = Color.RED,
        at: Point = Point(1, 2),
        odd: object = object(),
    ) -> None: ...

    parameters = function_tool(function).parameters
    assert parameters["required"] == ["a"]
    properties = parameters["properties"]
    assert properties["b"]["default"] == "x"
    assert properties["color"]["default"] == "red"
    assert properties["at"]["default"] == {"x": 1, "y": 2, "tags": [], "hidden": False}
    assert "default" not in properties["odd"]


GOOGLE = """Do it.

Longer, on
two lines.

Args:
    a: The first: one.
    b (str): The second,
        which goes on.

Returns:
    Something.
"""
SPHINX = """Do it.

:param a: The first: one.
:param str b: The second,
    which goes on.
:returns: Something.
"""
NUMPY = """Do it.

Parameters
----------
a : int
    The first: one.
b
    The second,
    which goes on.

Returns
-------
str
    Something.
"""


@pytest.mark.parametrize("docstring", [GOOGLE, SPHINX, NUMPY], ids=["google", "sphinx", "numpy"])
def test_a_docstring_describes_tool_and_arguments(docstring: str) -> None:
    """In the three usual ways."""

    def function(a: int, b: str) -> None: ...

    function.__doc__ = docstring
    tool = function_tool(function)
    assert tool.description.startswith("Do it.")
    assert "The first" not in tool.description
    assert "Something." in tool.description
    described = {name: one["description"] for name, one in tool.parameters["properties"].items()}
    assert described == {"a": "The first: one.", "b": "The second, which goes on."}


def test_no_docstring_is_no_description() -> None:
    """And an argument without one has none."""

    def function(a: int) -> None: ...

    assert function_tool(function).description == ""
    assert function_tool(function).parameters["properties"] == {"a": {"type": "integer"}}


@pytest.mark.parametrize(
    ("kind", "given", "read"),
    [
        (Color, "red", Color.RED),
        (Level, 2, Level.HIGH),
        (Point, {"x": 1, "tags": ["a"]}, Point(1, 0, ["a"])),
        (list[Point], [{"x": 1}], [Point(1)]),
        (Tree, {"value": {"x": 1}, "children": [{"value": {"x": 2}}]}, None),
        (Options, {"depth": 1}, {"depth": 1}),
        (Point | Color | None, "blue", Color.BLUE),
        (Point | Color | None, None, None),
        (int | str, "3", "3"),
        (float, 3, 3),
        (int, 3.0, 3),
        (set[int], [1, 2], {1, 2}),
        (frozenset[int], [1, 2], frozenset({1, 2})),
        (tuple[int, str], [1, "a"], (1, "a")),
        (tuple[int, ...], [1, 2], (1, 2)),
        (dict[str, Point], {"a": {"x": 1}}, {"a": Point(1)}),
        (datetime.datetime, "2024-02-29T10:00:00Z", None),
        (datetime.date, "2024-02-29", datetime.date(2024, 2, 29)),
        (uuid.UUID, "12345678123456781234567812345678", uuid.UUID(int=0x12345678 * 0x1_00000001)),
        (pathlib.Path, "a/b", pathlib.Path("a/b")),
        (Literal[1, "a"], 1, 1),
        (Any, {"a": [1]}, {"a": [1]}),
    ],
)
@pytest.mark.asyncio
async def test_arguments_are_read_as_their_types(kind: Any, given: Any, read: Any) -> None:
    """The function gets what it has declared."""
    got: list[Any] = []

    def function(argument: Any) -> None:
        got.append(argument)

    function.__annotations__ = {"argument": kind}
    async with tree() as root:
        root.tools.register(function)
        if kind is uuid.UUID:
            given = str(read := uuid.uuid4())
        result = await root.tools.execute("function", {"argument": given}, scope=None)
        assert result.status == "ok", result.text
    if kind is Tree:
        read = Tree(Point(1), [Tree(Point(2))])
    if kind is datetime.datetime:
        read = datetime.datetime(2024, 2, 29, 10, tzinfo=datetime.UTC)
    assert got == [read]
    assert type(got[0]) is type(read)


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (int, "5"),
        (int, 5.5),
        (int, True),
        (float, "5"),
        (str, 5),
        (bool, 1),
        (bool, "true"),
        (list[int], ["1"]),
        (Literal[1], True),
        (Color, "RED"),
        (Point, {"x": 1, "z": 2}),
        (Point, {}),
        (datetime.date, "2024-02-30"),
        (datetime.datetime, "yesterday"),
        (set[int], [1, 1]),
        (tuple[int, str], [1]),
        (int | None, "null"),
        (Positive, {"number": -1}),
    ],
)
@pytest.mark.asyncio
async def test_nothing_is_coerced(kind: Any, given: Any) -> None:
    """What does not fit is refused, and the function not called."""

    def function(argument: Any) -> None:
        raise AssertionError("called")

    function.__annotations__ = {"argument": kind}
    async with tree() as root:
        root.tools.register(function)
        result = await root.tools.execute("function", {"argument": given}, scope=None)
        assert result.status == "invalid"
        assert all(one.startswith("$.argument") for one in result.violations)


@pytest.mark.asyncio
async def test_sync_async_methods_partials_and_objects() -> None:
    """Whatever can be called, with its signature."""

    class Shell:
        def __init__(self, prompt: str) -> None:
            self.prompt = prompt

        async def run(self, command: str) -> str:
            """Run it."""
            return self.prompt + command

        def __call__(self, command: str) -> str:
            """Call it."""
            return self.prompt + command

    async def joined(prefix: str, command: str) -> str:
        return prefix + command

    shell = Shell("$ ")
    async with tree() as root:
        root.tools.register(shell.run)
        root.tools.register(shell, name="object")
        root.tools.register(functools.partial(joined, "# "), name="partial")
        for name, text in (("run", "$ ls"), ("object", "$ ls"), ("partial", "# ls")):
            assert (await root.tools.execute(name, {"command": "ls"}, scope=None)).text == text
        assert root.tools.get("object", None).description == "Call it."
        assert list(root.tools.get("partial", None).parameters["properties"]) == ["command"]


@pytest.mark.asyncio
async def test_a_parameter_of_type_tool_call_gets_the_call() -> None:
    """And is no argument."""
    async with tree() as root:

        @root.tools.register()
        async def who(question: str, call: ToolCall) -> str:
            return f"{question} {call.name} {call.scope} {call.call_id} {call.plugin}"

        assert list(root.tools.get("who", None).parameters["properties"]) == ["question"]
        result = await root.tools.execute("who", {"question": "?"}, scope="s", call_id="7")
        assert result.text == "? who s 7 root"
        assert result.call_id == "7"


@pytest.mark.asyncio
async def test_types_that_are_defined_in_a_function_are_found() -> None:
    """The annotations of this module are text; plugins define such things in their bodies."""
    async with tree() as root:

        @attrs.frozen
        class Inner:
            name: str
            more: list[Inner]

        @root.tools.register()
        async def local(inner: Inner) -> str:
            return repr(inner.more[0].name)

        arguments = {"inner": {"name": "a", "more": [{"name": "b", "more": []}]}}
        assert (await root.tools.execute("local", arguments, scope=None)).text == "'b'"


def test_what_cannot_be_a_tool_is_refused_with_the_place() -> None:
    """Missing types, types without schema, parameters that are passed by position."""

    def untyped(a) -> None: ...  # type: ignore[no-untyped-def]

    def variadic(*args: int) -> None: ...

    def positional(a: int, /) -> None: ...

    def odd(a: bytes) -> None: ...

    def nested(a: list[complex]) -> None: ...

    def keys(a: dict[int, str]) -> None: ...

    def missing(a: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    for function, said in (
        (untyped, "parameter a has no type"),
        (variadic, "passed by name"),
        (positional, "passed by name"),
        (odd, r'tool "odd": a of odd is <class .bytes.>'),
        (nested, "an item of a of nested is <class 'complex'>"),
        (keys, "str keys only"),
        (missing, "'Nowhere'"),
        (lambda: None, "give name="),
    ):
        with pytest.raises(PluginError, match=said):
            function_tool(function)


def test_a_tool_of_a_function_is_a_tool() -> None:
    """For whoever wants to register it later, or elsewhere."""

    def add(a: int, b: int) -> int:
        return a + b

    tool = function_tool(add, timeout=3, parallel=True, max_output=300)
    assert isinstance(tool, Tool)
    assert (tool.name, tool.timeout, tool.parallel, tool.max_output) == ("add", 3, True, 300)


@pytest.mark.parametrize("kind", [int | float, float | int, int | float | None])
@pytest.mark.parametrize("given", [3.0, 3, 3.5])
@pytest.mark.asyncio
async def test_a_number_stays_what_it_is_where_it_may_be_both(kind: Any, given: float) -> None:
    """3.0 is an integer for JSON schema, and a float all the same."""

    def function(number: Any) -> list[Any]:
        return [number, type(number).__name__]

    function.__annotations__ = {"number": kind}
    async with tree() as root:
        root.tools.register(function)
        result = await root.tools.execute("function", {"number": given}, scope=None)
        assert result.value == [given, type(given).__name__]
