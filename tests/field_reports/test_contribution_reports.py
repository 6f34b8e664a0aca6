"""Reports about contributions: volatile, twice, stale, frozen, or never awaited."""

from __future__ import annotations

import functools

import anyio
import anyio.lowlevel
import pytest

from harness_core import Context
from harness_core.errors import DuplicateRegistrationError
from harness_core.prompt import (
    AssembledSection,
    PromptAssembly,
    ToolSchema,
    diff_assemblies,
    render_context_snapshot,
    render_prompt,
)
from tests.prompt.tree import ASSEMBLE, Next, injecting, live, rendered

from .reports import Kind, Scenario

pytestmark = pytest.mark.asyncio


volatile = Kind()


@volatile.report("Aik358/dsh-auto-memory#1", "hewzhew/dsh-agent-rp#16")
async def _a_clock_in_the_prompt() -> None:
    """The diff names the plugin, and how little is left to reuse."""
    clock = ["10:00:00"]

    @injecting
    def timekeeper(ctx: Context) -> None:
        ctx.system_prompt.section("clock", lambda: clock[0], order=-1)

    async with live(persona="A long and stable persona.") as (root, sp):
        root.plugin(timekeeper)
        before = await sp.assemble()
        clock[0] = "11:00:00"
        diff = diff_assemblies(before, await sp.assemble())
        (change,) = diff.changes
        assert change.origin is not None
        assert (change.name, change.origin.plugin) == ("clock", "timekeeper")
        assert diff.same_prefix == 1


@volatile.report("anomalyco/opencode#32677", "cnighswonger/claude-code-cache-fix#11")
async def _volatile_text_as_a_context() -> None:
    """The system prompt stays byte for byte; only the snapshot changes."""
    status = ["clean"]
    async with live(persona="P") as (_, sp):
        sp.context("git-status", lambda: status[0], order=1)
        before = await sp.assemble()
        status[0] = "dirty"
        after = await sp.assemble()
        assert render_prompt(before) == render_prompt(after)
        assert render_context_snapshot(before) != render_context_snapshot(after)
        assert diff_assemblies(before, after).same_prefix >= len(render_prompt(after))


@volatile.report("rohitg00/agentmemory#720")
async def _a_listener_that_changes_each_turn() -> None:
    """Explaining says which listener it was."""
    turn = [0]

    async def remember(assembly: PromptAssembly, context: object, next: Next) -> PromptAssembly:
        turn[0] += 1
        assembly.sections[-1].text += f" {turn[0]}"
        return await next()

    async with live() as (root, sp):
        sp.section("s", "x", order=1)
        root.on(ASSEMBLE, remember)
        before, after = await sp.assemble(), await sp.assemble()
        assert [one.name for one in diff_assemblies(before, after).changes] == ["s"]
        (changed,) = [one for one in after.explain() if one.status == "changed"]
        assert "remember" in changed.reason


@volatile.report("pydantic/pydantic-ai#3630", "code-yeongyu/oh-my-openagent#8470")
async def _the_stable_prefix_is_known() -> None:
    """The length that stays the same is exactly the static part."""
    user = ["ann"]
    async with live() as (_, sp):
        sp.section("static", "static text", order=1)
        sp.section("dynamic", lambda: user[0], order=100)
        before = await sp.assemble()
        user[0] = "bob"
        diff = diff_assemblies(before, await sp.assemble())
        assert diff.same_prefix == len("static text\n\n")


@volatile.each()
async def test_what_spoils_the_cache_is_named(scenario: Scenario) -> None:
    """Volatile text is found, attributed, and kept away from the stable part."""
    await scenario()


twice = Kind()


@twice.report("vshulcz/deja-vu#1563")
async def _two_plugins_one_section() -> None:
    """The same block from two installations is refused by name, and stands once."""

    @injecting
    def generated(ctx: Context) -> None:
        ctx.system_prompt.section("deja:recall", "recall", order=1)

    @injecting
    def packaged(ctx: Context) -> None:
        ctx.system_prompt.section("deja:recall", "recall", order=2)

    async with live() as (root, sp):
        root.plugin(generated)
        with pytest.raises(DuplicateRegistrationError, match='"deja:recall"'):
            await root.plugin(packaged)
        assert await rendered(sp) == "recall"


