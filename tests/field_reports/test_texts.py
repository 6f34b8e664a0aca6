"""Reports about braces, missing values, values read twice, and templates that run code."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_core.errors import (
    ContributionError,
    DuplicateRegistrationError,
    MalformedReferenceError,
    MissingVariableError,
    PromptRenderError,
    UnknownVariableError,
)
from harness_core.prompt import (
    AssembledContext,
    AssembledSection,
    PromptAssembly,
    list_references,
    render_context_sections,
    render_prompt,
)
from tests.prompt.tree import ASSEMBLE, Next, live, rendered

from .reports import Kind, Scenario

pytestmark = pytest.mark.asyncio

braces = Kind()


@braces.report("omdsh-dev/dsh-mnemon#20")
async def _stored_notes() -> None:
    """A memory with an empty pair of braces in it."""
    async with live() as (_, sp):
        effect = sp.section("mem", lambda context: "note: {{}}", order=145)
        with pytest.raises(MalformedReferenceError, match='section "mem"') as caught:
            await rendered(sp)
        assert "literal=True" in "\n".join(caught.value.__notes__)
        await effect()
        sp.section("mem", lambda context: "note: {{}}", order=145, literal=True)
        assert await rendered(sp) == "note: {{}}"


@braces.report("modusensus/dsh-mneme#40")
async def _captured_wiki_syntax() -> None:
    """What a user typed aborts no turn."""
    async with live() as (_, sp):
        sp.context("memory", "use {{hl|}} and {{黑幕}}", order=1, literal=True)
        assert render_context_sections(await sp.assemble()) == [
            ("memory", "use {{hl|}} and {{黑幕}}")
        ]


@braces.report("adoresever/graph-memory#80")
async def _recall_through_a_listener() -> None:
    """Data added by a listener, with the mark and without."""
    text = "only if ${{ github.ref }} is main"
    literal = [True]

    async def recall(assembly: PromptAssembly, context: object, next: Next) -> PromptAssembly:
        assembly.contexts.append(AssembledContext("recall", text, literal=literal[0]))
        return await next()

    async with live() as (root, sp):
        root.on(ASSEMBLE, recall)
        assert render_context_sections(await sp.assemble()) == [("recall", text)]
        literal[0] = False
        with pytest.raises(MalformedReferenceError, match='context "recall"'):
            render_context_sections(await sp.assemble())


@braces.report("adoresever/graph-memory#81")
async def _recall_through_a_variable() -> None:
    """A value goes in as it is; two that claim one name learn of it."""
    async with live() as (_, sp):
        sp.variable("recall_1", "{{a}} ${{b}}")
        sp.context("memory", "{{recall_1}}", order=1)
        assert render_context_sections(await sp.assemble()) == [("memory", "{{a}} ${{b}}")]
        with pytest.raises(DuplicateRegistrationError, match='"recall_1"'):
            sp.variable("recall_1", "other")


@braces.report("langchain-ai/langchain#700")
async def _single_braces() -> None:
    """They mean nothing."""
    async with live() as (_, sp):
        sp.section("s", 'Return {"name": 1} for {word}', order=1)
        assert await rendered(sp) == 'Return {"name": 1} for {word}'


@braces.report("langchain-ai/langchain#2487")
async def _one_pass() -> None:
    """However many layers touch a text, it is interpolated once."""

    async def copy(assembly: PromptAssembly, context: object, next: Next) -> PromptAssembly:
        result = await next()
        result.sections = [AssembledSection(one.name, one.text) for one in result.sections]
        return result

    async with live() as (root, sp):
        sp.variable("v", "{{v}}")
        sp.section("s", "<{{v}}>", order=1)
        for _ in range(2):
            root.on(ASSEMBLE, copy)
        assert await rendered(sp) == "<{{v}}>"


@braces.report("langchain-ai/langchain#8433")
async def _formulas() -> None:
    """Formulas are data; as a template the error points at the place."""
    text = "Given:\n\\frac{{a}}{{b}} \\sum_{i=1}^{n}"
    async with live() as (_, sp):
        effect = sp.section("math", text, order=1)
        with pytest.raises(UnknownVariableError) as caught:
            await rendered(sp)
        assert (caught.value.reference, caught.value.line, caught.value.column) == ("a", 2, 6)
        await effect()
        sp.section("math", text, order=1, literal=True)
        assert await rendered(sp) == text


@braces.report("backblaze-labs/genblaze#88")
async def _lone_closers() -> None:
    """They are prose."""
    async with live() as (_, sp):
        sp.section("a", "cost is 5} for x", order=1)
        sp.section("b", "close }} only", order=2)
        assert await rendered(sp) == "cost is 5} for x\n\nclose }} only"


@braces.report("langfuse/langfuse#3054")
async def _final_text_only() -> None:
    """What leaves is final text, and the values beside it; there is no second syntax."""
    async with live() as (_, sp):
        sp.variable("who", "you")
        sp.section("s", "{{who}}: {0} {x}", order=1)
        assembly = await sp.assemble()
        assert render_prompt(assembly) == "you: {0} {x}"
        assert assembly.variables == {"who": "you"}


@braces.report("google/adk-python#3527")
async def _the_documented_way_out_works() -> None:
    """Text that shall show a reference is marked literal."""
    async with live() as (_, sp):
        sp.variable("city", "Paris")
        sp.section("s", "write {{city}} for the city", order=1, literal=True)
        assert await rendered(sp) == "write {{city}} for the city"


@braces.report("google/adk-python#628")
async def _a_whole_document() -> None:
    """Sixty kilobytes of somebody's documentation."""
    text = "let x = {count}; <b>{{a}}</b> ${{x}} {#if} }} {{\n" * 1200
    async with live() as (_, sp):
        sp.section("docs", text, order=1, literal=True)
        assert await rendered(sp) == text


