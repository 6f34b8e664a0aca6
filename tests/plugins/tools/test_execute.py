"""Executing: every violation listed, every failure an answer, nothing leaked, output limited."""

from __future__ import annotations

import enum
import json
import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import attrs
import pytest
from harness_plugins.tools.api import Tool, ToolError, ToolResult, Tools

from harness_core import Context, create_scope
from harness_core.errors import ConfigError
from harness_core.prompt import SystemPrompt

from .tree import EMPTY, plugin_of, tool, tree

pytestmark = pytest.mark.asyncio

LISTS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "items": {"type": "array", "items": {"$ref": "#/$defs/Item"}},
        "mode": {"enum": ["a", "b"]},
        "when": {"type": "string", "format": "date-time"},
        "either": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    },
    "required": ["mode", "items"],
    "additionalProperties": False,
    "$defs": {
        "Item": {
            "type": "object",
            "properties": {"n": {"type": "integer", "minimum": 1}},
            "required": ["n"],
        }
    },
}


async def test_every_violation_is_listed_with_its_place() -> None:
    """At once, so that the model can mend all of them."""
    async with tree() as root:
        root.tools.register(Tool("lists", "", LISTS, run=lambda _: "called"))
        arguments = {
            "items": [{"n": 1}, {"n": "2"}, {"n": 0}, {}],
            "when": "noon",
            "either": "x",
            "extra": 1,
        }
        result = await root.tools.execute("lists", arguments, scope=None)
        assert result.status == "invalid"
        assert result.is_error
        assert [one.split("\n")[0] for one in result.violations] == [
            "$.either: 'x' is not valid under any of the given schemas",
            "$.items[1].n: '2' is not of type 'integer'",
            "$.items[2].n: 0 is less than the minimum of 1",
            "$.items[3]: 'n' is a required property",
            "$.when: 'noon' is not a 'date-time'",
            "$: 'mode' is a required property",
            "$: Additional properties are not allowed ('extra' was unexpected)",
        ]
        assert "$.either: 'x' is not of type 'integer'" in result.violations[0]
        for violation in result.violations:
            assert f"- {violation}" in result.text
        assert result.text.startswith('invalid arguments for tool "lists":')


@pytest.mark.parametrize("arguments", ["{}", None, [], 3, '{"mode": "a"}'])
async def test_arguments_that_are_no_object_are_refused(arguments: object) -> None:
    """JSON text is not parsed: nothing is coerced."""
    async with tree() as root:
        root.tools.register(tool("any"))
        result = await root.tools.execute("any", arguments, scope=None)
        kind = type(arguments).__name__
        assert result.violations == (f"$: the arguments must be a JSON object, got {kind}",)


async def test_an_older_draft_is_read_as_what_it_is() -> None:
    """A schema that names its draft in `$schema`."""
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"pair": {"type": "array", "items": [{"type": "integer"}, True]}},
    }
    async with tree() as root:
        root.tools.register(Tool("old", "", schema, run=lambda _: "called"))
        assert (await root.tools.execute("old", {"pair": [1, "x"]}, scope=None)).status == "ok"
        result = await root.tools.execute("old", {"pair": ["x"]}, scope=None)
        assert result.violations == ("$.pair[0]: 'x' is not of type 'integer'",)


async def test_a_huge_value_does_not_flood_the_message() -> None:
    """The message quotes the value, shortened."""
    async with tree() as root:
        root.tools.register(Tool("lists", "", LISTS, run=lambda _: "called"))
        result = await root.tools.execute("lists", {"mode": "x" * 99_999, "items": []}, scope=None)
        assert len(result.text) < 500


async def test_the_callers_arguments_are_neither_changed_nor_kept() -> None:
    """A tool may do with its arguments what it likes."""
    kept: list[Any] = []

    def run(arguments: dict[str, Any]) -> str:
        arguments["items"].append({"n": 3})
        kept.append(arguments)
        return "done"

    async with tree() as root:
        root.tools.register(Tool("lists", "", LISTS, run=run))
        given: dict[str, Any] = {"mode": "a", "items": [{"n": 1}]}
        await root.tools.execute("lists", given, scope=None)
        assert given == {"mode": "a", "items": [{"n": 1}]}
        assert kept[0]["items"][0] is not given["items"][0]


