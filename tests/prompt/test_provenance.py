"""Every part knows whose it is; what is absent is explained; two assemblies can be compared."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio.lowlevel
import attrs
import pytest

from harness_core import Context, create_scope, inject
from harness_core.prompt import (
    AssembledContext,
    AssembledSection,
    Explained,
    Origin,
    PromptAssembly,
    ToolProviderResult,
    ToolSchema,
    diff_assemblies,
    render_request,
)

from .tree import Key, live

pytestmark = pytest.mark.asyncio

Next = Callable[[], Awaitable[PromptAssembly]]
ASSEMBLE = "system-prompt/assemble"


def contributor(ctx: Context) -> None:
    """Contribute one of each; the line numbers are counted from here."""
    sp = ctx.system_prompt
    sp.section("s", lambda: "s", order=3)
    sp.context("c", "c", order=4.5)
    sp.variable("v", "v")
    sp.tools(lambda: [ToolSchema("t")])


contributor.inject = ["system_prompt"]  # type: ignore[attr-defined]
LINE = contributor.__code__.co_firstlineno


async def test_every_part_knows_its_origin() -> None:
    """Plugin, fiber path, scope, order, file and line; exactly."""
    async with live() as (root, sp):
        key = Key()
        scope = create_scope(root, key)
        fiber = scope.ctx.plugin(contributor)
        assembly = await sp.assemble(scope=key)
        parts = {
            "section": (assembly.sections[-1].origin, "s", 3, LINE + 3),
            "context": (assembly.contexts[0].origin, "c", 4.5, LINE + 4),
            "variable": (assembly.variable_origins["v"], "v", None, LINE + 5),
        }
        for kind, (origin, name, order, line) in parts.items():
            assert origin is not None
            assert (origin.kind, origin.name, origin.order) == (kind, name, order)
            assert (origin.plugin, origin.fiber, origin.scope) == ("contributor", fiber.path, key)
            assert (origin.file, origin.line) == (__file__, line)
            assert origin.shadows == ()
        tool = assembly.tools[0].origin
        assert tool is not None
        assert (tool.plugin, tool.fiber, tool.scope) == ("contributor", fiber.path, key)
        assert (tool.file, tool.line) == (__file__, LINE + 6)


async def test_the_line_of_a_call_over_several_lines_and_of_a_decorator() -> None:
    """Where the call was made, not where it is defined."""
    async with live() as (_, sp):
        sp.section(
            "s",
            "text",
            order=1,
        )

        @sp.section("d", order=2)
        def provide() -> str:
            return "d"

        here = test_the_line_of_a_call_over_several_lines_and_of_a_decorator.__code__
        first, second = ((await sp.assemble()).sections)[1:]
        assert first.origin is not None
        assert second.origin is not None
        assert first.origin.file == second.origin.file == here.co_filename
        assert first.origin.line in range(here.co_firstlineno + 3, here.co_firstlineno + 8)
        assert second.origin.line in range(
            provide.__code__.co_firstlineno, provide.__code__.co_firstlineno + 2
        )


async def test_an_origin_is_a_frozen_record_that_reads_well() -> None:
    """Data, and a line of text."""
    async with live() as (_, sp):
        sp.section("s", "x", order=1)
        origin = (await sp.assemble()).sections[-1].origin
        assert isinstance(origin, Origin)
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            origin.plugin = "other"  # type: ignore[misc]
        assert str(origin) == f'plugin "root" at {__file__}:{origin.line}'


async def test_an_origin_tells_what_it_shadows_nearest_first() -> None:
    """Over the whole chain."""
    async with live() as (root, sp):
        parent, child = Key("parent"), Key("child")
        sp.section("s", "g", order=1)
        create_scope(root, parent).ctx.system_prompt.section("s", "p", order=2)
        create_scope(root, child, parent=parent).ctx.system_prompt.section("s", "c", order=3)
        origin = (await sp.assemble(scope=child)).sections[-1].origin
        assert origin is not None
        assert [(one.scope, one.order) for one in origin.shadows] == [(parent, 2), (None, 1)]
        outer = (await sp.assemble(scope=parent)).sections[-1].origin
        assert outer is not None
        assert [one.scope for one in outer.shadows] == [None]


async def test_an_origin_tells_how_long_its_provider_took() -> None:
    """Seconds for providers, sync and async; None where there is none."""

    async def slow() -> str:
        await anyio.sleep(0.02)
        return "x"

    async with live() as (_, sp):
        sp.section("fixed", "x", order=1)
        sp.section("sync", lambda: "x", order=2)
        sp.section("async", slow, order=3)
        sp.variable("v", slow)
        assembly = await sp.assemble()
        fixed, quick, waited = (one.origin for one in assembly.sections[1:])
        assert fixed is not None
        assert fixed.seconds is None
        assert quick is not None
        assert quick.seconds is not None
        assert waited is not None
        assert waited.seconds is not None
        assert waited.seconds >= 0.015
        assert 0 <= quick.seconds < waited.seconds
        assert (assembly.variable_origins["v"].seconds or 0) >= 0.015


async def test_origins_take_no_part_in_equality() -> None:
    """Parts equal by what they are, whoever made them."""
    async with live() as (_, sp):
        sp.section("s", "x", order=1)
        sp.context("c", "x", order=1, literal=True)
        sp.tools(lambda: [ToolSchema("t")])
        assembly = await sp.assemble()
        assert assembly.sections[-1] == AssembledSection("s", "x")
        assert assembly.contexts == [AssembledContext("c", "x", literal=True)]
        assert assembly.tools == [ToolSchema("t")]
        assert AssembledSection("s", "x") != AssembledSection("s", "x", literal=True)
        assert AssembledSection("s", "x") != AssembledContext("s", "x")


async def test_what_a_listener_adds_has_no_origin() -> None:
    """And what it keeps, keeps its own."""

    async def listen(assembly: PromptAssembly, context: object, next: Next) -> object:
        assembly.sections.append(AssembledSection("added", "x"))
        assembly.sections[1].text = "changed"
        return await next()

    async with live() as (root, sp):
        sp.section("s", "x", order=1)
        root.on(ASSEMBLE, listen)
        _, kept, added = (await sp.assemble()).sections
        assert kept.origin is not None
        assert kept.origin.plugin == "root"
        assert added.origin is None


def found(assembly: PromptAssembly, kind: str, name: str) -> Explained:
    """Return the one explanation of a part."""
    (one,) = [one for one in assembly.explain() if (one.kind, one.name) == (kind, name)]
    return one


async def test_explain_lists_what_is_there_in_order() -> None:
    """Sections, contexts, variables, tools, each with its origin."""
    async with live(persona="P") as (root, sp):
        root.plugin(contributor)
        explained = (await sp.assemble()).explain()
        assert [(one.kind, one.name, one.status) for one in explained] == [
            ("section", "deployment:persona", "included"),
            ("section", "s", "included"),
            ("context", "c", "included"),
            ("variable", "v", "included"),
            ("tool", "t", "included"),
        ]
        assert [one.origin.plugin for one in explained if one.origin][1:] == ["contributor"] * 4
        assert all(one.is_present for one in explained)


@pytest.mark.parametrize("kind", ["section", "context", "variable"])
async def test_explain_shadowed(kind: str) -> None:
    """By whom, in which scope; and that it was not evaluated."""
    async with live() as (root, sp):
        key = Key("agent-1")
        options = {} if kind == "variable" else {"order": 1}
        getattr(sp, kind)("x", "global", **options)

        def shadow(ctx: Context) -> None:
            getattr(ctx.system_prompt, kind)("x", "mine", **options)

        shadow.inject = ["system_prompt"]  # type: ignore[attr-defined]
        create_scope(root, key).ctx.plugin(shadow)
        assembly = await sp.assemble(scope=key)
        near, far = [one for one in assembly.explain() if (one.kind, one.name) == (kind, "x")]
        assert near.status == "included"
        assert far.status == "shadowed"
        assert not far.is_present
        assert 'plugin "shadow"' in far.reason
        assert "<agent-1>" in far.reason
        assert far.origin is not None
        assert far.origin.plugin == "root"


async def test_explain_suppressed() -> None:
    """By which plugin and scope; its provider was not called."""

    def quiet(ctx: Context) -> None:
        ctx.system_prompt.suppress_runtime_context("c")

    quiet.inject = ["system_prompt"]  # type: ignore[attr-defined]
    async with live() as (root, sp):
        key = Key("agent-1")
        sp.context("c", "x", order=1)
        create_scope(root, key).ctx.plugin(quiet)
        one = found(await sp.assemble(scope=key), "context", "c")
        assert (one.status, one.is_present) == ("suppressed", False)
        assert 'plugin "quiet"' in one.reason
        assert "<agent-1>" in one.reason
        assert "not called" in one.reason


async def test_explain_empty_and_without_a_value() -> None:
    """They are there, and say why nothing is seen of them."""
    async with live() as (_, sp):
        sp.section("s", lambda: None, order=1)
        sp.variable("v", lambda: None)
        assembly = await sp.assemble()
        assert found(assembly, "section", "s").status == "empty"
        assert found(assembly, "variable", "v").status == "no-value"


async def test_explain_tool_hidden() -> None:
    """Which tools it requires and does not see."""
    async with live() as (_, sp):
        sp.section("s", "x", order=1, requires_tools=("bash", "read"))
        sp.tools(lambda: [ToolSchema("read")])
        one = found(await sp.assemble(), "section", "s")
        assert (one.status, one.is_present) == ("tool-hidden", False)
        assert "bash" in one.reason
        assert "read" not in one.reason


async def test_explain_failed() -> None:
    """With the error."""

    def fail() -> str:
        raise LookupError("planned")

    async with live() as (_, sp):
        sp.context("c", fail, order=1, optional=True)
        one = found(await sp.assemble(), "context", "c")
        assert (one.status, one.reason, one.is_present) == ("failed", "LookupError: planned", False)
        assert one.origin is not None


async def test_explain_what_listeners_did() -> None:
    """Dropped, changed and added, each by the listener that did it, on the way in or out."""

    async def dropper(assembly: PromptAssembly, context: object, next: Next) -> object:
        assembly.sections = [one for one in assembly.sections if one.name != "dropped"]
        return await next()

    async def changer(assembly: PromptAssembly, context: object, next: Next) -> object:
        result = await next()
        result.sections[1].text = "changed"
        result.variables["v"] = "changed"
        result.tools[0] = attrs.evolve(result.tools[0], description="changed")
        result.contexts.clear()
        return result

    async def adder(assembly: PromptAssembly, context: object, next: Next) -> object:
        assembly.sections.append(AssembledSection("added", "x"))
        assembly.variables["w"] = "x"
        assembly.tools.append(ToolSchema("u"))
        return await next()

    def plugin(ctx: Context) -> None:
        for listener in (dropper, changer, adder):
            ctx.on(ASSEMBLE, listener)

    async with live() as (root, sp):
        sp.section("changed", "x", order=1)
        sp.section("dropped", "x", order=2)
        sp.section("kept", "x", order=3)
        sp.context("c", "x", order=1)
        sp.variable("v", "x")
        sp.tools(lambda: [ToolSchema("t")])
        root.plugin(plugin)
        assembly = await sp.assemble()
        for kind, name, status, listener in (
            ("section", "changed", "changed", "changer"),
            ("section", "dropped", "dropped", "dropper"),
            ("section", "added", "added", "adder"),
            ("context", "c", "dropped", "changer"),
            ("variable", "v", "changed", "changer"),
            ("variable", "w", "added", "adder"),
            ("tool", "t", "changed", "changer"),
            ("tool", "u", "added", "adder"),
        ):
            one = found(assembly, kind, name)
            assert (one.status, one.is_present) == (status, status != "dropped"), one
            assert f".{listener} of plugin" in one.reason, one
            assert 'plugin "plugin"' in one.reason
        assert found(assembly, "section", "kept").status == "included"


async def test_explain_replaced_by_a_complete_section() -> None:
    """What else was there, and which section took its place."""
    async with live() as (_, sp):
        sp.section("all", "x", order=1, complete=True)
        sp.section("other", "x", order=2)
        assembly = await sp.assemble()
        assert found(assembly, "section", "all").status == "included"
        other = found(assembly, "section", "other")
        assert other.status.startswith("replaced")
        assert not other.is_present
        assert '"all"' in other.reason


async def test_explain_a_restricted_tool() -> None:
    """A provider knows it and does not show it here."""
    async with live() as (_, sp):
        sp.tools(lambda: ToolProviderResult([ToolSchema("read")], known_names=["read", "bash"]))
        one = found(await sp.assemble(), "tool", "bash")
        assert not one.is_present
        assert one.origin is not None


async def test_explain_belongs_to_its_own_assembly() -> None:
    """It tells the same after the registry has changed, and after other assemblies."""
    hidden = ["bash"]
    async with live() as (_, sp):
        sp.tools(
            lambda: ToolProviderResult(
                [ToolSchema(name) for name in ("bash", "read") if name not in hidden],
                known_names=["bash", "read"],
            )
        )
        effect = sp.section("s", "x", order=1)
        assembly = await sp.assemble()
        before = [(one.kind, one.name, one.status) for one in assembly.explain()]
        await effect()
        hidden[:] = ["read"]
        await sp.assemble()
        assert [(one.kind, one.name, one.status) for one in assembly.explain()] == before


async def test_an_assembly_made_by_hand_explains_itself() -> None:
    """What is there is included; there is nothing else to say."""
    assembly = PromptAssembly(
        sections=[AssembledSection("s", "x")],
        variables={"v": "x"},
        tools=[ToolSchema("t")],
    )
    assert [(one.kind, one.name, one.status) for one in assembly.explain()] == [
        ("section", "s", "included"),
        ("variable", "v", "included"),
        ("tool", "t", "included"),
    ]


async def test_diff_says_what_changed_and_who_changed_it() -> None:
    """Added, removed, changed and moved; with the origin of the part."""
    current = {"s": "one", "v": "one", "d": "one"}

    def plugin(ctx: Context) -> None:
        ctx.system_prompt.section("s", lambda: current["s"], order=1)
        ctx.system_prompt.variable("v", lambda: current["v"])
        ctx.system_prompt.tools(lambda: [ToolSchema("t", current["d"])])

    plugin.inject = ["system_prompt"]  # type: ignore[attr-defined]
    async with live() as (root, sp):
        root.plugin(plugin)
        gone = sp.section("gone", "x", order=2)
        before = await sp.assemble()
        assert not diff_assemblies(before, await sp.assemble())
        current.update(s="two", v="two", d="two")
        await gone()
        sp.section("new", "x", order=3)
        after = await sp.assemble()
        diff = diff_assemblies(before, after)
        assert diff
        assert {(one.kind, one.name, one.change) for one in diff.changes} == {
            ("section", "s", "changed"),
            ("section", "gone", "removed"),
            ("section", "new", "added"),
            ("variable", "v", "changed"),
            ("tool", "t", "changed"),
        }
        by = {one.name: one for one in diff.changes}
        assert by["s"].origin is not None
        assert by["s"].origin.plugin == "plugin"
        assert by["gone"].origin is not None
        assert by["gone"].origin.plugin == "root"
        assert by["t"].detail == "description"


async def test_diff_counts_the_characters_a_prompt_cache_can_reuse() -> None:
    """The leading characters of the rendered request that stayed the same."""
    clock = ["10:00:01"]
    async with live() as (_, sp):
        sp.section("a", "stable text", order=1)
        sp.section("b", lambda: clock[0], order=2)
        sp.section("c", "after", order=3)
        before = await sp.assemble()
        clock[0] = "10:00:02"
        after = await sp.assemble()
        diff = diff_assemblies(before, after)
        assert diff.same_prefix == len("stable text\n\n10:00:0")
        assert diff.after_length == len(render_request(after))
        assert 0 < diff.reusable < 1


async def test_diff_of_a_context_leaves_the_system_prompt_reusable() -> None:
    """Volatile text belongs at the end."""
    clock = ["1"]
    async with live() as (_, sp):
        sp.section("a", "stable", order=1)
        sp.context("now", lambda: clock[0], order=1)
        before = await sp.assemble()
        clock[0] = "2"
        after = await sp.assemble()
        diff = diff_assemblies(before, after)
        assert [(one.kind, one.name) for one in diff.changes] == [("context", "now")]
        assert diff.same_prefix == len(render_request(after)) - 1


async def test_diff_sees_moves() -> None:
    """Same parts, another order."""
    one, two = AssembledSection("one", "1"), AssembledSection("two", "2")
    diff = diff_assemblies(PromptAssembly([one, two]), PromptAssembly([two, one]))
    assert {(change.name, change.change) for change in diff.changes} == {
        ("one", "moved"),
        ("two", "moved"),
    }


async def test_a_difference_that_a_listener_made_names_the_listener() -> None:
    """And not the owner of the section, who has changed nothing."""
    async with live() as (root, _):
        turn = [0]

        @inject("system_prompt")
        def owner(ctx: Context) -> None:
            ctx.system_prompt.section("rules", "x", order=1)
            ctx.system_prompt.section("other", lambda: f"y {turn[0]}", order=2)

        def memory(ctx: Context) -> None:
            async def remember(
                assembly: PromptAssembly, context: object, next: Next
            ) -> PromptAssembly:
                turn[0] += 1
                assembly.sections[1].text += f" {turn[0]}"  # behind the empty persona
                assembly.sections.append(AssembledSection("added", str(turn[0])))
                if turn[0] > 1:
                    assembly.variables["gone"] = "2"
                return await next()

            ctx.on("system-prompt/assemble", remember)

        await root.plugin(owner)
        await root.plugin(memory)
        before = await root.system_prompt.assemble()
        diff = diff_assemblies(before, await root.system_prompt.assemble())
        said = {one.name: str(one) for one in diff.changes}
        for name in ("rules", "added", "gone"):
            assert 'remember of plugin "memory" at ' in said[name], said
            assert '"owner"' not in said[name]
        assert said["other"].endswith('by plugin "owner"')