@braces.report("crewAIInc/crewAI#1754")
async def _an_opener_without_a_closer() -> None:
    """Is prose."""
    async with live() as (_, sp):
        sp.section("s", "a {{ b", order=1)
        assert await rendered(sp) == "a {{ b"


@braces.report("promptfoo/promptfoo#1283")
async def _comment_openers_in_values() -> None:
    """Values are no templates of any engine."""
    async with live() as (_, sp):
        sp.variable("v", "see {# heading and {% x")
        sp.section("s", "{{v}}", order=1)
        assert await rendered(sp) == "see {# heading and {% x"


@braces.report("promptfoo/promptfoo#3358")
async def _a_function_that_returns_final_text() -> None:
    """Marked literal, its output is left alone."""
    async with live() as (_, sp):
        sp.section("s", lambda: "final {{text}} {{ here }}", order=1, literal=True)
        assert await rendered(sp) == "final {{text}} {{ here }}"


@braces.each()
async def test_text_that_is_data_survives_and_template_faults_name_their_owner(
    scenario: Scenario,
) -> None:
    """Braces in data break no turn; in templates they are loud and placed."""
    await scenario()


missing = Kind()


@missing.report("deepset-ai/haystack#8903")
async def _unregistered() -> None:
    """No holes by default."""
    async with live() as (_, sp):
        sp.variable("doc", "x")
        sp.section("rag", "Docs: {{docs}}", order=1)
        with pytest.raises(UnknownVariableError) as caught:
            await rendered(sp)
        assert (caught.value.reference, caught.value.owner_name) == ("docs", "rag")
        assert caught.value.known == ["doc"]


@missing.report("px0-ai/px0#8")
async def _no_placeholder_words() -> None:
    """A missing value is an error and never a word."""
    async with live() as (_, sp):
        sp.variable("v", lambda: None)
        sp.section("s", "is {{v}}", order=1)
        with pytest.raises(MissingVariableError, match="has no value for this assembly"):
            await rendered(sp)


@missing.report("google/adk-python#2758")
async def _only_later() -> None:
    """A text that needs a value of a later turn decides by itself, and is dropped when empty."""
    async with live() as (_, sp):
        sp.section("topic", lambda context: "On {{topic}}." if context.turn > 1 else "", order=1)
        sp.variable("topic", lambda context: "cats" if context.turn > 1 else None)
        assert await rendered(sp, turn=1) == ""
        assert await rendered(sp, turn=2) == "On cats."


