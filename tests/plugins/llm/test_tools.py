"""Schemas of tools: unchanged where a provider takes them, clearly refused where not.

What real MCP servers offer is listed from them while the test runs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from harness_plugins.llm.api import ModelError
from harness_plugins.llm.remote.api import ToolNames, plain_id
from harness_plugins.llm_anthropic.api import tool_params as anthropic_params
from harness_plugins.llm_openai.api import tool_params as openai_params
from hypothesis import given, settings
from hypothesis import strategies as st

from harness_core.prompt import ToolSchema

RICH: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "title": "Größe",
    "properties": {
        "node": {"$ref": "#/$defs/Node"},
        "when": {"type": "string", "format": "date-time"},
        "size": {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "null"}], "default": None},
    },
    "required": ["node"],
    "additionalProperties": False,
    "$defs": {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}},
    "x-unknown": [1, {"$ref": "no reference"}],
}


def openai_schema(tool: ToolSchema) -> dict[str, Any]:
    """Return the schema that OpenAI gets."""
    (sent,) = openai_params([tool])
    parameters: dict[str, Any] = sent["function"]["parameters"]
    return parameters


def anthropic_schema(tool: ToolSchema) -> dict[str, Any]:
    """Return the schema that Anthropic gets."""
    (sent,) = anthropic_params([tool])
    schema: dict[str, Any] = sent["input_schema"]
    return schema


BOTH = pytest.mark.parametrize("schema_of", [openai_schema, anthropic_schema])
SchemaOf = Callable[[ToolSchema], dict[str, Any]]


@BOTH
def test_a_schema_passes_unchanged(schema_of: SchemaOf) -> None:
    """References, unions, formats, unknown keywords; the same bytes each time."""
    tool = ToolSchema("t", "", RICH)
    sent = schema_of(tool)
    assert json.dumps(sent) == json.dumps(RICH)
    sent["properties"].clear()
    assert json.dumps(schema_of(tool)) == json.dumps(RICH), "the tool itself is never changed"


@BOTH
@pytest.mark.parametrize(
    ("given_schema", "expected"),
    [
        ({}, {"type": "object", "properties": {}}),
        ({"type": "object"}, {"type": "object", "properties": {}}),
        (
            {"required": ["a"], "properties": {"a": {}}},
            {"type": "object", "properties": {"a": {}}, "required": ["a"]},
        ),
        ({"type": ["object", "null"]}, {"type": "object", "properties": {}}),
        (
            {"$ref": "#/$defs/A", "$defs": {"A": {"type": "object"}}},
            {
                "type": "object",
                "properties": {},
                "$ref": "#/$defs/A",
                "$defs": {"A": {"type": "object"}},
            },
        ),
        (
            {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
            {
                "type": "object",
                "properties": {},
                "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
            },
        ),
    ],
)
def test_the_top_says_that_it_is_an_object(
    schema_of: SchemaOf, given_schema: dict[str, Any], expected: dict[str, Any]
) -> None:
    """As providers want; it takes and refuses the same arguments as before."""
    assert schema_of(ToolSchema("t", "", given_schema)) == expected


@BOTH
@pytest.mark.parametrize("kind", ["array", "string", ["string", "null"]])
def test_a_schema_that_allows_no_object_is_refused(schema_of: SchemaOf, kind: object) -> None:
    """The tool, the place, and what to do."""
    with pytest.raises(ModelError, match="make the schema an object") as raised:
        schema_of(ToolSchema("list.all", "", {"type": kind}))
    assert raised.value.kind == "invalid-request"
    assert '"list.all"' in str(raised.value)
    assert "parameters.type" in str(raised.value)


NAMES = st.one_of(st.text(max_size=100), st.from_regex(r"\A[a-zA-Z0-9_-]{1,70}\Z"))


@settings(max_examples=60, deadline=None)
@given(st.lists(NAMES, max_size=6, unique=True))
def test_every_name_is_translated_there_and_back(names: list[str]) -> None:
    """To letters that all providers take; a plain name stays as it is."""
    translated = ToolNames(names, "p")
    for name in names:
        sent = translated.sent(name)
        assert 1 <= len(sent) <= 64
        assert sent.isascii()
        assert sent.replace("-", "").replace("_", "").isalnum() or set(sent) <= {"-", "_"}
        assert translated.original(sent) == name
        if name == sent:
            continue
        assert sent.endswith(plain_id(name)[-9:])


def test_names_that_become_one_are_refused() -> None:
    """Both are named: a call could not be told apart."""
    taken = ToolNames([], "p").sent("a.b")
    with pytest.raises(ModelError, match="rename one of them") as raised:
        ToolNames(["a.b", taken], "p")
    assert '"a.b"' in str(raised.value)
    assert taken in str(raised.value)


async def listed_from(command: list[str]) -> list[ToolSchema]:
    """Return the tools that a real MCP server lists."""
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    parameters = StdioServerParameters(command=command[0], args=command[1:])
    with anyio.fail_after(30):
        async with (
            stdio_client(parameters) as (receive, send),
            ClientSession(receive, send) as session,
        ):
            await session.initialize()
            found = await session.list_tools()
    return [
        ToolSchema(tool.name, tool.description or "", tool.model_dump(by_alias=True)["inputSchema"])
        for tool in found.tools
    ]


@pytest.mark.asyncio
async def test_tools_of_real_mcp_servers_are_what_the_sdks_send(tmp_path: Path) -> None:
    """Three servers; every schema unchanged, and taken by the SDKs' own types."""
    from anthropic.types import ToolParam
    from openai.types.chat import ChatCompletionToolParam
    from pydantic import TypeAdapter

    tools: dict[str, list[ToolSchema]] = {}

    async def list_from(name: str, *arguments: str) -> None:
        tools[name] = await listed_from([sys.executable, "-m", name, *arguments])

    async with anyio.create_task_group() as group:
        group.start_soon(list_from, "mcp_server_time", "--local-timezone", "UTC")
        group.start_soon(list_from, "mcp_server_git")
        group.start_soon(list_from, "mcp_server_fetch")
    assert sorted(tools) == ["mcp_server_fetch", "mcp_server_git", "mcp_server_time"]
    assert all(tools.values())
    every = [tool for listed in tools.values() for tool in listed]
    assert len(every) > 10
    for tool, openai_sent, anthropic_sent in zip(
        every, openai_params(every), anthropic_params(every), strict=True
    ):
        assert TypeAdapter(ChatCompletionToolParam).validate_python(openai_sent) == openai_sent
        assert TypeAdapter(ToolParam).validate_python(anthropic_sent) == anthropic_sent
        assert openai_sent["function"]["name"] == anthropic_sent["name"] == tool.name
        for schema in (openai_sent["function"]["parameters"], anthropic_sent["input_schema"]):
            assert json.dumps(schema) == json.dumps(tool.parameters)
