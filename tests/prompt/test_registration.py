"""Every call registers one effect for its caller, and tells of it; a wrong one leaves nothing."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from typing import Any

import pytest

from harness_core import Context, Effect, FiberState, create_scope
from harness_core.errors import (
    ContributionError,
    DuplicateRegistrationError,
    InactiveFiberError,
    InvalidNameError,
    InvalidOrderError,
    MultipleCompleteSectionsError,
)
from harness_core.prompt import SystemPrompt, render_context_snapshot, render_prompt

from .tree import Key, live, names

pytestmark = pytest.mark.asyncio

CALLS: dict[str, Callable[[SystemPrompt], Effect]] = {
    "section": lambda sp: sp.section("s", "text", order=1),
    "context": lambda sp: sp.context("c", "text", order=1),
    "variable": lambda sp: sp.variable("v", "value"),
    "tools": lambda sp: sp.tools(lambda: [{"name": "t"}]),
    "suppressor": lambda sp: sp.suppress_runtime_context(),
}


def count_changes(root: Context) -> list[str]:
    """Note every `system-prompt/change`."""
    changes: list[str] = []
    root.on("system-prompt/change", lambda: changes.append("change"))
    return changes


@pytest.mark.parametrize("kind", CALLS)
async def test_a_registration_is_an_effect_of_the_caller(kind: str) -> None:
    """It returns the exact `Effect`, listed with a label and the line of the call."""
    async with live() as (root, _):

        def plugin(ctx: Context) -> None:
            effects.append(CALLS[kind](ctx.system_prompt))

        plugin.inject = ["system_prompt"]  # type: ignore[attr-defined]
        effects: list[Effect] = []
        fiber = root.plugin(plugin)
        assert isinstance(effects[0], Effect)
        (info,) = fiber.effects()
        assert info.label.startswith(kind)
        assert info.file == __file__
        before = await root.system_prompt.assemble()
        await effects[0]()
        assert fiber.effects() == []
        after = await root.system_prompt.assemble()
        if kind != "suppressor":
            assert before != after


@pytest.mark.parametrize("kind", CALLS)
async def test_change_fires_once_for_each_registration_and_each_removal(kind: str) -> None:
    """And not again when the effect is disposed again."""
    async with live() as (root, sp):
        changes = count_changes(root)
        effect = CALLS[kind](sp)
        assert len(changes) == 1
        await effect()
        await effect()
        assert len(changes) == 2


async def test_change_is_heard_from_any_scope() -> None:
    """It is unfiltered: a listener of one scope hears of another's registrations."""
    async with live() as (root, _):
        heard: list[str] = []
        create_scope(root, Key("a")).ctx.on("system-prompt/change", lambda: heard.append("a"))
        create_scope(root, Key("b")).ctx.system_prompt.section("s", "x", order=1)
        assert heard == ["a"]


async def test_a_refused_registration_fires_no_change() -> None:
    """Duplicates, bad names, bad orders, bad texts."""
    async with live() as (root, sp):
        sp.section("s", "x", order=1)
        changes = count_changes(root)
        effects = root.fiber.effects()
        for refused in (
            lambda: sp.section("s", "y", order=2),
            lambda: sp.section("", "y", order=2),
            lambda: sp.section("t", "y", order=float("nan")),
            lambda: sp.section("t", 5, order=2),  # type: ignore[call-overload]
            lambda: sp.variable("Bad", "y"),
        ):
            with pytest.raises((ValueError, TypeError)):
                refused()
        assert changes == []
        assert root.fiber.effects() == effects


async def test_a_failed_plugins_registrations_and_their_roll_back_count() -> None:
    """Two registrations and their two removals: four changes."""
    async with live() as (root, _):

        def plugin(ctx: Context) -> None:
            ctx.system_prompt.section("a", "x", order=1)
            ctx.system_prompt.variable("b", "x")
            raise LookupError

        plugin.inject = ["system_prompt"]  # type: ignore[attr-defined]
        changes = count_changes(root)
        assert root.plugin(plugin).state is FiberState.FAILED
        assert len(changes) == 4
        assert names((await root.system_prompt.assemble()).sections) == []


@pytest.mark.parametrize("kind", CALLS)
async def test_a_veto_undoes_the_registration(kind: str) -> None:
    """L5: the first error of a change listener reaches the caller, nothing is left."""

    def veto() -> None:
        raise PermissionError("not now")

    async with live() as (root, sp):
        before = await sp.assemble()
        effects = root.fiber.effects()
        scope = create_scope(root, Key())
        listener = root.on("system-prompt/change", veto)
        for service in (sp, scope.ctx.system_prompt):
            with pytest.raises(PermissionError, match="not now"):
                CALLS[kind](service)
        await listener()
        await scope.dispose()
        assert root.fiber.effects() == effects
        assert await sp.assemble() == before
        CALLS[kind](sp)