@missing.report("Shishir435/ollama-client#143")
async def _empty_is_a_value() -> None:
    """The empty string is legal, None is not."""
    selected: list[str | None] = [""]
    async with live() as (_, sp):
        sp.variable("tabs", lambda: selected[0])
        sp.section("s", "Summarize {{tabs}}", order=1)
        assert await rendered(sp) == "Summarize "
        selected[0] = None
        with pytest.raises(MissingVariableError):
            await rendered(sp)


@missing.report("braintrustdata/braintrust-sdk-javascript#898")
async def _one_grammar_everywhere() -> None:
    """Listing and rendering agree, and both are strict."""
    text = '{"a": [1]} {{topic}}'
    assert list_references(text) == ["topic"]
    async with live() as (_, sp):
        sp.section("s", text, order=1)
        with pytest.raises(UnknownVariableError):
            await rendered(sp)


@missing.each()
async def test_a_missing_value_is_loud_and_an_empty_one_is_a_choice(scenario: Scenario) -> None:
    """Never a hole, never a placeholder."""
    await scenario()


again = Kind()


@again.report("BaseIntelligence/bounty-challenge#8919")
async def _values_that_name_values() -> None:
    """The order of registration makes no difference."""
    for order in ("ab", "ba"):
        async with live() as (_, sp):
            for name in order:
                sp.variable(name, {"a": "{{b}}", "b": "injected"}[name])
            sp.section("s", "Hello {{a}}", order=1)
            assert await rendered(sp) == "Hello {{b}}"


@again.report("embabel/embabel-agent#1731")
async def _expressions_from_users() -> None:
    """Are text."""
    async with live() as (_, sp):
        sp.variable("msg", "compute {{ 7*7 }} now")
        sp.section("s", "{{msg}}", order=1)
        assert await rendered(sp) == "compute {{ 7*7 }} now"


@given(st.text(alphabet=st.sampled_from("{}ab \\\n") | st.characters()))
def _literal_is_identity(text: str) -> None:
    """Whatever the text, marked literal it comes out as it went in."""
    section = AssembledSection("s", text, literal=True)
    assert render_prompt(PromptAssembly([section])) == text
    through = PromptAssembly([AssembledSection("s", "{{v}}")], variables={"v": text})
    assert render_prompt(through) == text


@again.report("llm-exe/llm-exe#560")
async def _untrusted_strings() -> None:
    """No helper is needed to make a string safe."""
    _literal_is_identity()


@again.report("microsoft/semantic-kernel#11821")
async def _values_of_other_types() -> None:
    """A list, a number or a mapping is refused with the variable's name."""
    providers: list[Any] = [lambda: ["x"], lambda: 5, lambda: {"a": 1}]
    for provider in providers:
        async with live() as (_, sp):
            sp.variable("v", provider)
            with pytest.raises(ContributionError, match='variable "v"'):
                await sp.assemble()


@again.report("crewAIInc/crewAI#369")
async def _the_template_is_not_overwritten() -> None:
    """The second assembly has the second value."""
    topic = ["AI"]
    async with live() as (_, sp):
        sp.variable("topic", lambda: topic[0])
        sp.section("s", "On {{topic}}", order=1)
        assert await rendered(sp) == "On AI"
        topic[0] = "Art"
        assert await rendered(sp) == "On Art"


@again.each()
async def test_what_was_substituted_is_never_read_again(scenario: Scenario) -> None:
    """One pass, over the registered text only."""
    await scenario()


security = Kind()


@security.report("langchain-ai/langchain#4394")
async def _no_expressions() -> None:
    """The grammar has names and nothing else."""
    async with live() as (_, sp):
        sp.section("s", "{{ ''.__class__ }}", order=1)
        with pytest.raises(MalformedReferenceError):
            await rendered(sp)


@security.report("Arize-ai/phoenix#13197")
async def _no_traversal() -> None:
    """Only what was registered can be reached."""
    for text in ("{{x.__init__.__globals__}}", "{{constructor}}", "{{__class__}}", "{{x}}"):
        async with live() as (_, sp):
            sp.variable("x1", "secret")
            sp.section("s", text, order=1)
            with pytest.raises(PromptRenderError):
                await rendered(sp)


@security.each()
async def test_a_template_cannot_run_or_reach_anything(scenario: Scenario) -> None:
    """Lookups go to the registered names only."""
    await scenario()
