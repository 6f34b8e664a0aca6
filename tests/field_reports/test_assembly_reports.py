"""Reports about assembling: hooks, ties, failures, leaks and inheritance."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import pytest

from harness_core import Context, create_scope
from harness_core.prompt import (
    PERSONA_SECTION,
    AssembledSection,
    PromptAssembly,
    diff_assemblies,
    render_context_sections,
    render_context_snapshot,
    render_prompt,
)
from tests.prompt.tree import ASSEMBLE, Key, Next, injecting, live, rendered

from .reports import Kind, Scenario

pytestmark = pytest.mark.asyncio


hooks = Kind()


@hooks.report("anomalyco/opencode#17100")
async def _a_change_in_place() -> None:
    """Is in the result."""

    async def listen(assembly: PromptAssembly, context: object, next: Next) -> PromptAssembly:
        assembly.sections[-1].text = "changed"
        return await next()

    async with live() as (root, sp):
        sp.section("s", "x", order=1)
        root.on(ASSEMBLE, listen)
        assert await rendered(sp) == "changed"


@hooks.report("anomalyco/opencode#47003", "anomalyco/opencode#23660")
async def _additions_make_one_text() -> None:
    """However many listeners add, there is one system prompt, joined by blank lines."""

    def adding(name: str) -> Any:
        async def listen(assembly: PromptAssembly, context: object, next: Next) -> PromptAssembly:
            assembly.sections.append(AssembledSection(name, name))
            return await next()

        return listen

    async with live() as (root, sp):
        sp.section("s", "x", order=1)
        for name in "ab":
            root.on(ASSEMBLE, adding(name))
        assert await rendered(sp) == "x\n\na\n\nb"


@hooks.report("wingsky-1/dsh-plugin-hub#560")
async def _after_a_short_circuit() -> None:
    """A later listener is skipped, a prepended one runs first, and who stopped it is explained."""
    journal: list[str] = []

    def stops(assembly: PromptAssembly, context: object, next: Next) -> PromptAssembly:
        journal.append("stops")
        assembly.sections.clear()
        return assembly

    def noting(name: str) -> Any:
        async def listen(assembly: PromptAssembly, context: object, next: Next) -> PromptAssembly:
            journal.append(name)
            return await next()

        return listen

    async with live() as (root, sp):
        sp.section("s", "x", order=1)
        root.on(ASSEMBLE, stops)
        root.on(ASSEMBLE, noting("later"))
        root.on(ASSEMBLE, noting("first"), prepend=True)
        assembly = await sp.assemble()
        assert journal == ["first", "stops"]
        (dropped,) = [one for one in assembly.explain() if one.name == "s"]
        assert dropped.status == "dropped"
        assert "stops" in dropped.reason


@hooks.each()
async def test_what_a_listener_does_counts(scenario: Scenario) -> None:
    """In place, by returning, or by stopping; and it can be found out who it was."""
    await scenario()


ties = Kind()


@ties.report("anomalyco/opencode#14492")
async def _the_documented_rule() -> None:
    """Equal orders keep registration order, and a restart does not change it."""

    @injecting
    def configured(ctx: Context, config: dict[str, str]) -> None:
        ctx.system_prompt.section(config["name"], config["name"], order=10)

    for order in ("ab", "ba"):
        async with live() as (root, sp):
            fibers = [root.plugin(configured, {"name": name}) for name in order]
            assert await rendered(sp) == "\n\n".join(order)
            await fibers[0].restart()
            assert await rendered(sp) == "\n\n".join(order)


@ties.each()
async def test_ties_are_broken_by_a_rule(scenario: Scenario) -> None:
    """The same on every machine."""
    await scenario()


failures = Kind()


@failures.report("openclaw/openclaw#118537")
async def _never_silently_incomplete() -> None:
    """A failing context fails the assembly; one that assembles by itself works."""

    def fail() -> str:
        raise LookupError("planned")

    async with live() as (_, sp):
        effect = sp.context("queue", fail, order=1)
        with pytest.raises(LookupError) as caught:
            await sp.assemble()
        assert 'context "queue" of plugin "root"' in "\n".join(caught.value.__notes__)
        await effect()
        key = Key()

        async def nested(context: Any) -> str:
            if context.scope is key:
                return "inner"
            return render_context_snapshot(await sp.assemble(scope=key))

        sp.context("nested", nested, order=1)
        with anyio.fail_after(5):
            assert "inner" in render_context_snapshot(await sp.assemble())


@failures.report("yai-dev/agentrail#28")
async def _a_variable_that_nobody_refers_to() -> None:
    """Its failure names the variable and the plugin."""

    def fail() -> str:
        raise LookupError("planned")

    @injecting
    def plugin(ctx: Context) -> None:
        ctx.system_prompt.variable("unused", fail)

    async with live() as (root, sp):
        root.plugin(plugin)
        with pytest.raises(LookupError) as caught:
            await sp.assemble()
        note = "\n".join(caught.value.__notes__)
        assert 'variable "unused"' in note
        assert 'plugin "plugin"' in note


@failures.report("modusensus/dsh-mneme#175")
async def _why_a_context_is_not_there() -> None:
    """A suppressor somewhere above is named."""

    @injecting
    def quiet(ctx: Context) -> None:
        ctx.system_prompt.suppress_runtime_context()

    async with live() as (root, sp):
        sp.context("memory", "x", order=1)
        root.plugin(quiet)
        (one,) = [one for one in (await sp.assemble()).explain() if one.name == "memory"]
        assert one.status == "suppressed"
        assert 'plugin "quiet"' in one.reason


@failures.report("omdsh-dev/dsh-mnemon#106")
async def _contexts_keep_their_names() -> None:
    """The parts of a snapshot can be told apart, and a change is attributed to its own part."""
    changing = ["1"]
    async with live() as (_, sp):
        sp.context("a", "stable", order=1)
        sp.context("b", lambda: changing[0], order=2)
        before = await sp.assemble()
        changing[0] = "2"
        after = await sp.assemble()
        assert render_context_sections(after) == [("a", "stable"), ("b", "2")]
        assert [one.name for one in diff_assemblies(before, after).changes] == ["b"]


@failures.each()
async def test_a_failure_is_loud_and_has_an_owner(scenario: Scenario) -> None:
    """A prompt is whole, or it is an error that says whose."""
    await scenario()


leaks = Kind()


@leaks.report(
    "CopilotKit/CopilotKit#5659",
    "google/adk-go#1137",
    "anomalyco/opencode#4622",
    "plur-ai/plur#918",
)
async def _interleaved() -> None:
    """Twenty assemblies of parent, child and stranger, interleaved at every await."""

    async def slowly(assembly: PromptAssembly, context: Any, next: Next) -> PromptAssembly:
        await anyio.lowlevel.checkpoint()
        assembly.sections.append(AssembledSection("who", str(context.who)))
        await anyio.lowlevel.checkpoint()
        return await next()

    async with live() as (root, sp):
        parent, child, stranger = Key("parent"), Key("child"), Key("stranger")
        for key, above in ((parent, None), (child, parent), (stranger, None)):
            service = create_scope(root, key, parent=above).ctx.system_prompt
            service.section(PERSONA_SECTION, f"I am {key.name}", order=0)
        root.on(ASSEMBLE, slowly)
        wrong: list[str] = []

        async def check(number: int) -> None:
            key = (parent, child, stranger)[number % 3]
            text = await rendered(sp, scope=key, who=number)
            if text != f"I am {key.name}\n\n{number}":
                wrong.append(text)

        async with anyio.create_task_group() as tasks:
            for number in range(21):
                tasks.start_soon(check, number)
        assert wrong == []


@leaks.each()
async def test_assemblies_that_overlap_do_not_mix(scenario: Scenario) -> None:
    """No scope sees another's text, and the registry is as before."""
    await scenario()


