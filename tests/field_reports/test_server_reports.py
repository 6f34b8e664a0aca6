"""Reports about tools of servers: stale lists, doubled names, lost schemas, forged words."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from harness_plugins import code_mode, llm_anthropic, llm_openai
from harness_plugins.llm.api import Message, ModelError, ModelRequest, Reply, find_adapter
from harness_plugins.tools.api import Tool

from harness_core import Context, create_scope
from harness_core.prompt import ToolSchema, diff_assemblies, render_prompt
from tests.plugins.llm.server import serving
from tests.plugins.llm.speak import HELLOS, KEY, PATHS
from tests.plugins.mcp_tools.living import (
    Changes,
    Reports,
    asked,
    call,
    living,
    mount,
    names,
    server,
    tree,
    until,
)

from .reports import Kind, Scenario

pytestmark = pytest.mark.asyncio

REFERENCES: dict[str, Any] = {
    "type": "object",
    "$defs": {"node": {"properties": {"next": {"$ref": "#/$defs/node"}}}},
    "properties": {
        "root": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}], "default": None},
        "size": {"type": "integer", "default": 1},
    },
    "additionalProperties": False,
}


def listed(name: str, description: str = "", schema: Any = None) -> dict[str, Any]:
    """Return a tool as a server lists it."""
    return {"name": name, "description": description, "inputSchema": schema or {"type": "object"}}


async def serialised(root: Context) -> str:
    """Return the tools as a request carries them."""
    tools = (await root.system_prompt.assemble()).tools
    return json.dumps([[one.name, one.description, one.parameters] for one in tools])


lists = Kind()


@lists.report(
    "openai/codex#33266: servers",
    "anthropics/claude-code#79826: servers",
    "maximhq/bifrost#6885: servers",
    "matrixorigin/Astra#210: servers",
)
async def _a_list_that_changes(directory: Path) -> None:
    """Added, removed and changed tools show after the notice, as one change of the prompt each."""
    async with tree() as root:
        tools = [listed("a", "agents: a"), listed("b"), listed("set_tools")]
        await mount(root, one=server(tools=tools))
        before = await root.system_prompt.assemble()
        changes = Changes(root)
        now = [listed("a", "agents: a,b"), listed("c"), listed("set_tools")]
        await call(root, "set_tools", tools=now)
        await until(lambda: names(root) == ["a", "c", "set_tools"])
        after = await root.system_prompt.assemble()
        found = {
            (one.name, one.change, one.detail) for one in diff_assemblies(before, after).changes
        }
        assert found == {
            ("a", "changed", "description"),
            ("b", "removed", ""),
            ("c", "added", ""),
        }
        assert changes.taken() == 3
        assert (await call(root, "b")).status == "unknown"


@lists.report(
    "langchain-ai/deepagents#2497: servers",
    "librefang/librefang#3765: servers",
    "macanderson/stella#1875: servers",
)
async def _the_order_of_a_list(directory: Path) -> None:
    """Another order is no change; nor is a server that is restarted beside another one."""
    async with tree() as root:
        root.tools.register(Tool("mu", "mu", {"type": "object"}, run=lambda _: ""))
        tools = ["zeta", "set_tools", "alpha"]
        fiber = await mount(root, one=server(tools=tools), two=server(tools=["beta", "yes"]))
        before = await serialised(root)
        changes = Changes(root)
        await call(root, "set_tools", tools=[*reversed(tools), "last"])
        await until(lambda: "last" in names(root))
        await call(root, "set_tools", tools=tools)
        await until(lambda: "last" not in names(root))
        assert await serialised(root) == before
        assert changes.taken() == 2
        await fiber.restart()
        assert await serialised(root) == before


@lists.each()
async def test_the_tools_of_a_server_are_those_it_lists_now(
    scenario: Scenario, tmp_path: Path
) -> None:
    """In one order, and nothing is told that did not happen."""
    await scenario(tmp_path)


doubled = Kind()


@doubled.report("openai/openai-agents-python#464: servers")
async def _two_servers_with_one_name(directory: Path) -> None:
    """Both are named; with prefixes both can be called, each by the name that its server knows."""
    async with tree() as root:
        reports = Reports(root)
        fiber = await mount(
            root, github=server(tools=["create_issue"]), linear=server(tools=["create_issue"])
        )
        assert names(root) == ["create_issue"]
        assert "mcp:github" in str(reports)
        assert "mcp:linear" in str(reports)
        assert 'tool "create_issue" is already registered' in str(reports)
        servers = {
            name: server({"prefix": f"{name}_"}, tools=["create_issue", "fail"])
            for name in ("github", "linear")
        }
        await fiber.update({"servers": servers})
        await until(lambda: len(names(root)) == 4)
        assert names(root)[::2] == ["github_create_issue", "linear_create_issue"]
        result = await call(root, "linear_create_issue", title="It does not work")
        assert (result.status, json.loads(result.text)) == ("ok", {"title": "It does not work"})
        # This one does something only if it is called by the name that the server knows.
        result = await call(root, "linear_fail")
        assert (result.status, result.text) == ("failed", "it is broken")


@doubled.each()
async def test_a_name_that_two_servers_have_is_told_and_can_be_told_apart(
    scenario: Scenario, tmp_path: Path
) -> None:
    """No tool disappears without a word."""
    await scenario(tmp_path)


shapes = Kind()


@shapes.report(
    "open-webui/computer#87: on the wire",
    "CommandCodeAI/command-code#566: on the wire",
    "google-gemini/gemini-cli#13326: on the wire",
    "ComposioHQ/composio#3632: on the wire",
    "openai/openai-agents-python#3382: on the wire",
)
async def _what_a_provider_gets(directory: Path) -> None:
    """The schema of the server, every keyword of it; what the harness holds is not changed."""
    async with tree() as root:
        await mount(root, one=server(tools=[listed("t", "T.", REFERENCES)]))
        (tool,) = (await root.system_prompt.assemble()).tools
        held = copy.deepcopy(tool.parameters)
        request = ModelRequest("m-1", "P", [Message("user", "Hello")], [tool])
        for provider, plugin, path in (
            ("openai", llm_openai, ("function", "parameters")),
            ("anthropic", llm_anthropic, ("input_schema",)),
        ):
            async with serving(HELLOS[provider]) as answers:
                await root.plugin(plugin, {"base_url": answers.url + PATHS[provider]})
                adapter = find_adapter(root, provider)
                replies = [one async for one in adapter.stream(request) if isinstance(one, Reply)]
                assert len(replies) == 1
                (sent,) = answers.asked[0].body["tools"]
                for key in path:
                    sent = sent[key]
                assert json.dumps(sent) == json.dumps(REFERENCES)
        assert tool.parameters == held == REFERENCES


@shapes.report("PrimeIntellect-ai/verifiers#2049: on the wire")
async def _one_system_message(directory: Path) -> None:
    """A request has one, in front, whatever the conversation."""
    async with tree() as root, serving(HELLOS["openai"]) as answers:
        await root.plugin(llm_openai, {"base_url": answers.url + PATHS["openai"]})
        told = [Message("assistant", "Welcome."), Message("user", "You are a system message.")]
        async for _ in find_adapter(root, "openai").stream(ModelRequest("m-1", "P", told)):
            pass
        roles = [one["role"] for one in answers.asked[0].body["messages"]]
        assert roles == ["system", "assistant", "user"]


@shapes.report("CommandCodeAI/command-code#566: refused")
async def _a_schema_that_a_provider_cannot_take(directory: Path) -> None:
    """The error names the tool, before anything is sent."""
    impossible = ToolSchema("odd", "", {"type": "string"})
    request = ModelRequest("m-1", "P", [Message("user", "Hello")], [impossible])
    async with Context() as root, serving(HELLOS["openai"]) as answers:
        await root.plugin(llm_openai, {"base_url": answers.url + PATHS["openai"]})
        with pytest.raises(ModelError, match="odd"):
            async for _ in find_adapter(root, "openai").stream(request):
                pass
        assert answers.asked == []


@shapes.report("lire1131/dsh-undo-savepoint#20: servers")
async def _a_schema_of_the_wrong_shape(directory: Path) -> None:
    """Each tool that cannot be used is named, with what is wrong; the others stand."""
    async with tree() as root:
        reports = Reports(root)
        wrong = [{"name": f"undo_{word}", "inputSchema": 5} for word in ("a", "b", "c")]
        await mount(root, one=server(tools=["good", *wrong]))
        assert names(root) == ["good"]
        assert all(f'"undo_{word}"' in str(reports) for word in ("a", "b", "c"))
        assert "inputSchema" in str(reports)


@shapes.each()
async def test_a_schema_reaches_the_provider_whole_or_its_tool_is_named(
    scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is stripped on the way, nothing is dropped in silence."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, KEY)
    await scenario(tmp_path)


lives = Kind()


@lives.report(
    "home-assistant/core#73387: servers",
    "home-assistant/core#73145: servers",
    "home-assistant/core#110912: servers",
)
async def _while_it_waits_to_try_again(directory: Path) -> None:
    """Updated or disposed in the pause before the next attempt: no attempt of the old comes."""
    dead = server({"retry": 600, "retry_max": 600}, die="start", directory=str(directory))
    async with tree() as root:
        fiber = await mount(root, one=dead)
        assert names(root) == []
        await fiber.update({"servers": {"one": server(tools=["well"])}})
        await until(lambda: names(root) == ["well"])
        await fiber.update({"servers": {"one": dead}})
        assert names(root) == []
        await fiber.dispose()
        assert (directory / "runs").read_text().count("\n") == 2
        assert living(directory) == []


@lives.report("can1357/oh-my-pi#7260: servers", "Kludex/uvicorn#675: servers")
async def _a_server_that_does_not_want_to_go(directory: Path) -> None:
    """Its tools go at once, and its processes before the teardown ends."""
    stubborn = server(
        {"shutdown_timeout": 0.05}, stubborn=True, child="yes", directory=str(directory)
    )
    async with tree() as root:
        before = await root.system_prompt.assemble()
        fiber = await mount(root, one=stubborn)
        assert names(root) == ["echo"]
        assert len(living(directory)) == 2
        await fiber.dispose()
        assert await root.system_prompt.assemble() == before
        assert living(directory) == []
        assert "initialize" in asked(directory)


@lives.each()
async def test_a_server_lives_no_longer_than_its_row(scenario: Scenario, tmp_path: Path) -> None:
    """Nor is it started again by a life that is over."""
    await scenario(tmp_path)


hidden = Kind()


@hidden.report(
    "google-gemini/gemini-cli#13597: tools",
    "github/copilot-cli#4596: tools",
    "yjh051108/dsh-routing-suite#63: tools",
)
async def _denied_to_one_agent(directory: Path) -> None:
    """The schema, the call and the guidance go together; nobody else misses anything."""
    async with tree() as root:
        await mount(root, one=server(tools=["glob", "read"]))
        for name in ("glob", "read"):
            root.system_prompt.section(
                f"tool:{name}", f"Use {name}.", order=110, requires_tools=[name]
            )
            root.system_prompt.context(f"c:{name}", f"Try {name}.", order=1, requires_tools=[name])
        narrow, wide = create_scope(root, "narrow"), create_scope(root, "wide")
        narrow.ctx.tools.restrict(allow=["read"])
        for scope, there in (("narrow", ["read"]), ("wide", ["glob", "read"])):
            assembly = await root.system_prompt.assemble(scope=scope)
            assert [one.name for one in assembly.tools] == there
            assert render_prompt(assembly) == "\n\n".join(f"Use {name}." for name in there)
            assert [one.text for one in assembly.contexts] == [f"Try {name}." for name in there]
        result = await root.tools.execute("glob", {}, scope="narrow")
        assert result.status == "unknown"
        assert wide.ctx.tools.visible("wide")


@hidden.report("yjh051108/dsh-routing-suite#63: code mode")
async def _in_code_mode(directory: Path) -> None:
    """The text lists as callable exactly what the code may call."""
    async with tree() as root:
        await mount(root, one=server(tools=["glob", "read"]))
        await root.plugin(code_mode)
        scope = create_scope(root, "coder")
        scope.ctx.tools.present_as("code")
        scope.ctx.tools.restrict(deny=["glob"])
        assembly = await root.system_prompt.assemble(scope="coder")
        assert [one.name for one in assembly.tools] == ["run_code"]
        assert "read(" in render_prompt(assembly)
        assert "glob" not in render_prompt(assembly)


@hidden.each()
async def test_no_text_offers_what_cannot_be_called(scenario: Scenario, tmp_path: Path) -> None:
    """Schema, guidance and execution have one answer."""
    await scenario(tmp_path)
