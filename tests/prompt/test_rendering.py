"""Rendering: pure functions of an assembly, with a strict grammar of references."""

from __future__ import annotations

import contextlib
import pickle
import re

import pytest

from harness_core.errors import (
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
    render_context_snapshot,
    render_prompt,
    template,
)
from harness_core.prompt.template import parse

PREAMBLE = "Current runtime context. This snapshot supersedes earlier runtime-context snapshots."


def render(text: str, **variables: str | None) -> str:
    """Render one section named s."""
    return render_prompt(
        PromptAssembly(sections=[AssembledSection("s", text)], variables=dict(variables))
    )


def test_sections_are_joined_with_one_blank_line_and_empty_ones_dropped() -> None:
    """Empty as it comes out, not as it was written."""
    sections = [
        AssembledSection("a", "one"),
        AssembledSection("b", ""),
        AssembledSection("c", "{{v}}"),
        AssembledSection("d", "two"),
    ]
    assert render_prompt(PromptAssembly(sections=sections, variables={"v": ""})) == "one\n\ntwo"
    assert render_prompt(PromptAssembly()) == ""
    assert render_prompt(PromptAssembly(sections=sections[1:2])) == ""


def test_contexts_are_pairs_and_a_snapshot_under_a_preamble() -> None:
    """`(name, text)` of the non-empty ones; the empty string where there is none."""
    contexts = [
        AssembledContext("a", "one {{v}}"),
        AssembledContext("b", ""),
        AssembledContext("c", "{{v}}", literal=True),
    ]
    assembly = PromptAssembly(contexts=contexts, variables={"v": "x"})
    assert render_context_sections(assembly) == [("a", "one x"), ("c", "{{v}}")]
    assert render_context_snapshot(assembly) == f"{PREAMBLE}\n\none x\n\n{{{{v}}}}"
    assert render_context_snapshot(PromptAssembly()) == ""
    assert render_context_snapshot(PromptAssembly(contexts=contexts[1:2])) == ""


def test_rendering_changes_nothing() -> None:
    """Pure: twice the same, and the assembly as before."""
    assembly = PromptAssembly(
        sections=[AssembledSection("s", "{{v}}")],
        contexts=[AssembledContext("c", "{{v}}")],
        variables={"v": "x"},
    )
    for function in (render_prompt, render_context_snapshot, render_context_sections):
        assert function(assembly) == function(assembly)
    assert assembly.sections[0].text == "{{v}}"
    assert assembly.variables == {"v": "x"}


def test_whitespace_is_kept_as_written() -> None:
    """Also around, and in values."""
    assert render("  a \n\n\t{{v}}  \r\n", v=" x\n") == "  a \n\n\t x\n  \r\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{a}}", "1"),
        ("{{a}}{{b2_c}}", "12"),
        ("x{{a}}y{{a}}z", "x1y1z"),
        ("{{a}}}", "1}"),
        ("{{a}}}}", "1}}"),
        ("}}", "}}"),
        ("}} {{a}}", "}} 1"),
        ("{{a}} {{", "1 {{"),
        ("{{", "{{"),
        ("a {{ b", "a {{ b"),
        ("{{{", "{{{"),
        ("{a}", "{a}"),
        ('{"a": 1}', '{"a": 1}'),
        ("{ {a} }", "{ {a} }"),
        ("{", "{"),
        ("", ""),
    ],
)
def test_what_a_reference_is_and_what_is_prose(text: str, expected: str) -> None:
    """`{{name}}` exactly; an opener without a later closer, and a stray closer, are prose."""
    assert render(text, a="1", b2_c="2") == expected