@twice.each()
async def test_no_block_stands_in_the_prompt_twice(scenario: Scenario) -> None:
    """A name is taken once in a layer."""
    await scenario()


loaded = Kind()


@loaded.report("anomalyco/opencode#3179", "anthropics/claude-code#24115")
async def _installed_twice() -> None:
    """The second copy fails loudly, and leaves nothing; the listener is called once."""
    called: list[str] = []

    @injecting
    def plugin(ctx: Context) -> None:
        async def listen(assembly: PromptAssembly, context: object, next: Next) -> PromptAssembly:
            called.append("listener")
            return await next()

        ctx.on(ASSEMBLE, listen)
        ctx.system_prompt.section("deja:recall", "recall", order=1)

    async with live() as (root, sp):
        root.plugin(plugin)
        second = root.plugin(plugin)
        with pytest.raises(DuplicateRegistrationError):
            await second
        assert await rendered(sp) == "recall"
        assert called == ["listener"]


@loaded.report("anthropics/claude-code#14281")
async def _one_context_once() -> None:
    """In one snapshot, one block."""
    async with live() as (_, sp):
        sp.context("x", lambda: "unmistakable", order=1)
        assert render_context_snapshot(await sp.assemble()).count("unmistakable") == 1


@loaded.each()
async def test_a_plugin_that_is_loaded_twice_says_so(scenario: Scenario) -> None:
    """And does nothing twice."""
    await scenario()


stale = Kind()


@stale.report("can1357/oh-my-pi#7260")
async def _reload_takes_everything_along() -> None:
    """No section, context, tool, variable or listener is left, and the change is told."""

    async def listen(assembly: PromptAssembly, context: object, next: Next) -> PromptAssembly:
        assembly.sections.append(AssembledSection("by listener", "x"))
        return await next()

    @injecting
    def plugin(ctx: Context) -> None:
        sp = ctx.system_prompt
        sp.section("s", "x", order=1)
        sp.context("c", "x", order=1)
        sp.variable("v", "x")
        sp.tools(lambda: [ToolSchema("t")])
        ctx.on(ASSEMBLE, listen)

    async with live() as (root, sp):
        before = await sp.assemble()
        fiber = root.plugin(plugin)
        heard: list[str] = []
        root.on("system-prompt/change", lambda: heard.append("change"))
        await fiber.dispose()
        assert await sp.assemble() == before
        assert len(heard) == 4


@stale.each()
async def test_an_unloaded_plugin_is_gone(scenario: Scenario) -> None:
    """Wholly, at once."""
    await scenario()


dynamic = Kind()


@dynamic.report(
    "pydantic/pydantic-ai#1646", "pydantic/pydantic-ai#1032", "pydantic/pydantic-ai#1211"
)
async def _whatever_the_history() -> None:
    """An assembly knows no history: providers are called each time, given one or not."""
    called: list[int] = []
    async with live() as (_, sp):
        sp.section("s", lambda context: called.append(len(context.history)) or "x", order=1)
        for history in ([], ["reply"], ["reply"] * 50):
            assert await rendered(sp, history=history) == "x"
        assert called == [0, 1, 50]


@dynamic.each()
async def test_dynamic_texts_are_evaluated_at_every_assembly(scenario: Scenario) -> None:
    """And the system prompt is always whole."""
    await scenario()


asynchronous = Kind()


@asynchronous.report("openai/openai-agents-python#3942")
async def _whatever_looks_synchronous() -> None:
    """Objects with an async call, partials, lambdas that return coroutines."""

    class Instructions:
        async def __call__(self, context: object) -> str:
            await anyio.lowlevel.checkpoint()
            return "object"

    async def text(word: str) -> str:
        return word

    async with live() as (_, sp):
        sp.section("a", Instructions(), order=1)
        sp.section("b", functools.partial(text, "partial"), order=2)
        sp.section("c", lambda: text("lambda"), order=3)
        sp.section("d", "{{v}}", order=4)
        sp.variable("v", functools.partial(text, "variable"))
        assert await rendered(sp) == "object\n\npartial\n\nlambda\n\nvariable"


@asynchronous.each()
async def test_no_coroutine_is_rendered(scenario: Scenario) -> None:
    """What a provider returns is awaited if it can be."""
    await scenario()
