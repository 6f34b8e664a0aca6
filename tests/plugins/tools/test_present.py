"""How tools are presented: as they are, as code, or both; per scope, the nearest says how."""

from __future__ import annotations

from typing import Any

import anyio
import attrs
import pytest
from harness_plugins.tools.api import (
    EXECUTE,
    PRE_EXECUTE,
    DuplicatePresentationError,
    PresentationError,
    Tool,
    ToolCall,
    ToolDecision,
    ToolResult,
    Tools,
    identifier,
    python_names,
)

from harness_core import Context, create_scope
from harness_core.errors import PluginError
from harness_core.prompt import SystemPrompt, render_prompt
from harness_core.testing import assert_no_residue

from .tree import EMPTY, plugin_of, told, tool, tree

pytestmark = pytest.mark.asyncio

RUN: dict[str, Any] = {
    "type": "object",
    "properties": {"tool": {"type": "string"}},
    "required": ["tool"],
}


def runner(name: str = "run_code") -> tuple[Tool, list[Context]]:
    """Return a tool that runs the simplest code: one call. The list takes what it calls through."""
    home: list[Context] = []

    async def run(arguments: dict[str, str], call: ToolCall) -> ToolResult:
        tools = home[0].tools
        result: ToolResult = await tools.execute(arguments["tool"], {}, scope=call.scope, via=call)
        return attrs.evolve(result, text=f"<{result.text}>")

    return Tool(name, "Run.", RUN, run=run, runs_code=True), home


def with_runner(root: Context, *names: str) -> Any:
    """Register tools in the global layer, and one that runs code; return its effect."""
    for name in names:
        root.tools.register(tool(name, f"{name} ran"))
    one, home = runner()
    home.append(root)
    return root.tools.register(one)


async def call(root: Context, name: str, scope: object | None = None, **kw: Any) -> ToolResult:
    result: ToolResult = await root.tools.execute(name, kw, scope=scope)
    return result


async def run(root: Context, name: str, scope: object | None = None) -> ToolResult:
    """Have code call a tool."""
    return await call(root, "run_code", scope, tool=name)


async def test_native_is_what_is_where_nobody_says_anything() -> None:
    """A tool that runs code is neither shown nor found there."""
    async with tree() as root:
        with_runner(root, "bash")
        for how in (None, "native"):
            effect = root.tools.present_as(how) if how else None
            assert await told(root) == ["bash"]
            assert (await call(root, "bash")).text == "bash ran"
            unknown = await run(root, "bash")
            assert unknown.text == 'unknown tool "run_code"; available tools: bash'
            assert root.tools.in_code(None) == {}
            assert root.tools.get("run_code", None) is None
            assert root.tools.presentation(None).mode == "native"
            assert root.tools.presentation(None).runner is None
            assert (root.tools.presentation(None).origin is None) == (how is None)
            why = root.tools.why_visible("run_code", None)
            assert (why.is_visible, why.hidden_by) == (False, ())
            assert 'tools are presented as "native"' in str(why)
            if effect is not None:
                await effect()


async def test_code_shows_one_tool_and_calls_the_others_through_it() -> None:
    """A direct call is refused with the way to do it; and nothing of the rest is less strict."""
    async with tree() as root:
        with_runner(root, "bash", "git-log")
        root.tools.present_as("code")
        assert await told(root) == ["run_code"]
        refused = await call(root, "bash")
        assert refused.status == "denied"
        assert refused.text == (
            'tool "bash" is not called directly here: call "run_code", with code that does '
            "`await bash(...)`"
        )
        assert "`await git_log(...)`" in (await call(root, "git-log")).text
        assert (await run(root, "bash")).text == "<bash ran>"
        unknown = await run(root, "run_code")
        assert unknown.text == '<unknown tool "run_code"; available tools: bash, git-log>'
        assert (await call(root, "nobody")).text == (
            'unknown tool "nobody"; available tools: run_code'
        )
        assert list(root.tools.visible(None)) == ["bash", "git-log", "run_code"]
        assert list(root.tools.in_code(None)) == ["bash", "git-log"]
        assert [one.name for one in root.tools.schemas(None)] == ["run_code"]
        why = root.tools.why_visible("bash", None)
        assert (why.is_visible, why.through, why.presentation.mode) == (True, "run_code", "code")
        assert 'it is called through "run_code": tools are presented as "code" by plugin' in str(
            why
        )
        assert root.tools.why_visible("run_code", None).through is None