@pytest.mark.parametrize(
    "text",
    [
        "{{ a }}",
        "{{}}",
        "{{A}}",
        "{{Model}}",
        "{{a-b}}",
        "{{a.b}}",
        "{{1a}}",
        "{{a }}",
        "{{a\n}}",
        "{{ä}}",
        "{{_a}}",
        "{{{a}}}",
        "{{{{a}}}}",
        "{{a{b}}",
        "{{a}b}}",
        "{{ x }}{{a}}",
        "{{ and later }}",
        "{{#if a}}",
        "{{7*7}}",
        "{{''.__class__}}",
        "{{x.__init__.__globals__}}",
    ],
)
def test_malformed_references(text: str) -> None:
    """A complete group that is no name, or an opener of no group with a closer still to come."""
    with pytest.raises(MalformedReferenceError) as caught:
        render(text, a="1", model="m")
    error = caught.value
    assert isinstance(error, PromptRenderError)
    assert (error.owner_kind, error.owner_name) == ("section", "s")
    assert error.reference in text
    assert 'section "s"' in str(error)
    assert "{{name}}" in str(error)
    assert (error.line, error.column) == (1, 1)


def test_an_unknown_variable_lists_the_known_and_suggests_the_closest() -> None:
    """`UnknownVariableError` with its facts; the place is noted."""
    assembly = PromptAssembly(
        sections=[AssembledSection("persona", "Hi,\n  {{modle}}")],
        variables={"cwd": "x", "model": "m"},
    )
    with pytest.raises(UnknownVariableError) as caught:
        render_prompt(assembly)
    error = caught.value
    assert str(error) == (
        'unknown prompt variable "{{modle}}" in section "persona"; registered variables: '
        'cwd, model; did you mean "{{model}}"?'
    )
    assert (error.reference, error.owner_kind, error.owner_name) == ("modle", "section", "persona")
    assert error.known == ["cwd", "model"]
    assert (error.line, error.column, error.offset) == (2, 3, 6)
    assert "line 2, column 3" in error.__notes__[0]
    again = pickle.loads(pickle.dumps(error))
    assert (again.known, again.line, str(again)) == (error.known, 2, str(error))


def test_an_unknown_variable_where_there_is_none() -> None:
    """`(none)`."""
    with pytest.raises(UnknownVariableError) as caught:
        render("{{x}}")
    assert str(caught.value).endswith("registered variables: (none)")


def test_a_variable_without_a_value() -> None:
    """`MissingVariableError`, in sections and contexts; the empty string is a value."""
    with pytest.raises(MissingVariableError) as caught:
        render("in {{cwd}}", cwd=None)
    assert str(caught.value) == (
        'prompt variable "{{cwd}}" has no value for this assembly (section "s")'
    )
    assembly = PromptAssembly(contexts=[AssembledContext("c", "{{cwd}}")], variables={"cwd": None})
    with pytest.raises(MissingVariableError, match=r'\(context "c"\)') as caught:
        render_context_snapshot(assembly)
    assert (caught.value.owner_kind, caught.value.owner_name) == ("context", "c")
    assert render("in {{cwd}}.", cwd="") == "in ."


def test_an_unreferenced_variable_without_a_value_hurts_nobody() -> None:
    """Only a reference asks for it."""
    assert render("plain", cwd=None) == "plain"


@pytest.mark.parametrize(
    "name", ["constructor", "keys", "items", "get", "pop", "copy", "self", "variables", "format"]
)
def test_only_registered_variables_exist(name: str) -> None:
    """Attributes and methods of anything are unknown like any other."""
    with pytest.raises(UnknownVariableError):
        render("{{" + name + "}}", model="m")


def test_dunder_names_are_malformed() -> None:
    """They are no names."""
    with pytest.raises(MalformedReferenceError):
        render("{{__class__}}", model="m")


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_what_was_substituted_is_never_scanned_again(order: str) -> None:
    """Whatever the values hold, and in whatever order they were registered."""
    values = {"a": "{{b}}", "b": "{{a}} {{ {{{x}}} {# %}"}
    variables: dict[str, str | None] = {name: values[name] for name in order}
    assert render("{{a}} {{b}}", **variables) == "{{b}} {{a}} {{ {{{x}}} {# %}"


def test_values_that_form_a_reference_together_do_not() -> None:
    """One pass."""
    assert render("{{a}}{{b}}", a="{{", b="x}}") == "{{x}}"


