"""Pairs: a section and a tool of which an assembly has both or neither, whoever intervenes."""

from __future__ import annotations

from typing import Any

import pytest

from harness_core import Context, create_scope
from harness_core.errors import DuplicateRegistrationError
from harness_core.prompt import (
    AssembledSection,
    PromptAssembly,
    SystemPrompt,
    ToolProviderResult,
    ToolSchema,
    render_prompt,
)
from harness_core.testing import assert_no_residue

pytestmark = pytest.mark.asyncio


def shell(ctx: Context) -> None:
    """A plugin with a section and a tool, through which two others are called."""
    tools = [ToolSchema("run")]
    ctx.system_prompt.tools(
        lambda: ToolProviderResult(tools, ["run", "read", "write"], {"run": ["read", "write"]})
    )
    ctx.system_prompt.section("how", "How to run.", order=100, requires_tools=["run"])
    ctx.system_prompt.pair("how", "run")


shell.inject = ["system_prompt"]  # type: ignore[attr-defined]


async def tree(root: Context) -> SystemPrompt:
    """Mount a prompt, the pair, and guidance for what is called through its tool."""
    await root.plugin(SystemPrompt, include_harness_identity=False)
    await root.plugin(shell)
    prompt = root.system_prompt
    prompt.section("guidance", "Read first.", order=110, requires_tools=["read"])
    prompt.context("state", "Read only.", order=1, requires_tools=["run", "write"])
    prompt.section("rules", "Rules.", order=10)
    assert isinstance(prompt, SystemPrompt)
    return prompt


def shape(assembly: PromptAssembly) -> tuple[list[str], list[str], list[str]]:
    """Return the names of sections with a text, of contexts, and of tools."""
    sections = [one.name for one in assembly.sections if one.text]
    contexts = [one.name for one in assembly.contexts]
    return sections, contexts, [one.name for one in assembly.tools]


WHOLE = (["rules", "how", "guidance"], ["state"], ["run"])
GONE: tuple[list[str], list[str], list[str]] = (["rules"], [], [])


async def test_what_requires_a_tool_that_is_called_through_another_takes_part() -> None:
    """Although no schema of it is shown."""
    async with Context() as root:
        prompt = await tree(root)
        assembly = await prompt.assemble()
        assert shape(assembly) == WHOLE
        assert assembly.callable_tools == {"run", "read", "write"}
        statuses = {one.name: one.status for one in assembly.explain() if one.kind == "tool"}
        assert statuses == {"run": "included", "read": "indirect", "write": "indirect"}


def drop_tool(assembly: PromptAssembly) -> None:
    assembly.tools = [one for one in assembly.tools if one.name != "run"]


def drop_section(assembly: PromptAssembly) -> None:
    assembly.sections = [one for one in assembly.sections if one.name != "how"]


def empty_section(assembly: PromptAssembly) -> None:
    (section,) = [one for one in assembly.sections if one.name == "how"]
    section.text = ""


def forget_everything(assembly: PromptAssembly) -> None:
    assembly.sections.clear()
    assembly.sections.append(AssembledSection("rules", "Rules."))


@pytest.mark.parametrize("meddle", [drop_tool, drop_section, empty_section, forget_everything])
@pytest.mark.parametrize("late", [True, False])
async def test_a_listener_that_takes_one_part_takes_both_and_their_guidance(
    meddle: Any, late: bool
) -> None:
    """Whether it meddles before or after the others; and `explain` says what became of it."""
    async with Context() as root:
        prompt = await tree(root)

        @root.on("system-prompt/assemble", prepend=late)
        async def listener(assembly: PromptAssembly, context: Any, next: Any) -> PromptAssembly:
            if late:
                assembly = await next()
            meddle(assembly)
            return assembly if late else await next()

        assembly = await prompt.assemble()
        sections, contexts, tools = shape(assembly)
        assert (sections, contexts, tools) == GONE
        assert assembly.callable_tools == frozenset()
        explained = assembly.explain()
        unpaired = {(one.kind, one.name): one.reason for one in explained
                    if one.status == "unpaired"}  # fmt: skip
        if meddle is drop_tool:
            assert list(unpaired) == [("section", "how")]
            reason = unpaired["section", "how"]
            assert reason.startswith('its tool "run" is gone: dropped by test_a_listener')
        else:
            assert list(unpaired) == [("section", "how"), ("tool", "run")]
            assert unpaired["tool", "run"] == 'its section "how" is gone'
        statuses = {one.name: one.status for one in explained}
        if meddle is not forget_everything:
            assert statuses["guidance"] == statuses["state"] == "tool-hidden"
        assert statuses["read"] == "restricted"