class Color(enum.Enum):
    RED = "red"


@attrs.frozen
class Point:
    x: int
    _y: int = 2


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is — é", "as it is — é"),
        (None, ""),
        (3, "3"),
        (True, "true"),
        ({"a": [1, "é"]}, '{"a": [1, "é"]}'),
        (Point(1), '{"x": 1, "y": 2}'),
        ([Color.RED, {3, 1}], '["red", [1, 3]]'),
    ],
)
async def test_what_a_tool_returns_becomes_text(value: object, text: str) -> None:
    """A str as it is, all else as JSON; the value rides along."""
    async with tree() as root:
        root.tools.register(tool("one", value))
        result = await root.tools.execute("one", {}, scope=None, call_id="c1")
        assert result == ToolResult(text, value=value, name="one", call_id="c1")
        assert not result.is_error


async def test_a_tool_may_return_a_result() -> None:
    """With a status of its own; name and call are filled in."""
    async with tree() as root:
        root.tools.register(tool("one", ToolResult("no", "failed", value=3)))
        result = await root.tools.execute("one", {}, scope=None, call_id="c1")
        assert result == ToolResult("no", "failed", value=3, name="one", call_id="c1")


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def failing() -> None:
    raise ValueError("it broke\nTraceback (most recent call last):\n  File secret.py, line 3")


def unspeakable() -> None:
    raise Unspeakable