def test_the_leftmost_fault_is_the_one_raised() -> None:
    """An unknown name before a malformed group, and the other way round."""
    with pytest.raises(UnknownVariableError):
        render("{{x}} {{ y }}")
    with pytest.raises(MalformedReferenceError):
        render("{{ y }} {{x}}")
    with pytest.raises(MissingVariableError):
        render("{{n}} {{x}}", n=None)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []),
        ("{{a}} {{b}} {{a}}", ["a", "b"]),
        ('{"a": [1]} {{topic}}', ["topic"]),
        ("{{ prose", []),
        ("}} {{a}}}", ["a"]),
        ("{{a}} {{ bad }} {{b}}", ["a"]),
    ],
)
def test_list_references_shares_the_grammar(text: str, names: list[str]) -> None:
    """What it lists is what rendering asks for, up to the first fault."""
    assert list_references(text) == names
    asked: list[str] = []

    class Recording(dict[str, str]):
        def __getitem__(self, name: str) -> str:
            asked.append(name)
            return "x"

        def __contains__(self, name: object) -> bool:
            return True

    try:
        render_prompt(
            PromptAssembly(sections=[AssembledSection("s", text)], variables=Recording())  # type: ignore[arg-type]
        )
    except MalformedReferenceError:
        pass
    assert list(dict.fromkeys(asked)) == names


def test_literal_text_lists_nothing_when_rendered() -> None:
    """It has no references."""
    section = AssembledSection("s", "{{x}} {{ y }}", literal=True)
    assert render_prompt(PromptAssembly(sections=[section])) == "{{x}} {{ y }}"


class Watched(str):
    """A text that counts how many of its characters are looked at."""

    __slots__ = ("looked_at",)

    def __new__(cls, text: str) -> Watched:
        made = super().__new__(cls, text)
        made.looked_at = 0
        return made

    def find(self, sub: str, start: int = 0) -> int:  # type: ignore[override]
        found = super().find(sub, start)
        self.looked_at += (found + len(sub) if found >= 0 else len(self)) - start
        return found

    def rfind(self, sub: str) -> int:  # type: ignore[override]
        found = super().rfind(sub)
        self.looked_at += len(self) - max(found, 0)
        return found

    def count(self, sub: str) -> int:  # type: ignore[override]
        self.looked_at += len(self)
        return super().count(sub)

    def __getitem__(self, index: object) -> str:
        part = super().__getitem__(index)  # type: ignore[index]
        self.looked_at += len(part)
        return part


class WatchedPattern:
    """An expression of the grammar, whose groups end before the next brace."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self.pattern = pattern

    def split(self, text: Watched) -> list[str]:
        text.looked_at += len(text)
        return self.pattern.split(text)

    def match(self, text: Watched, at: int) -> re.Match[str] | None:
        brace = re.compile("[{}]").search(text, at + 2)
        text.looked_at += (brace.end() if brace is not None else len(text)) - at
        return self.pattern.match(text, at)


def _looked_at(text: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how many characters are looked at to split a text at its references."""
    watched = Watched(text)
    with monkeypatch.context() as patch:
        for name in ("_REFERENCE", "_GROUP"):
            patch.setattr(template, name, WatchedPattern(getattr(template, name)))
        parse(watched)
    return watched.looked_at


@pytest.mark.parametrize(
    "unit",
    [
        ("", "{{", ""),
        ("", "{{", "}}"),
        ("}}", "{{", ""),
        ("", "{{a}}", ""),
        ("", "{{a}}", "{{ b }}"),
        ("", "{{a", ""),
        ("", "{", "}}"),
        ("", "}}", ""),
        ("{{a}}", "{ {", "}}"),
        ("", "{{a}} {{", ""),
        ("{{", "a", "}}"),
    ],
    ids=repr,
)
def test_rendering_is_linear_in_the_size_of_the_text(
    unit: tuple[str, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each character of a hundred thousand of anything is looked at a few times, and no more."""
    before, middle, after = unit
    text = before + middle * 100_000 + after
    with contextlib.suppress(PromptRenderError):
        render(text, a="x")
    looked_at = _looked_at(text, monkeypatch)
    assert len(text) <= looked_at <= 7 * len(text)


def test_two_hundred_thousand_openers_are_prose() -> None:
    """And come out as they went in."""
    text = "{{" * 200_000
    assert render(text) == text
    assert list_references(text) == []