async def test_both_shows_all_and_allows_all() -> None:
    """The model chooses."""
    async with tree() as root:
        with_runner(root, "bash")
        effect = root.tools.present_as("both")
        assert await told(root) == ["bash", "run_code"]
        assert (await call(root, "bash")).text == "bash ran"
        assert (await run(root, "bash")).text == "<bash ran>"
        assert root.tools.why_visible("bash", None).through is None
        await effect()
        assert await told(root) == ["bash"]


async def test_the_nearest_scope_wins_and_undoing_it_shows_the_next() -> None:
    """Down the chain, as for tools."""
    async with tree() as root:
        with_runner(root, "bash")
        outer = create_scope(root, "outer")
        create_scope(root, "inner", parent="outer")
        inner = outer.ctx.tools.present_as("code")
        own = root.tools.present_as("both")
        assert await told(root, "inner") == await told(root, "outer") == ["run_code"]
        assert await told(root) == ["bash", "run_code"]
        assert root.tools.presentation("inner").origin.scope == "outer"
        await inner()
        assert await told(root, "inner") == ["bash", "run_code"]
        await own()
        assert await told(root, "inner") == ["bash"]


async def test_a_second_presentation_at_one_level_is_refused_naming_both_plugins() -> None:
    """Whatever it says; one at another level is none of its business."""

    def plugin(name: str, mode: str) -> Any:
        class Presents:
            inject = ("tools",)

            def apply(self, ctx: Context) -> None:
                ctx.tools.present_as(mode)

        presents = Presents()
        vars(presents)["name"] = name
        return presents

    async with tree() as root:
        with_runner(root)
        first = await root.plugin(plugin("first", "code"))
        with pytest.raises(
            DuplicatePresentationError, match='"code" is already registered'
        ) as info:
            await root.plugin(plugin("second", "both"))
        assert (info.value.plugin, info.value.holder) == ("second", "first")
        assert "test_present.py:" in str(info.value)
        create_scope(root, "agent").ctx.tools.present_as("both")
        await first.dispose()
        await root.plugin(plugin("third", "code"))
        for wrong in ("coded", None, ["code"]):
            with pytest.raises(PluginError, match="present_as takes"):
                root.tools.present_as(wrong)
        with pytest.raises(PluginError, match='did you mean "code"'):
            root.tools.present_as("coed")


async def test_code_without_a_tool_that_runs_it_is_an_error_and_no_silent_hole() -> None:
    """At the assembly, naming who asked; direct calls stay as they were announced."""
    async with tree() as root:
        root.tools.register(tool("bash", "bash ran"))
        scope = create_scope(root, "agent")
        for mode, status in (("code", "unknown"), ("both", "ok")):
            effect = scope.ctx.tools.present_as(mode)
            with pytest.raises(PresentationError, match='mount the plugin "code_mode"') as info:
                await root.system_prompt.assemble(scope="agent")
            assert f'tools are presented as "{mode}" by plugin "root" at ' in str(info.value)
            assert "for scope 'agent', but no tool" in str(info.value)
            assert (info.value.mode, info.value.scope) == (mode, "agent")
            with pytest.raises(PresentationError):
                root.tools.schemas("agent")
            assert (await call(root, "bash", "agent")).status == status
            await effect()
        assert "no tool runs code there" not in str(root.tools.why_visible("bash", "agent"))
        scope.ctx.tools.present_as("code")
        assert "no tool runs code there" in str(root.tools.why_visible("bash", "agent"))
        with_runner(root)
        assert await told(root, "agent") == ["run_code"]


async def test_restrictions_hold_in_code_and_an_allow_list_is_about_tools_not_about_code() -> None:
    """`allow` names what code may call; `deny` bars the tool that runs it."""
    async with tree() as root:
        with_runner(root, "bash", "grep")
        root.tools.present_as("code")
        scope = create_scope(root, "agent")
        effect = scope.ctx.tools.restrict(allow=["grep"])
        assert await told(root, "agent") == ["run_code"]
        assert list(root.tools.in_code("agent")) == ["grep"]
        assert (await run(root, "bash", "agent")).text == (
            '<unknown tool "bash"; available tools: grep>'
        )
        assert (await call(root, "bash", "agent")).status == "unknown"
        assert (await call(root, "grep", "agent")).status == "denied"
        await effect()
        effect = scope.ctx.tools.restrict(deny=["run_code"])
        with pytest.raises(PresentationError):
            await told(root, "agent")
        assert "deny run_code" in str(root.tools.why_visible("run_code", "agent"))


