"""The order of work in one assembly, complete sections, listeners, suppression and signals."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import attrs
import pytest

from harness_core import create_scope
from harness_core.errors import (
    AssemblyCancelled,
    ContributionError,
    MultipleCompleteSectionsError,
    PluginError,
    ToolOrderError,
)
from harness_core.prompt import (
    TOOL_ORDER_REST,
    AssembleContext,
    AssembledContext,
    AssembledSection,
    PromptAssembly,
    ToolSchema,
    render_prompt,
)

from .tree import Key, live, names, texts

pytestmark = pytest.mark.asyncio

Next = Callable[[], Awaitable[PromptAssembly]]
ASSEMBLE = "system-prompt/assemble"


async def test_variables_and_tools_then_texts_then_listeners_then_restoration() -> None:
    """Each phase sees the one before, and the journal proves it."""
    journal: list[str] = []

    def write(line: str, result: Any) -> Callable[[], Any]:
        return lambda: journal.append(line) or result

    async def listen(assembly: PromptAssembly, context: AssembleContext, next: Next) -> object:
        journal.append(f"listener sees {names(assembly.sections)}")
        return await next()

    async with live() as (root, sp):
        root.on(ASSEMBLE, listen)
        sp.context("c", write("context", "c"), order=1)
        sp.section("s", write("section", "s"), order=1)
        sp.tools(write("tools", []))
        sp.variable("v", write("variable", "v"))
        await sp.assemble()
        assert journal == ["variable", "tools", "section", "context", "listener sees ['s']"]


async def test_two_complete_sections_fail_before_anything_is_evaluated() -> None:
    """No provider is called for an assembly that cannot be."""
    called: list[str] = []
    async with live() as (_, sp):
        sp.variable("v", lambda: called.append("v") or "x")
        sp.section("a", lambda: called.append("a") or "x", order=1, complete=True)
        sp.section("b", lambda: called.append("b") or "x", order=1, complete=True)
        with pytest.raises(MultipleCompleteSectionsError):
            await sp.assemble()
        assert called == []


async def test_tool_order_faults_come_before_texts_are_evaluated() -> None:
    """After variables and tools."""
    called: list[str] = []
    async with live(tool_order=["missing", TOOL_ORDER_REST]) as (_, sp):
        sp.variable("v", lambda: called.append("variable") or "x")
        sp.section("s", lambda: called.append("section") or "x", order=1)
        with pytest.raises(ToolOrderError):
            await sp.assemble()
        assert called == ["variable"]


async def test_the_registry_is_snapshot_when_an_assembly_begins() -> None:
    """L7: what a provider registers or removes meanwhile is for the next assembly."""
    async with live() as (_, sp):

        def meddle() -> str:
            if not effects:
                effects.append(sp.section("new", "new", order=0.5))
                late()
            return "x"

        effects: list[object] = []
        sp.variable("v", meddle)
        late = sp.section("late", "late", order=1)
        assert texts(await sp.assemble()) == ["late"]
        assert texts(await sp.assemble()) == ["new"]


async def test_listeners_are_scope_filtered() -> None:
    """Untagged ones, the scope's and its ancestors'; without a scope the untagged alone."""
    heard: list[str] = []

    def listener(name: str) -> Callable[..., Awaitable[PromptAssembly]]:
        async def listen(assembly: PromptAssembly, context: object, next: Next) -> PromptAssembly:
            heard.append(name)
            return await next()

        return listen

    async with live() as (root, sp):
        parent, child, sibling = Key("parent"), Key("child"), Key("sibling")
        create_scope(root, parent).ctx.on(ASSEMBLE, listener("parent"))
        for key in (child, sibling):
            create_scope(root, key, parent=parent).ctx.on(ASSEMBLE, listener(key.name))
        root.on(ASSEMBLE, listener("untagged"))
        for scope, expected in (
            (child, ["parent", "child", "untagged"]),
            (parent, ["parent", "untagged"]),
            (None, ["untagged"]),
        ):
            heard.clear()
            await sp.assemble(scope=scope)
            assert heard == expected


async def test_listeners_work_on_plain_lists_and_a_plain_dict() -> None:
    """Mutable records; a change is in the result, and not in the registry."""

    async def listen(assembly: PromptAssembly, context: object, next: Next) -> PromptAssembly:
        assert type(assembly.sections) is list
        assert type(assembly.contexts) is list
        assert type(assembly.tools) is list
        assert type(assembly.variables) is dict
        assembly.sections[-1].text = "changed {{v}}"
        assembly.variables["v"] = "by listener"
        assembly.contexts.append(AssembledContext("added", "c"))
        assembly.tools[0] = attrs.evolve(assembly.tools[0], description="changed")
        result = await next()
        result.sections.insert(0, AssembledSection("front", "front"))
        return result

    async with live() as (root, sp):
        sp.section("s", "text", order=1)
        sp.variable("v", "mine")
        sp.tools(lambda: [ToolSchema("t", "plain")])
        effect = root.on(ASSEMBLE, listen)
        assembly = await sp.assemble()
        assert texts(assembly) == ["front", "changed by listener"]
        assert names(assembly.contexts) == ["added"]
        assert assembly.tools[0].description == "changed"
        await effect()
        plain = await sp.assemble()
        assert texts(plain) == ["text"]
        assert plain.variables == {"v": "mine"}
        assert plain.tools == [ToolSchema("t", "plain")]


async def test_what_the_waterfall_adds_is_not_sorted_again() -> None:
    """It stands where the listener put it."""

    async def listen(assembly: PromptAssembly, context: object, next: Next) -> PromptAssembly:
        assembly.sections.reverse()
        assembly.tools.append(ToolSchema("a"))
        return await next()

    async with live() as (root, sp):
        for order, name in enumerate("abc"):
            sp.section(name, name, order=order + 1)
        sp.tools(lambda: [ToolSchema("z"), ToolSchema("b")])
        root.on(ASSEMBLE, listen)
        assembly = await sp.assemble()
        assert names(assembly.sections) == ["c", "b", "a"]
        assert names(assembly.tools) == ["b", "z", "a"]


async def test_the_returned_assembly_is_authoritative() -> None:
    """A listener may answer with another one, and short-circuit the rest."""
    heard: list[str] = []

    async def replace(assembly: PromptAssembly, context: object, next: Next) -> PromptAssembly:
        return PromptAssembly(sections=[AssembledSection("only", "only")])

    async with live() as (root, sp):
        root.on(ASSEMBLE, replace)
        root.on(ASSEMBLE, lambda *args: heard.append("later"))
        sp.section("s", "text", order=1)
        sp.variable("v", "x")
        assembly = await sp.assemble()
        assert assembly == PromptAssembly(sections=[AssembledSection("only", "only")])
        assert heard == []


async def test_a_listener_that_returns_nothing_gets_an_error_naming_it() -> None:
    """The assembly does not turn into None."""

    async def forgets(assembly: PromptAssembly, context: object, next: Next) -> None:
        await next()

    async with live() as (root, sp):
        effect = root.on(ASSEMBLE, forgets)
        with pytest.raises(PluginError, match=r"forgets.*None"):
            await sp.assemble()
        await effect()
        assert isinstance(await sp.assemble(), PromptAssembly)


@pytest.mark.parametrize("wrong", [5, "text", {"sections": []}, []], ids=repr)
async def test_a_listener_that_returns_something_else_gets_an_error_naming_it(wrong: Any) -> None:
    """It must be a `PromptAssembly`."""

    def odd(assembly: PromptAssembly, context: object, next: Next) -> object:
        return wrong

    async with live() as (root, sp):
        root.on(ASSEMBLE, odd)
        with pytest.raises(ContributionError, match=r"odd.*expected a PromptAssembly"):
            await sp.assemble()


async def test_a_raising_listener_fails_the_assembly_and_is_named() -> None:
    """With plugin and scope in the note; the next assembly without it works."""

    def fails(assembly: PromptAssembly, context: object, next: Next) -> object:
        raise LookupError("planned")

    async with live() as (root, sp):
        key = Key("agent-1")
        scope = create_scope(root, key)
        scope.ctx.on(ASSEMBLE, fails)
        with pytest.raises(LookupError, match="planned") as caught:
            await sp.assemble(scope=key)
        note = "\n".join(caught.value.__notes__)
        assert "fails" in note
        assert "<agent-1>" in note
        await sp.assemble()


async def test_complete_replaces_every_section_and_nothing_else() -> None:
    """Everything still runs; contexts, tools and variables stay as the listeners left them."""
    called: list[str] = []

    async def listen(assembly: PromptAssembly, context: object, next: Next) -> PromptAssembly:
        assert names(assembly.sections) == ["before", "all", "after"]
        assembly.sections[2].text = "changed"
        assembly.sections.append(AssembledSection("added", "added"))
        assembly.variables["v"] = "by listener"
        assembly.contexts[0].text = "by listener"
        return await next()

    async with live(persona="P") as (root, sp):
        sp.section("all", lambda: "all {{v}}", order=5, complete=True)
        sp.section("before", lambda: called.append("before") or "x", order=1)
        sp.section("after", "x", order=9)
        sp.context("c", "c", order=1)
        sp.tools(lambda: [ToolSchema("t")])
        sp.variable("v", "x")
        root.on(ASSEMBLE, listen)
        assembly = await sp.assemble()
        assert [(one.name, one.text) for one in assembly.sections] == [("all", "all {{v}}")]
        assert render_prompt(assembly) == "all by listener"
        assert [one.text for one in assembly.contexts] == ["by listener"]
        assert names(assembly.tools) == ["t"]
        assert called == ["before"]


async def test_complete_stands_also_when_a_listener_drops_or_replaces_everything() -> None:
    """It is restored from before the waterfall."""

    def replace(assembly: PromptAssembly, context: object, next: Next) -> PromptAssembly:
        return PromptAssembly()

    async with live() as (root, sp):
        sp.section("all", "all", order=1, complete=True, literal=True)
        root.on(ASSEMBLE, replace)
        assembly = await sp.assemble()
        assert assembly.sections == [AssembledSection("all", "all", literal=True)]


async def test_complete_is_inherited_down_the_chain_and_lifted_by_a_nearer_shadow() -> None:
    """A nearer section of the same name that is not complete lifts it."""
    async with live() as (root, sp):
        parent, child, lifting = Key("parent"), Key("child"), Key("lifting")
        outer = create_scope(root, parent)
        outer.ctx.system_prompt.section("all", "all", order=1, complete=True)
        create_scope(root, child, parent=parent).ctx.system_prompt.section("c", "c", order=2)
        lifted = create_scope(root, lifting, parent=parent)
        lifted.ctx.system_prompt.section("all", "mine", order=1)
        sp.section("g", "g", order=0)
        assert texts(await sp.assemble(scope=child)) == ["all"]
        assert texts(await sp.assemble(scope=lifting)) == ["g", "mine"]
        assert texts(await sp.assemble()) == ["g"]


async def test_a_nearer_complete_shadow_of_the_same_name_is_the_only_one() -> None:
    """Two of one name are not two."""
    async with live() as (root, sp):
        key = Key()
        sp.section("all", "outer", order=1, complete=True)
        create_scope(root, key).ctx.system_prompt.section("all", "inner", order=1, complete=True)
        assert texts(await sp.assemble(scope=key)) == ["inner"]


async def test_two_complete_sections_on_one_chain_are_a_fault_of_that_chain_only() -> None:
    """The parent alone is fine."""
    async with live() as (root, sp):
        key = Key()
        sp.section("one", "one", order=1, complete=True)
        create_scope(root, key).ctx.system_prompt.section("two", "two", order=1, complete=True)
        assert texts(await sp.assemble()) == ["one"]
        with pytest.raises(MultipleCompleteSectionsError) as caught:
            await sp.assemble(scope=key)
        assert sorted(caught.value.names) == ["one", "two"]


async def test_suppressed_contexts_are_not_evaluated_and_cannot_be_added() -> None:
    """All of them in that scope and below; what listeners add is dropped."""
    called: list[str] = []

    async def listen(assembly: PromptAssembly, context: object, next: Next) -> PromptAssembly:
        assembly.contexts.append(AssembledContext("added", "x"))
        return await next()

    async with live() as (root, sp):
        parent, child = Key("parent"), Key("child")
        scope = create_scope(root, parent)
        create_scope(root, child, parent=parent)
        sp.context("c", lambda: called.append("c") or "x", order=1)
        root.on(ASSEMBLE, listen)
        effect = scope.ctx.system_prompt.suppress_runtime_context()
        for key in (parent, child):
            assert (await sp.assemble(scope=key)).contexts == []
        assert called == []
        assert names((await sp.assemble()).contexts) == ["c", "added"]
        await effect()
        assert names((await sp.assemble(scope=child)).contexts) == ["c", "added"]


async def test_named_suppression_leaves_the_others() -> None:
    """Names of several suppressors add up."""

    async def listen(assembly: PromptAssembly, context: object, next: Next) -> PromptAssembly:
        assembly.contexts += [AssembledContext("b", "x"), AssembledContext("d", "x")]
        return await next()

    async with live() as (root, sp):
        for name in "abc":
            sp.context(name, name, order=1)
        sp.suppress_runtime_context("b")
        effect = sp.suppress_runtime_context("a", "x")
        assert names((await sp.assemble()).contexts) == ["c"]
        root.on(ASSEMBLE, listen)
        assert names((await sp.assemble()).contexts) == ["c", "d"]
        await effect()
        assert names((await sp.assemble()).contexts) == ["a", "c", "d"]


async def test_fields_are_attributes_of_the_context() -> None:
    """Given as keywords or on an `AssembleContext`; providers and listeners see the same."""
    seen: list[object] = []

    async def listen(assembly: PromptAssembly, context: AssembleContext, next: Next) -> object:
        seen.append((context.model, context.turn, context.scope))
        return await next()

    def provide(context: AssembleContext) -> str:
        seen.append((context.model, context.turn, context.scope))
        return ""

    async with live() as (root, sp):
        key = Key()
        root.on(ASSEMBLE, listen)
        sp.section("s", provide, order=1)
        await sp.assemble(scope=key, model="m", turn=1)
        await sp.assemble(AssembleContext(scope=key, model="m", turn=1))
        await sp.assemble(AssembleContext(model="x", turn=1), scope=key, model="m")
        assert seen == [("m", 1, key)] * 6


async def test_an_unknown_field_is_an_attribute_error_that_lists_the_known() -> None:
    """Not a silent None."""
    context = AssembleContext(model="m")
    with pytest.raises(AttributeError, match=r"'modle'.*model"):
        _ = context.modle


async def test_a_cancelled_signal_raises_assembly_cancelled_between_phases() -> None:
    """`signal` is an anyio cancel scope, looked at and not waited for."""
    called: list[str] = []
    async with live() as (_, sp):
        sp.section("s", lambda: called.append("s") or "x", order=1)
        signal = anyio.CancelScope()
        signal.cancel()
        with pytest.raises(AssemblyCancelled):
            await sp.assemble(signal=signal)
        with pytest.raises(AssemblyCancelled):
            await sp.assemble(AssembleContext(signal=signal))
        assert called == []


@pytest.mark.parametrize("phase", ["variable", "section", "listener"])
async def test_a_signal_cancelled_in_one_phase_stops_before_the_next(phase: str) -> None:
    """Whoever notices first that nobody wants the result."""
    signal = anyio.CancelScope()
    journal: list[str] = []

    def work(name: str) -> str:
        journal.append(name)
        if name == phase:
            signal.cancel()
        return "x"

    async def listen(assembly: PromptAssembly, context: object, next: Next) -> object:
        work("listener")
        return await next()

    async with live() as (root, sp):
        sp.variable("v", lambda: work("variable"))
        sp.section("s", lambda: work("section"), order=1)
        root.on(ASSEMBLE, listen)
        with pytest.raises(AssemblyCancelled):
            await sp.assemble(signal=signal)
        assert journal == ["variable", "section", "listener"][: journal.index(phase) + 1]
        assert journal[-1] == phase


async def test_a_signal_belongs_to_one_assembly() -> None:
    """A context kept past its assembly reads it as None; the caller's own object is untouched."""
    kept: list[AssembleContext] = []
    signals: list[object] = []

    def provide(context: AssembleContext) -> str:
        kept.append(context)
        signals.append(context.signal)
        return "x"

    async with live() as (_, sp):
        sp.section("s", provide, order=1)
        signal = anyio.CancelScope()
        mine = AssembleContext(signal=signal, model="m")
        await sp.assemble(mine)
        await sp.assemble()
        assert signals == [signal, None]
        assert kept[0].signal is None
        assert kept[0].model == "m"
        assert mine.signal is signal


async def test_a_signal_is_gone_also_after_a_failed_assembly() -> None:
    """Whatever the end."""
    kept: list[AssembleContext] = []

    def provide(context: AssembleContext) -> str:
        kept.append(context)
        raise LookupError

    async with live() as (_, sp):
        sp.section("s", provide, order=1)
        with pytest.raises(LookupError):
            await sp.assemble(signal=anyio.CancelScope())
        assert kept[0].signal is None
