"""What the model is told: the tool and its section, from one source, both or neither."""

from __future__ import annotations

import json
import random
from typing import Any

import anyio
import pytest
from harness_plugins import code_mode
from harness_plugins.tools.api import Tool, Tools

from harness_core import Context, create_scope
from harness_core.prompt import PromptAssembly, SystemPrompt, render_prompt, render_request

from .tree import echo, run, tree

pytestmark = pytest.mark.asyncio


async def shown(root: Context, scope: object | None = None) -> tuple[list[str], str]:
    """Return the names of the tools, and the system prompt."""
    assembly = await root.system_prompt.assemble(scope=scope)
    return [one.name for one in assembly.tools], render_prompt(assembly)


async def test_the_section_says_how_and_holds_a_signature_for_each_tool() -> None:
    """And nothing of that where tools are native."""
    async with tree(mode=None) as (root, _):
        root.tools.register(echo())
        assert await shown(root) == (["echo"], "")
        effect = root.tools.present_as("code")
        names, prompt = await shown(root)
        assert names == ["run_code"]
        assert prompt.startswith("Tools are called from Python code: `run_code` runs it. In the")
        assert prompt.endswith(
            '\n\n```python\nasync def echo(value: Any) -> Any:\n    """Return it."""\n```'
        )
        await effect()
        root.tools.present_as("both")
        names, prompt = await shown(root)
        assert names == ["echo", "run_code"]
        assert prompt.startswith("Tools can be called one by one, or from Python code, which")


async def test_each_scope_reads_exactly_what_its_code_can_call() -> None:
    """Braces and references in descriptions are data."""
    async with tree() as (root, _):
        root.tools.register(Tool("one", "Give {{it}} to me. }}", run=lambda _: 1))
        scope = create_scope(root, "agent")
        scope.ctx.tools.register(Tool("own", "", run=lambda _: 2))
        limit = scope.ctx.tools.restrict(deny=["one"])
        assert "async def own() -> Any: ..." in (await shown(root, "agent"))[1]
        assert "async def one()" not in (await shown(root, "agent"))[1]
        assert '"""Give {{it}} to me. }}"""' in (await shown(root))[1]
        assert "own" not in (await shown(root))[1]
        await limit()
        code = "(await one()) + (await own())"
        assert (await run(root, code, "agent")).value == 3


async def test_without_a_tool_there_is_still_code() -> None:
    """And the section says that there is nothing to call."""
    async with tree() as (root, _):
        names, prompt = await shown(root)
        assert names == ["run_code"]
        assert prompt.endswith("At present there is no tool that the code could call.")
        assert (await run(root, "6 * 7")).value == 42


async def test_an_unchanged_set_is_the_same_bytes_in_every_turn() -> None:
    """Whatever the order of registration, after a restart, and after a change that was undone."""
    shuffle = random.Random(3)
    names = ["zeta", "alpha", "git-log", "git_log", "ä", "\U0001f642", "A"]
    seen: set[str] = set()
    for _ in range(10):
        shuffle.shuffle(names)
        async with tree() as (root, fiber):
            for name in names:
                root.tools.register(echo(name))
            seen.add(render_request(await root.system_prompt.assemble()))
            await fiber.restart()
            seen.add(render_request(await root.system_prompt.assemble()))
            effect = root.tools.register(echo("more"))
            seen.add(render_request(await root.system_prompt.assemble()).replace("more", ""))
            await effect()
            seen.add(render_request(await root.system_prompt.assemble()))
    assert len(seen) == 2


async def test_a_listener_and_a_complete_section_leave_both_or_neither() -> None:
    """The tool without its text would be called blindly; the text without the tool misleads."""
    async with tree() as (root, _):
        root.tools.register(echo())
        root.system_prompt.section("echo", "Echo.", order=110, requires_tools=["echo"])
        for lost in ("tools", "sections"):
            scope = create_scope(root, lost)

            async def drop(
                assembly: PromptAssembly, context: Any, next: Any, lost: str = lost
            ) -> PromptAssembly:
                result: PromptAssembly = await next()
                kept = [one for one in getattr(result, lost) if not one.name.endswith("code")
                        and one.name != "code_mode"]  # fmt: skip
                setattr(result, lost, kept)
                return result

            listener = scope.ctx.on("system-prompt/assemble", drop)
            assert await shown(root, lost) == ([], "")
            await listener()
            assert (await shown(root, lost))[0] == ["run_code"]
        scope = create_scope(root, "title")
        scope.ctx.system_prompt.section("title", "Find a title.", order=0, complete=True)
        assert await shown(root, "title") == ([], "Find a title.")
        # What is shown by itself needs no text of ours.
        scope.ctx.tools.present_as("both")
        assert await shown(root, "title") == (["echo"], "Find a title.")


async def test_a_reload_of_the_tools_service_changes_nothing() -> None:
    """Law L8: code mode waits for it, and comes back."""
    async with Context() as root:
        await root.plugin(SystemPrompt, include_harness_identity=False)
        service = await root.plugin(Tools)
        await root.plugin(code_mode)
        root.tools.register(echo())
        root.tools.present_as("code")
        before = render_request(await root.system_prompt.assemble())
        await service.restart()
        assert render_request(await root.system_prompt.assemble()) == before


async def test_code_mode_in_one_scope_is_for_that_scope() -> None:
    """Mounted there, it is seen there; two of them do not disturb each other."""
    async with tree(mode=None) as (root, _):
        root.tools.register(echo())
        scope = create_scope(root, "agent")
        scope.ctx.plugin(code_mode)
        scope.ctx.tools.present_as("code")
        names, prompt = await shown(root, "agent")
        assert names == ["run_code"]
        assert prompt.count("async def echo") == 1
        assert (await run(root, "await echo(5)", "agent")).value == 5
        assert await shown(root) == (["echo"], "")
        await scope.dispose()


async def test_the_schema_of_run_code_is_what_any_provider_accepts() -> None:
    """One argument, and nothing else."""
    async with tree() as (root, _):
        (schema,) = root.tools.schemas(None)
        assert json.loads(json.dumps(schema.parameters)) == {
            "type": "object",
            "properties": {
                "code": {
                    "type": "string",
                    "description": "Python code; `await` works at the top level.",
                }
            },
            "required": ["code"],
            "additionalProperties": False,
        }
        result = await root.tools.execute("run_code", {"code": 1}, scope=None)
        assert result.status == "invalid"


async def test_a_section_says_what_its_own_assembly_was_told() -> None:
    """Law L7: how tools are presented may change while an assembly waits."""
    async with tree(mode=None) as (root, _):
        root.tools.register(echo())
        effect = root.tools.present_as("code")
        entered, opened = anyio.Event(), anyio.Event()
        texts: list[str] = []

        @root.system_prompt.variable("slow")
        async def slow() -> str:
            entered.set()
            await opened.wait()
            return ""

        async def assemble() -> None:
            assembly = await root.system_prompt.assemble()
            assert [one.name for one in assembly.tools] == ["run_code"]
            texts.append(render_prompt(assembly))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(assemble)
            await entered.wait()
            await effect()
            root.tools.present_as("both")
            opened.set()
        assert "one by one" not in texts[0]