inheritance = Kind()


@inheritance.report("gotgenes/pi-packages#640", "tintinweb/pi-subagents#250")
async def _the_childs_own_directory() -> None:
    """A value of the child replaces the parent's everywhere, in sections and contexts."""
    async with live() as (root, sp):
        parent, child = Key("parent"), Key("child")
        outer = create_scope(root, parent).ctx.system_prompt
        inner = create_scope(root, child, parent=parent).ctx.system_prompt
        outer.variable("cwd", "/a")
        outer.section("where", "in {{cwd}}", order=1)
        outer.context("where", "now in {{cwd}}", order=1)
        inner.variable("cwd", "/b")
        assembly = await sp.assemble(scope=child)
        text = render_prompt(assembly) + render_context_snapshot(assembly)
        assert "/b" in text
        assert "/a" not in text


@inheritance.report("markusylisiurunen/tau#162")
async def _the_parents_persona() -> None:
    """The nearest layer that has one wins; the child opts out with its own, even an empty one."""
    async with live(persona="deployment") as (root, sp):
        parent, child = Key("parent"), Key("child")
        outer = create_scope(root, parent).ctx.system_prompt
        inner = create_scope(root, child, parent=parent).ctx.system_prompt
        assert await rendered(sp, scope=child) == "deployment"
        outer.section(PERSONA_SECTION, "parent", order=0)
        assert await rendered(sp, scope=child) == "parent"
        inner.section(PERSONA_SECTION, "", order=0)
        assert await rendered(sp, scope=child) == ""


@inheritance.each()
async def test_a_child_inherits_down_and_its_own_wins(scenario: Scenario) -> None:
    """Nearest first, whole."""
    await scenario()
