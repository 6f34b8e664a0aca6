"""Reports about the finished request: its cost, its inspection, what replaces what."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from harness_core import Context, FiberState, create_scope
from harness_core.prompt import (
    PERSONA_SECTION,
    SystemPrompt,
    ToolSchema,
    render_prompt,
)
from tests.prompt.tree import Key, injecting, live, rendered

from .reports import Kind, Scenario

pytestmark = pytest.mark.asyncio


speed = Kind()


@speed.report("latitude-dev/promptl#23")
async def _eighty_thousand() -> None:
    """Openers and references by the ten thousand: the text is not searched for each of them."""
    async with live() as (_, sp):
        sp.variable("a", "x")
        sp.section("lone", "{{" * 80_000 + "x" * 800_000, order=1)
        sp.section("references", "{{a}} " * 80_000, order=2)
        assembly = await sp.assemble()
        assert scans_in(lambda: render_prompt(assembly)) < 20
        assert render_prompt(assembly).endswith("x " * 80_000)


SEARCHES = ("find", "rfind", "index", "match", "fullmatch", "search", "split", "partition")


def scans_in(work: Callable[[], object]) -> int:
    """Count how often `work` searches a text."""
    count = 0

    def profile(frame: object, event: str, function: Any) -> None:
        nonlocal count
        if event == "c_call" and function.__name__ in SEARCHES:
            count += 1

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@speed.report("microsoft/prompty#368")
async def _static_texts_are_read_once() -> None:
    """Of a hundred static texts and one that changes, a turn searches only the one."""
    turn = ["0"]
    async with live() as (_, sp):
        sp.variable("v", lambda: turn[0])
        for number in range(100):
            sp.section(f"s{number}", f"static {number} {{{{v}}}}", order=1)
        sp.section("dynamic", lambda: f"{turn[0]} {{{{v}}}}", order=2)
        first = await sp.assemble()
        render_prompt(first)
        turn[0] = "1"
        second = await sp.assemble()
        assert scans_in(lambda: render_prompt(second)) <= 5
        for section in second.sections:
            section.text = f"not seen before: {section.text} {{{{v}}}}"
        assert scans_in(lambda: render_prompt(second)) >= 100
        second = await sp.assemble()
        assert render_prompt(second).endswith("static 99 1\n\n1 1")


@speed.each()
async def test_rendering_costs_what_it_must(scenario: Scenario) -> None:
    """Linear, and static parts only once."""
    await scenario()


inspection = Kind()


@inspection.report("anomalyco/opencode#14674", "bowenliang123/dsh-context#25")
async def _everything_has_an_owner_in_the_data() -> None:
    """Plugin, layer and order of each part; for tools too, however early they were registered."""

    @injecting
    def plugin(ctx: Context) -> None:
        ctx.system_prompt.section("s", "x", order=7)
        ctx.system_prompt.tools(lambda: [ToolSchema("t")])

    async with live() as (root, sp):
        root.plugin(plugin)
        explained = {(one.kind, one.name): one.origin for one in (await sp.assemble()).explain()}
        section, tool = explained["section", "s"], explained["tool", "t"]
        assert section is not None
        assert (section.plugin, section.scope, section.order) == ("plugin", None, 7)
        assert tool is not None
        assert tool.plugin == "plugin"


@inspection.report("gptme/gptme#2842", "tmustier/pine-of-glass#9")
async def _footprints_add_up() -> None:
    """The parts of each plugin, joined, are the whole."""
    async with live(persona="persona") as (root, sp):

        @injecting
        def one(ctx: Context) -> None:
            ctx.system_prompt.section("one", "1" * 10, order=1)

        root.plugin(one)
        assembly = await sp.assemble()
        footprint: dict[str, int] = {}
        for section in assembly.sections:
            assert section.origin is not None
            plugin = section.origin.plugin
            footprint[plugin] = footprint.get(plugin, 0) + len(section.text)
        assert footprint == {"system_prompt": 7, "one": 10}
        assert sum(footprint.values()) + len("\n\n") == len(render_prompt(assembly))


@inspection.each()
async def test_an_assembly_tells_whose_each_part_is(scenario: Scenario) -> None:
    """As data, without running an agent."""
    await scenario()


overriding = Kind()


@overriding.report("google-gemini/gemini-cli#29112")
async def _append_a_paragraph() -> None:
    """A section of a new name comes after the persona; the defaults stay."""
    async with live(persona="stock") as (root, sp):
        key = Key()
        create_scope(root, key).ctx.system_prompt.section("mine", "my paragraph", order=5)
        assert await rendered(sp, scope=key) == "stock\n\nmy paragraph"


@overriding.report("earendil-works/pi#716", "can1357/oh-my-pi#3048")
async def _replace_the_sections_only() -> None:
    """Contexts, tools and variables stay, and what was replaced is listed with the reason."""
    async with live(persona="stock") as (_, sp):
        sp.section("footer", "footer", order=200)
        sp.context("c", "c", order=1)
        sp.tools(lambda: [ToolSchema("t")])
        sp.variable("v", "x")
        sp.section("mine", "all of it", order=1, complete=True)
        assembly = await sp.assemble()
        assert render_prompt(assembly) == "all of it"
        assert [one.name for one in assembly.contexts] == ["c"]
        assert [one.name for one in assembly.tools] == ["t"]
        assert assembly.variables == {"v": "x"}
        absent = [one for one in assembly.explain() if not one.is_present]
        assert [one.name for one in absent] == [PERSONA_SECTION, "footer"]
        assert all('"mine"' in one.reason for one in absent)


@overriding.each()
async def test_adding_and_replacing_are_both_there_and_visible(scenario: Scenario) -> None:
    """Nothing disappears unexplained."""
    await scenario()


assembling = Kind()


@assembling.report("NousResearch/hermes-agent#117432")
async def _registered_means_rendered() -> None:
    """The next assembly has it, and after its removal the next has not."""
    async with live() as (_, sp):
        effect = sp.section("s", "x", order=1)
        assert await rendered(sp) == "x"
        await effect()
        assert await rendered(sp) == ""


@assembling.report("typeclaw/typeclaw#198", "NousResearch/hermes-agent#81986")
async def _tiers_and_fail_open() -> None:
    """Order tiers the prompt; an optional part that raises or hangs is left out of it."""

    def fail() -> str:
        raise LookupError

    async with live() as (_, sp):
        sp.section("volatile", "v", order=150)
        sp.section("stable", "s", order=-50)
        sp.section("broken", fail, order=1, optional=True)
        sp.section("hangs", anyio.sleep_forever, order=1, optional=True, timeout=0.01)
        with anyio.fail_after(5):
            assert await rendered(sp) == "s\n\nv"


@assembling.each()
async def test_an_assembly_is_what_was_registered(scenario: Scenario) -> None:
    """In order, whole, fault by fault."""
    await scenario()


async def test_a_service_that_restarts_keeps_everybody_in_place() -> None:
    """Kind: reload order; consumers and root registrations alike."""
    async with Context() as root:
        fiber = root.plugin(SystemPrompt)

        @injecting
        def plugin(ctx: Context, config: dict[str, str]) -> None:
            ctx.system_prompt.section(config["name"], config["name"], order=1)

        mounted = [root.plugin(plugin, {"name": name}) for name in "ab"]
        root.system_prompt.section("root", "root", order=1)
        before = await root.system_prompt.assemble()
        await fiber.restart()
        for one in mounted:
            await one.wait_active()
            assert one.state is FiberState.ACTIVE
        assert await root.system_prompt.assemble() == before
