"""The fast check never accepts what the real validator refuses, and mostly accepts what it does."""

from __future__ import annotations

from typing import Any

import jsonschema
from harness_plugins.tools.quick import quick_check
from hypothesis import given
from hypothesis import strategies as st

names = st.sampled_from(["a", "b", "$ref", "type"])
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 2), st.sampled_from([0.5, 1.0, "a", "b", ""])
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)
kinds = st.sampled_from(["string", "integer", "number", "boolean", "null", "object", "array"])


def _schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        kinds.map(lambda kind: {"type": kind, "description": "x"}),
        st.lists(kinds, min_size=1, max_size=2, unique=True).map(lambda kind: {"type": kind}),
        st.lists(scalars, min_size=1, max_size=3).map(lambda values: {"enum": values}),
        st.lists(inner, min_size=1, max_size=2).map(lambda arms: {"anyOf": arms}),
        inner.map(lambda item: {"type": "array", "items": item}),
        st.fixed_dictionaries(
            {"type": st.just("object"), "properties": st.dictionaries(names, inner, max_size=3)},
            optional={
                "required": st.lists(names, max_size=2, unique=True),
                "additionalProperties": st.booleans() | inner,
                "minProperties": st.just(1),
            },
        ),
        st.just({"$ref": "#/$defs/Node"}),
    )


schemas = st.recursive(st.booleans() | st.just({}), _schemas, max_leaves=6)


@given(schemas, schemas, values)
def test_what_it_accepts_is_valid(schema: Any, node: Any, value: Any) -> None:
    """Over random schemas with references, and random values."""
    whole = {
        "type": "object",
        "properties": {"x": schema},
        "$defs": {"Node": {"type": "object", "properties": {"a": node}}},
    }
    check = quick_check(whole)
    arguments = {"x": value}
    if check is not None and check(arguments):
        assert jsonschema.Draft202012Validator(whole).is_valid(arguments)


@given(values)
def test_it_accepts_what_fits_common_schemas(value: Any) -> None:
    """Otherwise it would be of no use."""
    schema = {
        "type": "object",
        "properties": {
            "a": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
            "b": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
        },
        "required": ["a"],
        "additionalProperties": False,
        "$defs": {
            "Node": {"type": "object", "properties": {"b": {"type": "string"}}},
        },
    }
    check = quick_check(schema)
    assert check is not None
    assert check({"a": None, "b": [{"b": "x"}]})
    if not isinstance(value, float):
        assert check({"a": value}) == jsonschema.Draft202012Validator(schema).is_valid({"a": value})