async def test_a_veto_of_a_removal_does_not_stop_it() -> None:
    """A disposal never fails; the error is reported."""

    def veto() -> None:
        raise PermissionError("not now")

    async with live() as (root, sp):
        effect = sp.section("s", "x", order=1)
        told: list[str] = []
        root.on("fiber/error", lambda fiber, error: told.append(str(error)))
        root.on("system-prompt/change", veto)
        await effect()
        assert told == ["not now"]
        assert names((await sp.assemble()).sections) == []


async def test_section_context_and_variable_are_decorators() -> None:
    """Without a text they decorate a provider and return it."""
    async with live() as (_, sp):

        @sp.section("rules", order=10)
        def rules() -> str:
            return "by {{who}}"

        @sp.context("now", order=1)
        async def now() -> str:
            return "noon"

        @sp.variable("who")
        def who() -> str:
            return "me"

        assembly = await sp.assemble()
        assert render_prompt(assembly) == "by me"
        assert render_context_snapshot(assembly).endswith("\n\nnoon")
        assert (rules(), who()) == ("by {{who}}", "me")


@pytest.mark.parametrize("kind", ["section", "context"])
@pytest.mark.parametrize("name", ["", None, 5, b"bytes"], ids=repr)
async def test_an_empty_or_wrong_name_is_refused(kind: str, name: Any) -> None:
    """`InvalidNameError`, a `ValueError`, says what a name is."""
    async with live() as (root, sp):
        effects = root.fiber.effects()
        with pytest.raises(InvalidNameError, match="str that is not empty") as caught:
            getattr(sp, kind)(name, "x", order=1)
        assert caught.value.name == name
        assert isinstance(caught.value, ValueError)
        assert root.fiber.effects() == effects


@pytest.mark.parametrize(
    "name",
    ["", "Model", "1a", "a-b", "a b", "model\n", "\nmodel", "ä", "_a", "a.b", None, 5],
    ids=repr,
)
async def test_a_variable_name_is_lower_case_letters_digits_and_underscores(name: Any) -> None:
    """It matches `^[a-z][a-z0-9_]*$` whole, a line break at the end included."""
    async with live() as (root, sp):
        effects = root.fiber.effects()
        with pytest.raises(InvalidNameError, match="lower-case letter") as caught:
            sp.variable(name, "x")
        assert caught.value.name == name
        assert root.fiber.effects() == effects


@pytest.mark.parametrize("name", ["a", "a1", "model_name", "z_", "a" * 200])
async def test_a_good_variable_name(name: str) -> None:
    """What the pattern allows is taken."""
    async with live() as (_, sp):
        sp.variable(name, "x")
        assert (await sp.assemble()).variables == {name: "x"}


@pytest.mark.parametrize("kind", ["section", "context"])
@pytest.mark.parametrize(
    "order",
    [
        float("nan"),
        float("inf"),
        -float("inf"),
        True,
        "10",
        decimal.Decimal(1),
        None,
        1j,
    ],
    ids=repr,
)
async def test_an_order_is_a_finite_int_or_float(kind: str, order: Any) -> None:
    """`InvalidOrderError(of, name, order)`; the message tells the bands."""
    async with live() as (root, sp):
        effects = root.fiber.effects()
        with pytest.raises(InvalidOrderError, match="finite") as caught:
            getattr(sp, kind)("s", "x", order=order)
        assert (caught.value.of, caught.value.name) == (kind, "s")
        assert caught.value.order is order
        assert repr(order) in str(caught.value)
        assert root.fiber.effects() == effects


async def test_order_must_be_given() -> None:
    """It is a keyword without a default."""
    async with live() as (root, sp):
        effects = root.fiber.effects()
        with pytest.raises(TypeError, match="order"):
            sp.section("s", "x")  # type: ignore[call-overload]
        assert root.fiber.effects() == effects


@pytest.mark.parametrize("kind", ["section", "context"])
@pytest.mark.parametrize("text", [5, None, ["x"], b"x", {"a": 1}], ids=repr)
async def test_a_text_is_a_str_or_a_callable(kind: str, text: Any) -> None:
    """Anything else is refused where it is registered."""
    async with live() as (root, sp):
        effects = root.fiber.effects()
        with pytest.raises(ContributionError, match="expected str, or a callable") as caught:
            getattr(sp, kind)("s", text, order=1)
        assert f'{kind} "s"' in str(caught.value)
        assert repr(text) in str(caught.value)
        assert root.fiber.effects() == effects


