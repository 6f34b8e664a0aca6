"""`system-prompt-invariant`: what `assemble` is about to return is checked, behind everybody."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from harness_core import Context, create_scope
from harness_core.errors import InvariantError
from harness_core.prompt import (
    AssembledContext,
    AssembledSection,
    PromptAssembly,
    ToolSchema,
    invariant,
)

from .tree import Key, live, names

pytestmark = pytest.mark.asyncio

Next = Callable[[], Awaitable[PromptAssembly]]
ASSEMBLE = "system-prompt/assemble"


def section(name: Any, text: Any = "x") -> Callable[[PromptAssembly], None]:
    """Append a section."""
    return lambda assembly: assembly.sections.append(AssembledSection(name, text))


def context(name: Any, text: Any = "x") -> Callable[[PromptAssembly], None]:
    """Append a context."""
    return lambda assembly: assembly.contexts.append(AssembledContext(name, text))


def variable(name: Any, value: Any = "x") -> Callable[[PromptAssembly], None]:
    """Set a variable."""
    return lambda assembly: assembly.variables.__setitem__(name, value)


def twice(change: Callable[[PromptAssembly], None]) -> Callable[[PromptAssembly], None]:
    """Do it twice."""

    def both(assembly: PromptAssembly) -> None:
        change(assembly)
        change(assembly)

    return both


BREAKS: dict[str, tuple[Callable[[PromptAssembly], None], str, object]] = {
    "section name empty": (section(""), "section names are not empty", ""),
    "section name no str": (section(None), "section names are not empty", None),
    "section twice": (twice(section("s")), "section names are unique", "s"),
    "section text": (section("s", 5), "section texts are str", "s"),
    "section text None": (section("s", None), "section texts are str", "s"),
    "context name empty": (context(""), "context names are not empty", ""),
    "context twice": (twice(context("c")), "context names are unique", "c"),
    "context text": (context("c", b"x"), "context texts are str", "c"),
    "variable name": (variable("Bad"), "variable names", "Bad"),
    "variable name newline": (variable("model\n"), "variable names", "model\n"),
    "variable name no str": (variable(5), "variable names", 5),
    "variable value": (variable("v", 5), "variable values are str or None", "v"),
    "tool name empty": (
        lambda assembly: assembly.tools.append(ToolSchema("")),
        "tool names are not empty",
        "",
    ),
    "tool twice": (
        twice(lambda assembly: assembly.tools.append(ToolSchema("t"))),
        "tool names are unique",
        "t",
    ),
}


def breaker(change: Callable[[PromptAssembly], None], when: str) -> Callable[..., Any]:
    """Return a listener that breaks a rule before or after `next()`."""

    async def breaks(assembly: PromptAssembly, context: object, next: Next) -> PromptAssembly:
        if when == "before":
            change(assembly)
        result = await next()
        if when == "after":
            change(result)
        return result

    return breaks


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("case", BREAKS)
async def test_a_broken_rule_names_rule_entry_and_listener(case: str, when: str) -> None:
    """`InvariantError(rule, entry, listener)`; without the plugin nobody looks."""
    change, rule, entry = BREAKS[case]

    def plugin(ctx: Context) -> None:
        ctx.on(ASSEMBLE, breaker(change, when))

    async with live() as (root, sp):
        root.plugin(plugin)
        await sp.assemble()
        fiber = await root.plugin(invariant)
        with pytest.raises(InvariantError) as caught:
            await sp.assemble()
        error = caught.value
        assert error.rule.startswith(rule)
        assert error.entry == entry
        assert error.listener is not None
        assert "breaks" in error.listener
        assert 'plugin "plugin"' in error.listener
        assert repr(entry) in str(error)
        assert isinstance(error, AssertionError)
        await fiber.dispose()
        await sp.assemble()


async def test_values_may_be_none_and_a_good_assembly_passes() -> None:
    """It only refuses what breaks a rule."""
    async with live() as (root, sp):
        await root.plugin(invariant)
        sp.variable("v", lambda: None)
        sp.section("s", "x", order=1)
        sp.context("s", "x", order=1)
        sp.tools(lambda: [ToolSchema("s")])
        assembly = await sp.assemble()
        assert names(assembly.sections) == ["s"]


async def test_it_cannot_be_bypassed_by_a_listener_registered_later() -> None:
    """Neither behind it, nor in front of it with `prepend`."""
    for prepend in (False, True):
        async with live() as (root, sp):
            await root.plugin(invariant)
            root.on(ASSEMBLE, breaker(section(""), "after"), prepend=prepend)
            with pytest.raises(InvariantError):
                await sp.assemble()


async def test_it_cannot_be_bypassed_by_a_short_circuit() -> None:
    """What is returned is what is checked."""

    def stop(assembly: PromptAssembly, context: object, next: Next) -> PromptAssembly:
        return PromptAssembly(sections=[AssembledSection("s", "x")] * 2)

    async with live() as (root, sp):
        await root.plugin(invariant)
        root.on(ASSEMBLE, stop)
        with pytest.raises(InvariantError) as caught:
            await sp.assemble()
        assert "stop" in (caught.value.listener or "")


async def test_a_fault_that_a_later_listener_mends_is_no_fault() -> None:
    """Only the end counts."""

    async def mend(assembly: PromptAssembly, context: object, next: Next) -> PromptAssembly:
        result = await next()
        result.sections = [one for one in result.sections if one.name]
        return result

    async with live() as (root, sp):
        await root.plugin(invariant)
        root.on(ASSEMBLE, mend)
        root.on(ASSEMBLE, breaker(section(""), "after"))
        await sp.assemble()


async def test_it_comes_after_restoration() -> None:
    """A complete section makes broken sections vanish, and that is what is returned."""
    async with live() as (root, sp):
        await root.plugin(invariant)
        sp.section("all", "x", order=1, complete=True)
        root.on(ASSEMBLE, breaker(section(""), "after"))
        assert names((await sp.assemble()).sections) == ["all"]


async def test_it_holds_in_every_scope() -> None:
    """Mounted at the root, it checks the assemblies of agents, too."""
    async with live() as (root, sp):
        await root.plugin(invariant)
        key = Key()
        scope = create_scope(root, key)
        scope.ctx.on(ASSEMBLE, breaker(section(""), "before"))
        await sp.assemble()
        with pytest.raises(InvariantError):
            await sp.assemble(scope=key)


async def test_two_providers_with_the_same_tool_are_found_without_any_listener() -> None:
    """Duplicate tool names break a rule; nobody is to blame but the providers."""
    async with live() as (root, sp):
        await root.plugin(invariant)
        sp.tools(lambda: [ToolSchema("create_issue", "one")])
        sp.tools(lambda: [ToolSchema("create_issue", "two")])
        with pytest.raises(InvariantError) as caught:
            await sp.assemble()
        assert (caught.value.entry, caught.value.listener) == ("create_issue", None)


async def test_its_name_is_part_of_the_contract() -> None:
    """`system-prompt-invariant`, waiting for the service like any plugin."""
    async with Context() as root:
        fiber = root.plugin(invariant)
        assert fiber.name == "system-prompt-invariant"
        assert fiber.waiting_for == ["system_prompt"]