async def test_an_edited_text_is_still_a_text() -> None:
    """Who changes words, or replaces the record, does not break the pair."""
    async with Context() as root:
        prompt = await tree(root)

        @root.on("system-prompt/assemble")
        async def shout(assembly: PromptAssembly, context: Any, next: Any) -> PromptAssembly:
            result: PromptAssembly = await next()
            result.sections = [AssembledSection(s.name, s.text.upper()) for s in result.sections]
            return result

        assert shape(await prompt.assemble()) == WHOLE


async def test_a_complete_section_takes_the_tool_too() -> None:
    """There is no text that says what the tool is for."""
    async with Context() as root:
        prompt = await tree(root)
        scope = create_scope(root, "agent")
        effect = scope.ctx.system_prompt.section("all", "All.", order=0, complete=True)
        assembly = await prompt.assemble(scope="agent")
        assert (render_prompt(assembly), assembly.tools, assembly.contexts) == ("All.", [], [])
        reasons = {one.kind: one.reason for one in assembly.explain() if one.status == "unpaired"}
        assert 'replaced by complete section "all"' in reasons["section"]
        assert shape(await prompt.assemble()) == WHOLE
        await effect()
        assert shape(await prompt.assemble(scope="agent")) == WHOLE


async def test_a_complete_section_that_requires_the_tool_stays_what_it_is() -> None:
    """It is the whole prompt, whatever becomes of the tools."""
    async with Context() as root:
        prompt = await tree(root)
        prompt.section("all", "All.", order=0, complete=True, requires_tools=["read"])
        assembly = await prompt.assemble()
        assert (render_prompt(assembly), assembly.tools) == ("All.", [])


async def test_somebody_elses_section_of_that_name_is_not_the_pairs() -> None:
    """A nearer one stands in front of it; a nearer pair is whole by itself."""
    async with Context() as root:
        prompt = await tree(root)
        scope = create_scope(root, "agent")
        effect = scope.ctx.system_prompt.section("how", "Otherwise.", order=100)
        assembly = await prompt.assemble(scope="agent")
        assert shape(assembly) == GONE
        (reason,) = [one.reason for one in assembly.explain() if one.name == "how"
                     and one.status == "unpaired"]  # fmt: skip
        assert "stands in front of" in reason

        @root.on("system-prompt/assemble")
        async def look(assembly: PromptAssembly, context: Any, next: Any) -> PromptAssembly:
            assert assembly.sections
            result: PromptAssembly = await next()
            return result

        assert shape(await prompt.assemble(scope="agent")) == GONE
        second = scope.ctx.system_prompt.pair("how", "run")
        assert shape(await prompt.assemble(scope="agent"))[0] == WHOLE[0]
        with pytest.raises(DuplicateRegistrationError, match="pair"):
            scope.ctx.system_prompt.pair("how", "run")
        await second()
        await effect()


async def test_a_pair_goes_with_its_plugin_and_where_there_is_neither_there_is_no_fault() -> None:
    """A registration like every other."""
    async with Context() as root:
        await root.plugin(SystemPrompt, include_harness_identity=False)
        changes: list[int] = []
        root.on("system-prompt/change", lambda: changes.append(1))
        async with assert_no_residue(root):
            effect = root.system_prompt.pair("how", "run")
            assembly = await root.system_prompt.assemble()
            assert shape(assembly) == ([], [], [])
            assert not [one for one in assembly.explain() if one.status == "unpaired"]
            await effect()
        assert len(changes) == 2
