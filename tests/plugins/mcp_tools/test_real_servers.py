"""Servers that others wrote: their tools arrive whole, and can be called."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from pydantic import TypeAdapter

from harness_core.prompt import ToolSchema
from harness_core.testing import assert_no_residue

from .living import Reports, call, mount, names, tree

pytestmark = pytest.mark.asyncio

SERVERS = ("time", "git", "fetch")


def module(name: str) -> list[str]:
    """Return the arguments that start a server."""
    return ["-m", f"mcp_server_{name}"]


async def listed_by(name: str) -> dict[str, Any]:
    """Return the schemas that a server lists to the SDK's own client, by name of the tool."""
    parameters = StdioServerParameters(command=sys.executable, args=module(name))
    async with Client(parameters) as client:
        tools = (await client.list_tools()).tools
    return {f"{name}_{tool.name}": tool.input_schema for tool in tools}


def children() -> set[int]:
    """Return the numbers of the processes that live and have this one as their parent."""
    found: set[int] = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if state not in "ZX" and int(parent) == os.getpid():
            found.add(int(stat.parent.name))
    return found


def accepted_by_model_sdks(tool: ToolSchema) -> None:
    """Check a tool against the types that the SDKs of model providers take requests in."""
    from anthropic.types import ToolParam
    from openai.types.chat import ChatCompletionFunctionToolParam
    from openai.types.responses import FunctionToolParam

    schema = json.loads(json.dumps(tool.parameters))
    function = {"name": tool.name, "description": tool.description, "parameters": schema}
    for kind, shape in (
        (ChatCompletionFunctionToolParam, {"type": "function", "function": function}),
        (FunctionToolParam, {"type": "function", "strict": False, **function}),
        (
            ToolParam,
            {"name": tool.name, "description": tool.description, "input_schema": schema},
        ),
    ):
        TypeAdapter(kind).validate_python(shape, strict=True)


async def test_time_git_and_fetch(tmp_path: Path) -> None:
    """Their schemas are what their own library's client gets, byte for byte; their calls work."""
    await anyio.run_process(["git", "init", "-q", "-b", "trunk", str(tmp_path)])
    listed: dict[str, Any] = {}

    async def note(name: str) -> None:
        listed.update(await listed_by(name))

    settings = {
        name: {"command": sys.executable, "args": module(name), "prefix": f"{name}_"}
        for name in SERVERS
    }
    async with tree() as root:
        reports = Reports(root)
        before = children()
        async with assert_no_residue(root), anyio.create_task_group() as tasks:
            for name in SERVERS:
                tasks.start_soon(note, name)
            fiber = await mount(root, **settings)
            assert reports.errors == []
            told = (await root.system_prompt.assemble()).tools
            converted = await call(
                root,
                "time_convert_time",
                source_timezone="UTC",
                time="12:30",
                target_timezone="Asia/Tokyo",
            )
            assert "21:30:00+09:00" in converted.text
            wrong = await call(
                root,
                "time_convert_time",
                source_timezone="Nowhere/At_All",
                time="12:30",
                target_timezone="UTC",
            )
            assert wrong.status == "failed"
            assert (await call(root, "time_convert_time", time=5)).status == "invalid"
            status = await call(root, "git_git_status", repo_path=str(tmp_path))
            assert "On branch trunk" in status.text
            await fiber.dispose()
            assert names(root) == []
    assert {one.name: json.dumps(one.parameters) for one in told} == {
        name: json.dumps(schema) for name, schema in listed.items()
    }
    assert children() <= before
    for one in told:
        accepted_by_model_sdks(one)
    assert {name.partition("_")[0] for name in listed} == set(SERVERS)


async def test_a_program_beside_the_interpreter_is_found_without_activating_anything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is installed in the virtual environment of the harness is there for it."""
    monkeypatch.setenv("PATH", os.defpath)
    async with tree() as root:
        await mount(root, time={"command": "mcp-server-time"})
        assert "get_current_time" in names(root)
