"""What fresh sequences are made of: names, texts, orders, providers, schemas, as strategies.

What the two implementations answer differently on purpose is not drawn, here and in the modules
that build on this one; each such gap has a comment beside it that says why.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from hypothesis import strategies as st

Template: TypeAlias = dict[str, Any]
Templates: TypeAlias = st.SearchStrategy[Template]

REST = "<unlisted-tools>"


def weighted(*choices: tuple[int, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    """Draw from strategies by weight; shrinks towards the first (`one_of` ignores repetitions)."""
    bag = [strategy for weight, strategy in choices for _ in range(weight)]
    return st.integers(0, len(bag) - 1).flatmap(bag.__getitem__)


# No empty names: this project refuses them, the original takes them.
# No `", "` and no quotes around free text: the original tells names in messages only.
SECTION_NAMES = [
    *("s0", "s1", "s2", "harness:identity", "deployment:persona", "constructor", "__proto__"),
    *('quo"te', "new\nline", "naïve", "\U0001f600", "with space ", "back\\slash"),
]
CONTEXT_NAMES = ["c0", "c1", "date", "hasOwnProperty", "__proto__", "東京", "s0"]
USUAL_VARIABLES = ["model", "cwd", "os"]
VARIABLE_NAMES = [*USUAL_VARIABLES, "v1", "x_y", "constructor", "a", "keys"]
BAD_VARIABLE_NAMES = [
    *("", "Bad", "1x", "a-b", "_a", "{{x}}", "a b", "model\n", " model"),
    *("é", "mod\u0435l", "__proto__"),
]
# No empty tool names: nothing in the format says what they mean.
TOOL_NAMES = [
    *("bash", "read", "Zed", "tool_2", "tool_10", "été", "A", "a", "~", "constructor"),
    # UTF-16 order and code-point order disagree about these two.
    *("\U0001f600tool", "\uff5etool"),
]
WORDS = [
    *("alpha ", "naïve ", "東京", "\U0001f600", "\n", "\t", " ", "\u2028", "\r\n", "e\u0301"),
    *("\x00", "{", "}", "}}", "{ {model} }", "$&", "$1", "\\", '"'),
]
BRACES = [
    *("{{", "{{{", "}}}", "{{}}", "{{ model }}", "{{Model}}", "{{a{b}}", "{{a}b}}", "{{model\n}}"),
    *("{{modle}}", "{{constructor}}", "{{__class__}}", "{{model }}", "{{\u00e9}}", "{{{model}}}"),
]


def free_text(max_size: int = 8) -> st.SearchStrategy[str]:
    """Draw any text; lone surrogates are not text, and UTF-8 between the two cannot carry them."""
    return st.text(st.characters(exclude_categories=["Cs"]), max_size=max_size)


def free_name() -> st.SearchStrategy[str]:
    """Draw any name but those that the original's own messages would make ambiguous."""
    characters = st.characters(exclude_categories=["Cs"], exclude_characters='",')
    return st.text(characters, min_size=1, max_size=6)


def names(pool: list[str]) -> st.SearchStrategy[str]:
    """Draw mostly from a small pool, so that names collide; sometimes anything."""
    return weighted((4, st.sampled_from(pool)), (1, free_name()))


def references(pool: list[str]) -> st.SearchStrategy[str]:
    """Draw a well-formed reference to one of these names."""
    return st.sampled_from(pool).map(lambda name: "{{" + name + "}}")


def texts() -> st.SearchStrategy[str]:
    """Draw a prompt text: mostly one that renders where the usual variables have values."""
    tidy = weighted((2, st.sampled_from(WORDS)), (1, references(USUAL_VARIABLES)))
    wild = weighted(
        (3, st.sampled_from(WORDS)),
        (2, st.sampled_from(BRACES)),
        (2, references(VARIABLE_NAMES)),
        (1, free_text()),
    )
    fragments = weighted((4, st.lists(tidy, max_size=4)), (1, st.lists(wild, max_size=5)))
    return fragments.map("".join)


def orders() -> st.SearchStrategy[float | str]:
    """Draw an order: mostly of a few that collide, any finite number, now and then none at all."""
    common = st.sampled_from([-100, -0.5, 0, 1, 1, 10, 150])
    anything = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**53), 2**53)
    broken = st.sampled_from(["NaN", "Infinity", "-Infinity"])
    return weighted((30, common), (6, anything), (1, broken))


def providers() -> Templates:
    """Draw a provider of each kind."""
    return st.fixed_dictionaries(
        {"kind": st.sampled_from(["const", "counter", "scope_id"]), "value": texts()}
    )


def json_values() -> st.SearchStrategy[Any]:
    """Draw JSON as both languages read it alike.

    Numbers are whole and exact in a double: JavaScript writes 1.0 as 1. Keys are no numbers (it
    would sort them first) and not `__proto__` (an assignment to which is no entry there). Only
    JSON is drawn: this project refuses a schema that JSON cannot carry, the original passes it on.
    """
    leaves = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | free_text()
    keys = st.sampled_from(["type", "$ref", "$defs", "items", "enum", "description", "é"])
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
        max_leaves=6,
    )


def parameters() -> st.SearchStrategy[dict[str, Any]]:
    """Draw a schema's parameters: an object, mostly one that looks like JSON Schema."""
    keys = st.sampled_from(["properties", "required", "$ref", "$defs", "mutated"])
    anything = st.dictionaries(keys, json_values(), max_size=3)
    return anything.map(lambda rest: {"type": "object", **rest})


def schemas(tool_names: st.SearchStrategy[str]) -> Templates:
    """Draw one tool schema."""
    return st.fixed_dictionaries(
        {"name": tool_names, "description": free_text(), "parameters": parameters()}
    )


def provided_schemas() -> Templates:
    """Draw a schema for a provider; its name is now and then the reserved one."""
    pool = st.sampled_from(TOOL_NAMES)
    return schemas(weighted((40, pool), (4, free_name()), (1, st.just(REST))))