@pytest.mark.parametrize("value", [5, ["x"], b"x"], ids=repr)
async def test_a_value_is_a_str_or_a_callable(value: Any) -> None:
    """A number is not turned into text behind anybody's back."""
    async with live() as (_, sp):
        with pytest.raises(ContributionError, match='variable "v": expected str'):
            sp.variable("v", value)


async def test_tools_takes_a_callable() -> None:
    """A list is no provider, and the message says what is."""
    async with live() as (root, sp):
        effects = root.fiber.effects()
        with pytest.raises(ContributionError, match="callable"):
            sp.tools([{"name": "t"}])  # type: ignore[arg-type]
        assert root.fiber.effects() == effects


async def test_a_provider_that_needs_more_than_the_context_is_refused() -> None:
    """Found when it is registered, not at the first turn."""
    async with live() as (root, sp):
        effects = root.fiber.effects()
        with pytest.raises(TypeError, match="more than 1"):
            sp.section("s", lambda a, b: "x", order=1)
        assert root.fiber.effects() == effects


@pytest.mark.parametrize("wrong", ["bash", ("",), (5,)], ids=repr)
async def test_requires_tools_is_a_collection_of_names(wrong: Any) -> None:
    """A string is not a list of letters."""
    async with live() as (_, sp):
        with pytest.raises(ContributionError, match="requires_tools"):
            sp.section("s", "x", order=1, requires_tools=wrong)


@pytest.mark.parametrize("wrong", [0, -1, "5", True, float("nan")], ids=repr)
async def test_a_timeout_is_seconds_above_zero(wrong: Any) -> None:
    """Refused with what came."""
    async with live() as (_, sp):
        with pytest.raises(ContributionError, match="timeout"):
            sp.section("s", lambda: "x", order=1, optional=True, timeout=wrong)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("section", 'prompt section "dup"'),
        ("context", 'runtime context "dup"'),
        ("variable", 'prompt variable "dup"'),
    ],
)
@pytest.mark.parametrize("layer", ["global", "scope"])
async def test_the_same_name_twice_in_one_layer(kind: str, said: str, layer: str) -> None:
    """`DuplicateRegistrationError` with its facts; the first stays, other layers are free."""
    async with live() as (root, sp):
        scope = create_scope(root, Key())
        here, there = (sp, scope.ctx.system_prompt)[:: 1 if layer == "global" else -1]
        options = {} if kind == "variable" else {"order": 1}

        def register(service: Any, text: str) -> Effect:
            return getattr(service, kind)("dup", text, **options)  # type: ignore[no-any-return]

        first = register(here, "first")
        with pytest.raises(DuplicateRegistrationError) as caught:
            register(here, "second")
        assert (caught.value.of, caught.value.name, caught.value.layer) == (kind, "dup", layer)
        assert str(caught.value).startswith(f"{said} is already registered")
        assert ("in this scope" in str(caught.value)) == (layer == "scope")
        assert ("agent's context" in str(caught.value)) == (layer == "global")
        register(there, "elsewhere")
        await first()
        register(here, "again")


async def test_two_plugins_with_the_same_section() -> None:
    """The second fails, with both names in reach; the first goes on."""

    def plugin(ctx: Context) -> None:
        ctx.system_prompt.section("rules", "x", order=1)

    plugin.inject = ["system_prompt"]  # type: ignore[attr-defined]
    async with live() as (root, sp):
        root.plugin(plugin)
        second = root.plugin(plugin)
        with pytest.raises(DuplicateRegistrationError, match='"rules"') as caught:
            await second
        assert 'plugin "plugin"' in "\n".join(caught.value.__notes__)
        assert names((await sp.assemble()).sections) == ["rules"]


async def test_nothing_is_registered_through_a_disposed_plugin() -> None:
    """L4, seen from the service."""
    contexts: list[Context] = []

    def plugin(ctx: Context) -> None:
        contexts.append(ctx)

    plugin.inject = ["system_prompt"]  # type: ignore[attr-defined]
    async with live() as (root, sp):
        fiber = root.plugin(plugin)
        service = contexts[0].system_prompt
        await fiber.dispose()
        changes = count_changes(root)
        for call in CALLS.values():
            with pytest.raises(InactiveFiberError):
                call(service)
        assert changes == []
        assert names((await sp.assemble()).sections) == []


async def test_two_complete_sections_may_be_registered_but_not_assembled() -> None:
    """`MultipleCompleteSectionsError(names)` comes at assembly, and names both."""
    async with live() as (_, sp):
        sp.section("one", "x", order=1, complete=True)
        second = sp.section("two", "x", order=2, complete=True)
        with pytest.raises(MultipleCompleteSectionsError) as caught:
            await sp.assemble()
        assert caught.value.names == ["one", "two"]
        assert '"one", "two"' in str(caught.value)
        await second()
        assert names((await sp.assemble()).sections) == ["one"]