async def test_guidance_stays_for_what_can_be_called_through_code() -> None:
    """`requires_tools` asks the same question as the signatures do."""
    async with tree() as root:
        with_runner(root, "bash", "grep")
        for name in ("bash", "grep", "run_code"):
            root.system_prompt.section(name, f"<{name}>", order=110, requires_tools=[name])
        scope = create_scope(root, "agent")
        scope.ctx.tools.restrict(deny=["grep"])

        async def guidance() -> str:
            return render_prompt(await root.system_prompt.assemble(scope="agent"))

        assert await guidance() == "<bash>"
        effect = scope.ctx.tools.present_as("code")
        assert await guidance() == "<bash>\n\n<run_code>"
        explained = (await root.system_prompt.assemble(scope="agent")).explain()
        statuses = {one.name: one.status for one in explained if one.kind == "tool"}
        assert statuses == {"run_code": "included", "bash": "indirect", "grep": "restricted"}
        await effect()
        scope.ctx.tools.present_as("both")
        assert await guidance() == "<bash>\n\n<run_code>"


async def test_listeners_see_which_code_makes_a_call_and_decide_about_it_as_about_any() -> None:
    """`call.via` is the call of the tool that runs it."""
    async with tree() as root:
        with_runner(root, "bash")
        root.tools.present_as("code")
        seen: list[tuple[str, str | None]] = []

        @root.on(PRE_EXECUTE)
        def guard(one: ToolCall) -> ToolDecision | None:
            seen.append((one.name, one.via.call_id if one.via else None))
            return ToolDecision.deny("not now") if one.name == "bash" else None

        result = await root.tools.execute("run_code", {"tool": "bash"}, scope=None, call_id="c7")
        assert result.text == '<the call of tool "bash" was denied: not now>'
        assert seen == [("run_code", None), ("bash", "c7")]


async def test_only_the_running_tool_of_the_scope_calls_in_the_name_of_code() -> None:
    """Code whose tool was replaced, or whose presentation was taken back, calls nothing more."""
    async with tree() as root:
        effect = with_runner(root, "bash")
        presentation = root.tools.present_as("code")
        mine = ToolCall("run_code", {}, None, None, root.tools.get("run_code", None))

        async def via(given: ToolCall) -> str:
            result = await root.tools.execute("bash", {}, scope=None, via=given)
            return str(result.text)

        assert await via(mine) == "bash ran"
        assert "unknown tool" in await via(ToolCall("run_code", {}))
        assert "unknown tool" in await via(attrs.evolve(mine, tool=tool("run_code")))
        await presentation()
        assert "unknown tool" in await via(mine)
        root.tools.present_as("code")
        await effect()
        with_runner(root)
        assert "unknown tool" in await via(mine)


async def test_the_nearest_tool_that_runs_code_does_and_a_tool_of_its_name_takes_its_place() -> (
    None
):
    """One runs code in a scope; the others are not there."""
    async with tree() as root:
        with_runner(root, "bash")
        root.tools.present_as("both")
        scope = create_scope(root, "agent")
        other, home = runner("run_here")
        home.append(root)
        effect = scope.ctx.tools.register(other)
        assert await told(root, "agent") == ["bash", "run_here"]
        assert (await call(root, "run_here", "agent", tool="bash")).text == "<bash ran>"
        assert "hidden" in str(root.tools.why_visible("run_code", "agent"))
        await effect()
        root.tools.register(other)
        mine, home = runner()
        home.append(root)
        effect = scope.ctx.tools.register(mine)
        assert await told(root) == ["bash", "run_here"]
        assert await told(root, "agent") == ["bash", "run_code"]
        await effect()
        scope.ctx.tools.register(tool("run_here"))
        scope.ctx.tools.register(tool("run_code", "mine"))
        with pytest.raises(PresentationError):
            await told(root, "agent")


async def test_what_an_assembly_was_told_is_what_its_texts_are_about() -> None:
    """Law L7: a tool that comes while an assembly waits is in both or in neither."""
    async with tree() as root:
        with_runner(root, "bash")
        root.tools.present_as("code")
        entered, opened = anyio.Event(), anyio.Event()
        names: list[list[str]] = []

        @root.system_prompt.variable("slow")
        async def slow() -> str:
            entered.set()
            await opened.wait()
            return ""

        @root.system_prompt.section("text", order=1)
        def text(context: Any) -> str:
            names.append(list(root.tools.in_code(context)))
            return ""

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(root.system_prompt.assemble)
            await entered.wait()
            root.tools.register(tool("late"))
            opened.set()
        await root.system_prompt.assemble()
        assert names == [["bash"], ["bash", "late"]]


