"""Providers: sync or async, with the context or without, and what they may return."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from harness_core import create_scope
from harness_core.errors import ContributionError
from harness_core.prompt import AssembleContext, render_context_snapshot, render_prompt

from .tree import Key, live, names

pytestmark = pytest.mark.asyncio


class AsyncCall:
    """An object with an asynchronous call."""

    async def __call__(self, context: AssembleContext) -> str:
        await anyio.lowlevel.checkpoint()
        return "called"


async def with_prefix(prefix: str, context: AssembleContext) -> str:
    """Be the function of a partial."""
    return f"{prefix} {context.model}"


async def plain() -> str:
    """Take nothing, asynchronously."""
    return "plain"


PROVIDERS: dict[str, tuple[Callable[..., object], str]] = {
    "sync, nothing": (lambda: "x", "x"),
    "sync, context": (lambda context: context.model, "m-1"),
    "async, nothing": (plain, "plain"),
    "async, context": (functools.partial(with_prefix, "p"), "p m-1"),
    "async call": (AsyncCall(), "called"),
    "bound default": (lambda word="bound": word, "bound"),
    "var-positional": (lambda *args: str(len(args)), "1"),
}


@pytest.mark.parametrize("form", PROVIDERS)
@pytest.mark.parametrize("kind", ["section", "context", "variable"])
async def test_every_form_of_provider(kind: str, form: str) -> None:
    """Awaited by looking at the result; never rendered as a coroutine."""
    provider, expected = PROVIDERS[form]
    async with live() as (_, sp):
        if kind == "variable":
            sp.variable("v", provider)
            assert (await sp.assemble(model="m-1")).variables == {"v": expected}
        else:
            getattr(sp, kind)("s", provider, order=1)
            assembly = await sp.assemble(model="m-1")
            items = assembly.sections if kind == "section" else assembly.contexts
            assert [one.text for one in items if one.name == "s"] == [expected]


async def test_providers_are_called_at_every_assembly() -> None:
    """Nothing is cached: sections, contexts, variables and tools alike, once each."""
    calls: list[str] = []

    def provider(kind: str) -> Callable[[], Any]:
        def provide() -> Any:
            calls.append(kind)
            return [] if kind == "tools" else "x"

        return provide

    async with live() as (_, sp):
        sp.section("s", provider("section"), order=1)
        sp.context("c", provider("context"), order=1)
        sp.variable("v", provider("variable"))
        sp.tools(provider("tools"))
        for _ in range(3):
            await sp.assemble()
        assert sorted(calls) == ["context"] * 3 + ["section"] * 3 + ["tools"] * 3 + ["variable"] * 3


async def test_a_text_provider_that_returns_none_counts_as_empty() -> None:
    """Its block is dropped from the rendered text, sync and async."""

    async def nothing() -> None: ...

    async with live() as (_, sp):
        sp.section("a", lambda: None, order=1)
        sp.section("b", nothing, order=2)
        sp.section("c", "text", order=3)
        sp.context("d", nothing, order=1)
        assembly = await sp.assemble()
        assert render_prompt(assembly) == "text"
        assert render_context_snapshot(assembly) == ""
        assert [one.text for one in assembly.sections[1:]] == ["", "", "text"]


async def test_a_variable_provider_may_return_none() -> None:
    """No value for this assembly: the name is there, the value is None."""

    async def nothing() -> None: ...

    async with live() as (_, sp):
        sp.variable("a", lambda: None)
        sp.variable("b", nothing)
        assert (await sp.assemble()).variables == {"a": None, "b": None}


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("kind", ["section", "context", "variable"])
@pytest.mark.parametrize("wrong", [5, [], b"x", True], ids=repr)
async def test_a_provider_that_returns_something_else_fails_the_assembly(
    kind: str, wrong: Any, asynchronous: bool
) -> None:
    """`ContributionError`, a `TypeError`: what came, from which part of which plugin."""

    async def later() -> Any:
        return wrong

    provider = later if asynchronous else lambda: wrong
    async with live() as (_, sp):
        if kind == "variable":
            effect = sp.variable("s", provider)
        else:
            effect = getattr(sp, kind)("s", provider, order=1)
        with pytest.raises(ContributionError) as caught:
            await sp.assemble()
        assert isinstance(caught.value, TypeError)
        text = str(caught.value)
        assert f'{kind} "s"' in text
        assert repr(wrong) in text
        assert "str" in text
        assert 'plugin "root"' in "\n".join(caught.value.__notes__)
        await effect()
        await sp.assemble()


async def test_what_an_async_provider_returns_is_not_awaited_again() -> None:
    """A coroutine is awaited once, and what comes must be text."""
    inner = plain()

    async def outer() -> object:
        return inner

    async with live() as (_, sp):
        sp.section("s", outer, order=1)
        with pytest.raises(ContributionError, match=r'section "s".*coroutine'):
            await sp.assemble()
    inner.close()


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("kind", ["section", "context", "variable", "tools"])
async def test_a_raising_provider_fails_the_assembly_and_names_its_owner(
    kind: str, asynchronous: bool
) -> None:
    """L9: its own exception, with plugin, part and scope in a note; the next one may succeed."""

    def now() -> Any:
        raise LookupError("planned")

    async def later() -> Any:
        await anyio.lowlevel.checkpoint()
        raise LookupError("planned")

    provider = later if asynchronous else now

    def plugin(ctx: Any) -> None:
        sp = ctx.system_prompt
        if kind == "tools":
            sp.tools(provider)
        elif kind == "variable":
            sp.variable("s", provider)
        else:
            getattr(sp, kind)("s", provider, order=1)

    plugin.inject = ["system_prompt"]  # type: ignore[attr-defined]
    async with live() as (root, sp):
        key = Key("agent-1")
        fiber = create_scope(root, key).ctx.plugin(plugin)
        with pytest.raises(LookupError, match="planned") as caught:
            await sp.assemble(scope=key)
        note = "\n".join(caught.value.__notes__)
        assert 'plugin "plugin"' in note
        assert "<agent-1>" in note
        assert (f'{kind} "s"' if kind != "tools" else "tools") in note
        await fiber.dispose()
        await sp.assemble(scope=key)


async def test_sync_providers_run_in_order_and_async_ones_concurrently() -> None:
    """Every result stands in its place, whichever ends first."""
    journal: list[str] = []
    first_may_end = anyio.Event()

    async def first() -> str:
        journal.append("first begins")
        await first_may_end.wait()
        journal.append("first ends")
        return "1"

    def second() -> str:
        journal.append("second")
        return "2"

    async def third() -> str:
        journal.append("third")
        first_may_end.set()
        return "3"

    def fourth() -> str:
        journal.append("fourth")
        return "4"

    async with live() as (_, sp):
        for order, provider in enumerate((first, second, third, fourth)):
            sp.section(f"s{order}", provider, order=order + 1)
        with anyio.fail_after(5):
            assembly = await sp.assemble()
        assert render_prompt(assembly) == "1\n\n2\n\n3\n\n4"
        assert journal.index("second") < journal.index("fourth")
        assert journal[-1] == "first ends"


async def test_the_first_failure_in_order_is_the_one_raised() -> None:
    """Others are cancelled, and none is left running."""
    journal: list[str] = []

    async def hang() -> str:
        try:
            await anyio.sleep_forever()
        finally:
            journal.append("cancelled")
        return ""

    async def fail() -> str:
        raise LookupError("planned")

    async with live() as (_, sp):
        sp.section("a", hang, order=1)
        sp.section("b", fail, order=2)
        with anyio.fail_after(5), pytest.raises(LookupError, match="planned"):
            await sp.assemble()
        assert journal == ["cancelled"]


async def test_a_sync_failure_leaves_no_coroutine_unawaited() -> None:
    """Async providers called before it are closed."""

    async def never() -> str:
        return "x"

    def fail() -> str:
        raise LookupError("planned")

    async with live() as (_, sp):
        sp.section("a", never, order=1)
        sp.section("b", fail, order=2)
        with pytest.raises(LookupError):
            await sp.assemble()


async def test_cancelling_an_assembly_cancels_its_providers() -> None:
    """And the next assembly is none the worse."""
    journal: list[str] = []

    async def hang() -> str:
        try:
            await anyio.sleep_forever()
        finally:
            journal.append("cancelled")
        return ""

    async with live() as (_, sp):
        effect = sp.section("a", hang, order=1)
        with anyio.move_on_after(0.01) as cancel_scope:
            await sp.assemble()
        assert cancel_scope.cancelled_caught
        assert journal == ["cancelled"]
        await effect()
        assert names((await sp.assemble()).sections) == []


async def test_a_nested_assembly_inside_a_provider_works() -> None:
    """A provider may assemble another scope, and shares no state with its own."""
    async with live() as (root, sp):
        key = Key()
        create_scope(root, key).ctx.system_prompt.section("inner", "inner text", order=1)

        async def nested(context: AssembleContext) -> str:
            if context.scope is key:
                return ""
            return f"[{render_prompt(await sp.assemble(scope=key))}]"

        sp.section("outer", nested, order=2)
        assert render_prompt(await sp.assemble()) == "[inner text]"
