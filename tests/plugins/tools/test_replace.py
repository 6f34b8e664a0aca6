"""Replacing: one change, no pause, the same effect, all or nothing."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import attrs
import pytest

from harness_core import Context, create_scope, inject
from harness_core.errors import InactiveFiberError, PluginError
from harness_core.prompt import CHANGE
from harness_core.testing import assert_no_residue

from .tree import Gate, told, tool, tree

pytestmark = pytest.mark.asyncio


def described(root: Context, name: str, scope: object | None = None) -> str:
    """Return the description of a tool, as the model of a scope reads it."""
    (schema,) = [one for one in root.tools.schemas(scope) if one.name == name]
    return schema.description


async def test_a_tool_is_replaced_with_one_change_and_by_the_same_effect() -> None:
    async with tree() as root, assert_no_residue(root):
        scope = create_scope(root, "agent")
        effect = scope.ctx.tools.register(tool("bash"))
        assert described(root, "bash", "agent") == "Tool bash."
        seen: list[list[str]] = []
        listening = root.on(CHANGE, lambda: seen.append(sorted(root.tools.visible("agent"))))
        scope.ctx.tools.replace(effect, tool("bash", "new", max_output=300))
        assert seen == [["bash"]]
        result = await root.tools.execute("bash", {}, scope="agent")
        assert result.text == "new"
        assert root.tools.get("bash", "agent").max_output == 300
        await effect()
        assert await told(root, "agent") == []
        await listening()
        await scope.dispose()


async def test_what_the_model_reads_is_that_of_the_new_tool() -> None:
    async with tree() as root:
        effect = root.tools.register(tool("bash"))
        root.tools.register(tool("other"))
        below = create_scope(root, "agent")
        below.ctx.tools.register(tool("own"))
        assert described(root, "bash", "agent") == "Tool bash."
        before = await root.system_prompt.assemble()
        root.tools.replace(effect, attrs.evolve(tool("bash"), description="Said otherwise."))
        for scope in (None, "agent"):
            assert described(root, "bash", scope) == "Said otherwise."
        assert [one.description for one in before.tools if one.name == "bash"] == ["Tool bash."]
        after = await root.system_prompt.assemble()
        assert [one.name for one in after.tools] == ["bash", "other"]
        assert after.tools[0].description == "Said otherwise."


async def test_a_veto_leaves_the_tool_as_it_was() -> None:
    async with tree() as root:
        effect = root.tools.register(tool("bash", "old"))

        def refuse() -> None:
            raise RuntimeError("not now")

        veto = root.on(CHANGE, refuse)
        with pytest.raises(RuntimeError, match="not now"):
            root.tools.replace(effect, tool("bash", "new"))
        await veto()
        assert (await root.tools.execute("bash", {}, scope=None)).text == "old"
        await effect()
        assert await told(root) == []


async def test_only_ones_own_present_tool_of_that_name_and_scope_is_replaced() -> None:
    async with tree() as root:
        effect = root.tools.register(tool("bash", "old"))
        root.tools.register(tool("other"))
        scope = create_scope(root, "agent")
        with pytest.raises(PluginError, match='"other" cannot be replaced'):
            root.tools.replace(effect, tool("other"))
        with pytest.raises(PluginError, match='"bash" cannot be replaced'):
            scope.ctx.tools.replace(effect, tool("bash"))
        assert (await root.tools.execute("bash", {}, scope=None)).text == "old"
        await effect()
        with pytest.raises(PluginError, match="not undone yet"):
            root.tools.replace(effect, tool("bash"))


async def test_a_call_that_waits_for_its_turn_does_not_run_a_tool_that_it_did_not_ask_for() -> None:
    """Its arguments were checked against the schema of the old one."""
    async with tree() as root:
        first = Gate([])
        root.tools.register(first.tool)
        effect = root.tools.register(tool("bash", "old"))
        texts: list[str] = []

        async def call() -> None:
            texts.append((await root.tools.execute("bash", {}, scope=None)).text)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: root.tools.execute("slow", {}, scope=None))
            await first.entered.wait()
            tasks.start_soon(call)
            await anyio.wait_all_tasks_blocked()
            root.tools.replace(effect, tool("bash", "new"))
            first.opened.set()
        assert len(texts) == 1
        assert "was replaced before the call could run" in texts[0]


async def test_nothing_is_replaced_through_a_closed_door() -> None:
    """Law L4."""
    seen: list[str] = []

    @inject("tools")
    def plugin(ctx: Context) -> None:
        effect = ctx.tools.register(tool("bash"))

        def end() -> None:
            with pytest.raises(InactiveFiberError):
                ctx.tools.replace(effect, tool("bash", "new"))
            seen.append("refused")

        ctx.effect(lambda: end, label="end")

    async with tree() as root:
        fiber = await root.plugin(plugin)
        await fiber.dispose()
        assert seen == ["refused"]


async def test_a_veto_brings_nothing_back_that_was_taken_back_meanwhile() -> None:
    """A listener may undo the registration, or replace the tool once more, before it objects."""
    async with tree() as root:
        effect = root.tools.register(tool("bash", "old"))
        latest = tool("bash", "latest")
        doing: list[Callable[[], object]] = [lambda: root.tools.replace(effect, latest)]

        def object_to_it() -> None:
            if doing:
                doing.pop()()
                raise RuntimeError("not so")

        root.on(CHANGE, object_to_it)
        with pytest.raises(RuntimeError, match="not so"):
            root.tools.replace(effect, tool("bash", "new"))
        assert root.tools.get("bash", None) is latest
        doing.append(effect)
        with pytest.raises(RuntimeError, match="not so"):
            root.tools.replace(effect, tool("bash", "new"))
        assert await told(root) == []
