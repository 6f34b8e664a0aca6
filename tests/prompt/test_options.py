"""`literal`, `requires_tools`, `optional` and `timeout`: what a text may ask for itself."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pytest

from harness_core import create_scope
from harness_core.errors import MalformedReferenceError
from harness_core.prompt import (
    AssembledContext,
    AssembledSection,
    Origin,
    PromptAssembly,
    ToolSchema,
    render_context_snapshot,
    render_prompt,
)

from .tree import Key, live, names, texts

pytestmark = pytest.mark.asyncio

DATA = 'JSON {"a": {"b": 1}} ${{ github.ref }} {{}} {{{x}}} {{model}} {% x %} {# y #}'


@pytest.mark.parametrize("form", ["text", "provider"])
async def test_literal_text_is_never_scanned(form: str) -> None:
    """In sections and contexts, fixed or provided; the record carries the flag."""
    text: Any = DATA if form == "text" else lambda: DATA
    async with live() as (_, sp):
        sp.variable("model", "m-1")
        sp.section("s", text, order=1, literal=True)
        sp.context("c", text, order=1, literal=True)
        assembly = await sp.assemble()
        assert render_prompt(assembly) == DATA
        assert render_context_snapshot(assembly).partition("\n\n")[2] == DATA
        assert assembly.sections[-1].literal is True
        assert assembly.contexts[0].literal is True
        assert assembly.sections[0].literal is False


async def test_without_the_mark_the_same_text_is_an_error_that_names_the_section() -> None:
    """Strict is the default, and the note tells of `literal`."""
    async with live() as (_, sp):
        sp.section("s", DATA, order=1)
        with pytest.raises(MalformedReferenceError, match='section "s"') as caught:
            render_prompt(await sp.assemble())
        assert "literal=True" in "\n".join(caught.value.__notes__)


async def test_a_listener_adds_data_too() -> None:
    """`AssembledSection(..., literal=True)` from a waterfall."""

    async def listen(assembly: PromptAssembly, context: object, next: Any) -> object:
        assembly.sections.append(AssembledSection("s", DATA, literal=True))
        assembly.contexts.append(AssembledContext("c", DATA, literal=True))
        return await next()

    async with live() as (root, sp):
        root.on("system-prompt/assemble", listen)
        assembly = await sp.assemble()
        assert render_prompt(assembly) == DATA
        assert render_context_snapshot(assembly).endswith(DATA)


@pytest.mark.parametrize("kind", ["section", "context"])
async def test_requires_tools_takes_part_only_where_all_are_visible(kind: str) -> None:
    """In this very assembly; otherwise its provider is not even called."""
    called: list[str] = []
    visible: list[str] = []
    async with live() as (_, sp):
        sp.tools(lambda: [ToolSchema(name) for name in visible])
        getattr(sp, kind)(
            "s", lambda: called.append("s") or "x", order=1, requires_tools=("bash", "read")
        )

        async def there() -> bool:
            assembly = await sp.assemble()
            return "s" in names(assembly.sections + assembly.contexts)

        for now, expected in (
            ([], False),
            (["bash"], False),
            (["read"], False),
            (["read", "bash", "x"], True),
        ):
            visible[:] = now
            called.clear()
            assert await there() is expected
            assert called == (["s"] if expected else [])


async def test_guidance_follows_the_tools_of_its_scope() -> None:
    """No guidance outlives its tool: one agent has it, the other does not."""
    async with live() as (root, sp):
        sp.section("guide", "use bash", order=100, requires_tools=["bash"])
        with_bash, without = Key("with"), Key("without")
        create_scope(root, with_bash).ctx.system_prompt.tools(lambda: [ToolSchema("bash")])
        create_scope(root, without)
        assert texts(await sp.assemble(scope=with_bash)) == ["use bash"]
        assert texts(await sp.assemble(scope=without)) == [""]


async def test_a_complete_section_whose_tools_are_hidden_does_not_take_part() -> None:
    """It replaces nothing then: the others are the prompt, not an empty one (L10)."""
    async with live() as (_, sp):
        sp.section("all", "everything", order=1, complete=True, requires_tools=["bash"])
        sp.section("other", "other", order=2)
        assert texts(await sp.assemble()) == ["other"]
        sp.tools(lambda: [ToolSchema("bash")])
        assert texts(await sp.assemble()) == ["everything"]


async def test_an_optional_complete_section_that_fails_replaces_nothing() -> None:
    """It is left out, and the assembly goes on with the others."""

    def fail() -> str:
        raise LookupError("planned")

    async with live() as (_, sp):
        sp.section("all", fail, order=1, complete=True, optional=True)
        sp.section("other", "other", order=2)
        assert texts(await sp.assemble()) == ["other"]


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("kind", ["section", "context"])
async def test_an_optional_part_that_fails_is_left_out_and_reported(
    kind: str, asynchronous: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Event, log and `explain()`; the assembly goes on without it."""

    def now() -> str:
        raise LookupError("planned")

    async def later() -> str:
        raise LookupError("planned")

    told: list[tuple[Origin, BaseException]] = []
    async with live() as (root, sp):
        root.on(
            "system-prompt/contribution-failed", lambda origin, error: told.append((origin, error))
        )
        getattr(sp, kind)("s", later if asynchronous else now, order=1, optional=True)
        sp.section("other", "other", order=2)
        with caplog.at_level(logging.WARNING, "harness_core"):
            assembly = await sp.assemble()
        assert names(assembly.sections + assembly.contexts) == ["other"]
        ((origin, error),) = told
        assert (origin.kind, origin.name, origin.plugin) == (kind, "s", "root")
        assert str(error) == "planned"
        assert f'{kind} "s"' in caplog.text
        (explained,) = [one for one in assembly.explain() if one.status == "failed"]
        assert (explained.kind, explained.name) == (kind, "s")
        assert "LookupError: planned" in explained.reason