async def test_a_presentation_leaves_nothing_and_each_is_one_change() -> None:
    """Laws L1 and L2; refused ones are none."""
    async with tree() as root:
        with_runner(root, "bash")
        changes: list[int] = []
        root.on("system-prompt/change", lambda: changes.append(1))
        async with assert_no_residue(root):
            scope = create_scope(root, "agent")
            effect = scope.ctx.tools.present_as("code")
            (info,) = [one for one in scope.ctx.fiber.effects() if "presentation" in one.label]
            assert info.file == __file__
            with pytest.raises(DuplicatePresentationError):
                scope.ctx.tools.present_as("code")
            await effect()
            scope.ctx.tools.present_as("both")
            await scope.dispose()
            assert await told(root, "agent") == ["bash"]
        assert len(changes) == 4


async def test_a_restart_of_the_service_finds_the_presentations_of_others() -> None:
    """They are theirs."""
    async with Context() as root:
        await root.plugin(SystemPrompt, include_harness_identity=False)
        service = await root.plugin(Tools)
        with_runner(root, "bash")
        root.tools.present_as("code")
        await service.restart()
        assert await told(root) == ["run_code"]


@attrs.frozen
class Found:
    lines: list[int]


@pytest.mark.parametrize(
    ("returned", "data"),
    [
        ("text", "text"),
        (None, None),
        ({"a": [1, 2.5, None]}, {"a": [1, 2.5, None]}),
        (Found([1]), {"lines": [1]}),
        (ToolResult("only text"), "only text"),
        (ToolResult("", value=object()), ""),
        (ToolResult("other words", value={"a": 1}), {"a": 1}),
        (7, 7),
    ],
)  # fmt: skip
async def test_code_gets_the_value_as_json_data(returned: object, data: object) -> None:
    """The text where there is no value that says the same."""
    async with tree() as root:
        root.tools.register(tool("t", returned))
        assert (await call(root, "t")).data == data


async def test_code_gets_a_cut_result_whole_and_a_changed_one_as_it_was_changed() -> None:
    """What a listener took out of the text is not in the data either."""
    async with tree(max_output=200) as root:
        root.tools.register(tool("long", list(range(1000))))
        root.tools.register(tool("text", ToolResult("x" * 1000)))
        result = await call(root, "long")
        assert result.dropped
        assert result.data == list(range(1000))
        assert (await call(root, "text")).data == "x" * 1000

        @root.on(EXECUTE)
        async def censor(_: ToolCall, next: Any) -> ToolResult:
            return attrs.evolve(await next(), text="[hidden]" + "x" * 500)

        result = await call(root, "long")
        assert result.dropped
        assert result.data == result.text


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["read", "git-log"], ["read", "git_log"]),
        (["a-b", "a.b", "a_b"], ["a_b_2", "a_b_3", "a_b"]),
        (["class", "print", "asyncio"], ["class_", "print_", "asyncio_"]),
        (["ToolError", "__builtins__"], ["ToolError_", "__builtins___"]),
        (["class", "class_"], ["class__2", "class_"]),
        (["7zip", "*", "日本", "a b"], ["_7zip", "_", "日本", "a_b"]),
        (["ﬁle", "file"], ["file_2", "file"]),
    ],
)  # fmt: skip
async def test_every_tool_has_a_python_name_of_its_own(
    names: list[str], expected: list[str]
) -> None:
    """A name that is one keeps it, whatever else there is."""
    made = python_names(names)
    assert list(made.values()) == expected
    assert all(one.isidentifier() for one in made.values())
    assert identifier("git-log") == "git_log"


async def test_a_presentation_from_a_plugin_dies_with_it() -> None:
    """And the tools of other plugins are shown as before."""
    async with tree() as root:
        with_runner(root)
        await root.plugin(plugin_of("shell", Tool("bash", "", EMPTY, run=lambda _: "")))

        def presents(ctx: Context) -> None:
            ctx.tools.present_as("code")

        presents.inject = ["tools"]  # type: ignore[attr-defined]
        fiber = await root.plugin(presents)
        assert await told(root) == ["run_code"]
        await fiber.dispose()
        assert await told(root) == ["bash"]