def leaving() -> None:
    raise SystemExit(3)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (failing, 'tool "one" failed: ValueError: it broke'),
        (unspeakable, 'tool "one" failed: Unspeakable'),
        (leaving, 'tool "one" failed: SystemExit: 3'),
        (object, 'tool "one" failed: TypeError: a value of type object is no JSON data'),
    ],
)
@pytest.mark.parametrize("is_async", [False, True])
async def test_an_exception_is_an_answer_without_traceback_and_a_log_entry_with_the_owner(
    body: Any, text: str, is_async: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The model reads what went wrong, people where."""

    async def later() -> object:
        return body()

    async with tree() as root:
        errors: list[BaseException] = []
        root.on("fiber/error", lambda _, error: errors.append(error))
        await root.plugin(plugin_of("shell", tool("one", later if is_async else body)))
        with caplog.at_level(logging.ERROR, "harness_core"):
            result = await root.tools.execute("one", {}, scope=None)
        assert (result.status, result.text) == ("failed", text)
        assert "secret" not in result.text
        (record,) = caplog.records
        assert "shell" in record.getMessage()
        assert 'tool "one"' in record.getMessage()
        assert record.exc_info is not None
        (error,) = errors
        assert any("shell" in note for note in error.__notes__)
        (fiber,) = [one for one in root.fiber.children if one.name == "shell"]
        assert fiber.state.value == "active"


async def test_a_tool_error_is_told_in_its_own_words(caplog: pytest.LogCaptureFixture) -> None:
    """It is an answer, and no entry in the log."""

    def refuse() -> None:
        raise ToolError("no such file: x.py")

    async with tree() as root:
        root.tools.register(tool("one", refuse))
        result = await root.tools.execute("one", {}, scope=None)
        assert (result.status, result.text) == ("failed", "no such file: x.py")
        assert caplog.records == []


async def test_too_much_output_is_cut_and_says_so() -> None:
    """Within the limit, notice included; the value is whole."""
    async with tree(max_output=1000) as root:
        root.tools.register(tool("long", "x" * 5000))
        root.tools.register(tool("own", "x" * 5000, max_output=300))
        root.tools.register(tool("short", "x" * 1000))
        result = await root.tools.execute("long", {}, scope=None)
        assert len(result.text) <= 1000
        shown = result.text.index("\n")
        notice = f"\n[output truncated: the first {shown} of 5000 characters are shown]"
        assert result.text == "x" * shown + notice
        assert result.dropped == 5000 - shown
        assert result.value == "x" * 5000
        assert len((await root.tools.execute("own", {}, scope=None)).text) <= 300
        result = await root.tools.execute("short", {}, scope=None)
        assert (result.text, result.dropped) == ("x" * 1000, 0)


async def test_an_error_is_cut_too() -> None:
    """A message may be as long as any output."""

    def fail() -> None:
        raise ToolError("x" * 5000)

    async with tree(max_output=1000) as root:
        root.tools.register(tool("one", fail))
        result = await root.tools.execute("one", {}, scope=None)
        assert len(result.text) <= 1000
        assert result.status == "failed"


@pytest.mark.parametrize("config", [{"timeout": 0}, {"max_output": 3}, {"max_output": "3"}])
async def test_limits_that_make_no_sense_are_refused(config: dict[str, Any]) -> None:
    """The body never runs."""
    async with Context() as root:
        await root.plugin(SystemPrompt)
        with pytest.raises(ConfigError):
            await root.plugin(Tools, config)


async def test_an_unknown_name_is_answered_with_those_there_are() -> None:
    """And with the one that was probably meant."""
    async with tree() as root:
        result = await root.tools.execute("bash", {}, scope=None)
        assert result.text == 'unknown tool "bash"; available tools: (none)'
        root.tools.register(tool("bash"))
        root.tools.register(tool("grep"))
        result = await root.tools.execute("bsh", {}, scope=None, call_id="1")
        assert result.status == "unknown"
        assert result.call_id == "1"
        known = "available tools: bash, grep"
        assert result.text == f'unknown tool "bsh"; {known}; did you mean "bash"?'


async def test_lookup_says_what_a_call_would_run() -> None:
    """`get`, `visible` and `schemas` are the answer that a call gets."""
    async with tree() as root:
        scope = create_scope(root, "agent")
        mine = tool("bash", "mine")
        root.tools.register(tool("bash", "global"))
        scope.ctx.tools.register(mine)
        assert root.tools.get("bash", "agent") is mine
        assert root.tools.visible("agent") == {"bash": mine}
        assert root.tools.get("bash", None) is not mine
        assert root.tools.get("nope", "agent") is None


async def test_a_tool_with_a_reader_of_its_own() -> None:
    """It may refuse what the schema cannot; that is a violation like the others."""

    def read(arguments: Mapping[str, Any]) -> int:
        number = int(json.loads(arguments["json"]))
        if number < 0:
            raise ValueError("must not be negative")
        return number

    schema = {"type": "object", "properties": {"json": {"type": "string"}}, "required": ["json"]}
    async with tree() as root:
        root.tools.register(Tool("n", "", schema, run=lambda n: n + 1, read=read))
        assert (await root.tools.execute("n", {"json": "2"}, scope=None)).text == "3"
        result = await root.tools.execute("n", {"json": "-2"}, scope=None)
        assert (result.status, result.violations) == ("invalid", ("$: must not be negative",))


async def test_a_reference_that_cannot_be_followed_is_an_error_of_the_tool(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Nothing is fetched; the answer names the tool, the log the plugin."""
    schema = {
        "$id": "https://example.org/root",
        "type": "object",
        "properties": {"a": {"$ref": "other"}},
    }
    async with tree() as root:
        await root.plugin(plugin_of("remote", Tool("far", "", schema, run=lambda _: "called")))
        result = await root.tools.execute("far", {"a": 1}, scope=None)
        assert result.status == "failed"
        assert "remote" in caplog.text
    assert EMPTY == {"type": "object", "properties": {}}


async def test_arguments_that_are_nested_too_deeply_are_refused() -> None:
    """Rather than raise out of the call."""
    arguments: dict[str, Any] = {}
    for _ in range(5000):
        arguments = {"a": arguments}
    async with tree() as root:
        root.tools.register(tool("any"))
        result = await root.tools.execute("any", arguments, scope=None)
        assert result.violations == ("$: nested too deeply",)


@pytest.mark.parametrize(
    ("arguments", "violation"),
    [
        ({1: "x"}, "$: the key 1 is no str"),
        ({"a": {None: "x"}}, "$: the key None is no str"),
        ({"a": float("nan")}, "$: nan is no JSON number"),
        ({"a": [float("inf")]}, "$: inf is no JSON number"),
    ],
)
async def test_what_json_does_not_have_is_no_argument(arguments: Any, violation: str) -> None:
    async with tree() as root:
        schema = {"type": "object", "patternProperties": {"^a": {}}}
        root.tools.register(Tool("open", "", schema, run=lambda _: "called"))
        result = await root.tools.execute("open", arguments, scope=None)
        assert (result.status, result.violations) == ("invalid", (violation,))


async def test_arguments_may_be_any_mapping() -> None:
    async with tree() as root:
        root.tools.register(Tool("open", "", {"type": "object"}, run=lambda given: given))
        result = await root.tools.execute("open", MappingProxyType({"a": 1}), scope=None)
        assert result.value == {"a": 1}


async def test_a_parameter_with_a_default_is_the_functions_own() -> None:
    """As in a loop that makes tools; only one without a default, or named `call`, gets the call."""

    def with_call(_: object, call: Any = None) -> str:
        return str(call.name)

    async with tree() as root:
        for name in ("first", "second"):
            root.tools.register(Tool(name, "", run=lambda _, name=name: f"I am {name}"))
        root.tools.register(Tool("third", "", run=with_call))
        texts = [
            (await root.tools.execute(name, {}, scope=None)).text
            for name in ("first", "second", "third")
        ]
        assert texts == ["I am first", "I am second", "third"]


class Abort(BaseException):
    """What is no Exception."""


@pytest.mark.parametrize(
    ("errors", "text"),
    [
        ([ToolError("no such file")], "no such file"),
        ([ValueError("bad")], 'tool "grouped" failed: ValueError: bad'),
        ([ValueError("a"), KeyError("b")], "tool \"grouped\" failed: ValueError: a; KeyError: 'b'"),
    ],
)
async def test_an_error_in_a_task_group_is_told_as_what_it_is(
    errors: list[Exception], text: str
) -> None:
    """That there were sub-exceptions says nothing to a model."""

    def run(_: object) -> None:
        raise ExceptionGroup("unhandled errors", [ExceptionGroup("inner", errors)])

    async with tree() as root:
        root.tools.register(Tool("grouped", "", run=run))
        result = await root.tools.execute("grouped", {}, scope=None)
        assert (result.status, result.text) == ("failed", text)


@pytest.mark.parametrize("error", [Abort("no"), SystemExit(3)])
async def test_nothing_that_a_tool_raises_reaches_the_caller(error: BaseException) -> None:
    def run(_: object) -> None:
        raise error

    async with tree() as root:
        root.tools.register(Tool("raises", "", run=run))
        result = await root.tools.execute("raises", {}, scope=None)
        assert result.text == f'tool "raises" failed: {type(error).__name__}: {error}'


async def test_a_result_whose_text_is_no_text_is_a_fault_of_the_tool() -> None:
    async with tree() as root:
        root.tools.register(Tool("odd", "", run=lambda _: ToolResult(None)))  # type: ignore[arg-type]
        result = await root.tools.execute("odd", {}, scope=None)
        assert result.status == "failed"
        assert "must be <class 'str'>" in result.text


async def test_null_is_taken_where_a_schema_says_nullable() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "nullable": True}}}
    async with tree() as root:
        root.tools.register(Tool("open", "", schema, run=lambda given: given))
        for given, status in ((None, "ok"), ("x", "ok"), (1, "invalid")):
            result = await root.tools.execute("open", {"a": given}, scope=None)
            assert result.status == status