@pytest.mark.parametrize("wrong", [5, ["x"]], ids=repr)
async def test_an_optional_part_with_a_wrong_result_is_left_out(wrong: Any) -> None:
    """A wrong type is a failure like another."""
    async with live() as (_, sp):
        sp.section("s", lambda: wrong, order=1, optional=True)
        assert names((await sp.assemble()).sections) == []


async def test_a_timeout_cuts_an_optional_part_short() -> None:
    """It is cancelled, left out, and the reason says how long it had."""
    journal: list[str] = []

    async def hang() -> str:
        try:
            await anyio.sleep_forever()
        finally:
            journal.append("cancelled")
        return ""

    async with live() as (_, sp):
        sp.section("s", hang, order=1, optional=True, timeout=0.01)
        sp.context("c", hang, order=1, optional=True, timeout=0.01)
        sp.section("other", "other", order=2)
        with anyio.fail_after(5):
            assembly = await sp.assemble()
        assert names(assembly.sections + assembly.contexts) == ["other"]
        assert journal == ["cancelled", "cancelled"]
        reasons = [one.reason for one in assembly.explain() if one.status == "failed"]
        assert len(reasons) == 2
        assert all("0.01 s" in reason for reason in reasons)


async def test_a_timeout_without_optional_fails_the_assembly() -> None:
    """With the owner's name."""
    async with live() as (_, sp):
        sp.section("s", anyio.sleep_forever, order=1, timeout=0.01)
        with anyio.fail_after(5), pytest.raises(TimeoutError, match=r"0\.01 s") as caught:
            await sp.assemble()
        assert 'section "s"' in "\n".join(caught.value.__notes__)


async def test_a_provider_within_its_timeout_is_taken() -> None:
    """The limit only limits."""

    async def quick() -> str:
        return "x"

    async with live() as (_, sp):
        sp.section("s", quick, order=1, optional=True, timeout=5)
        assert texts(await sp.assemble()) == ["x"]


async def test_an_optional_part_that_succeeds_is_like_any_other() -> None:
    """And one that failed once is tried again."""
    broken = [True]

    def sometimes() -> str:
        if broken[0]:
            raise LookupError
        return "x"

    async with live() as (_, sp):
        sp.section("s", sometimes, order=1, optional=True)
        assert texts(await sp.assemble()) == [""]
        broken[0] = False
        assert texts(await sp.assemble()) == ["x"]
