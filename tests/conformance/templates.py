"""Templates of operations, as strategies: an operation that points at things by number.

A registration's `scope`, a plugin's `home` and what an undo or disposal means are numbers here;
`sequences.py` turns them into the names of things that exist by then.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from .material import (
    BAD_VARIABLE_NAMES,
    CONTEXT_NAMES,
    REST,
    SECTION_NAMES,
    TOOL_NAMES,
    USUAL_VARIABLES,
    VARIABLE_NAMES,
    Template,
    Templates,
    free_text,
    names,
    orders,
    provided_schemas,
    providers,
    schemas,
    texts,
    weighted,
)

__all__ = ["Template", "Templates", "first_mounts", "later_templates", "openings"]

# A reference to something minted earlier: any number, or nothing for the root.
NUMBERS = st.integers(0, 15)
SOMEWHERE = st.none() | NUMBERS


def registrations(**place: st.SearchStrategy[Any]) -> Templates:
    """Draw one registration; `place` says where it may be made."""
    return weighted(
        (6, sections(**place)),
        (4, contexts(**place)),
        (3, variables(**place)),
        (3, tools(**place)),
        (4, listeners(**place)),
        (1, suppressions(**place)),
    )


def sections(**place: st.SearchStrategy[Any]) -> Templates:
    """Draw a section; few are complete."""
    complete = weighted((9, st.just(False)), (1, st.just(True)))
    return _blocks("section", SECTION_NAMES, place).flatmap(
        lambda block: complete.map(lambda flag: block | ({"complete": True} if flag else {}))
    )


def contexts(**place: st.SearchStrategy[Any]) -> Templates:
    """Draw a runtime context."""
    return _blocks("context", CONTEXT_NAMES, place)


def _blocks(kind: str, pool: list[str], place: dict[str, st.SearchStrategy[Any]]) -> Templates:
    head = {"op": st.just(kind), "name": names(pool), "order": orders(), **place}
    return st.one_of(
        st.fixed_dictionaries({**head, "text": texts()}),
        st.fixed_dictionaries({**head, "text_provider": providers()}),
    )


def variables(**place: st.SearchStrategy[Any]) -> Templates:
    """Draw a variable: a value, none, or a provider; its name is now and then refused."""
    name = weighted((9, st.sampled_from(VARIABLE_NAMES)), (1, st.sampled_from(BAD_VARIABLE_NAMES)))
    head = {"op": st.just("variable"), "name": name, **place}
    return st.one_of(
        st.fixed_dictionaries({**head, "value": st.none() | texts()}),
        st.fixed_dictionaries({**head, "value_provider": providers()}),
    )


def tools(**place: st.SearchStrategy[Any]) -> Templates:
    """Draw a tool provider, with or without a universe of its own."""
    head = {"op": st.just("tools"), "schemas": st.lists(provided_schemas(), max_size=3), **place}
    own = st.fixed_dictionaries(head)
    some = st.fixed_dictionaries(
        {**head, "knownNames": st.lists(st.sampled_from(TOOL_NAMES), max_size=4)}
    )
    every = st.fixed_dictionaries({**head, "knownNames": st.just(TOOL_NAMES)})
    return weighted((3, own), (4, some), (1, every))


def suppressions(**place: st.SearchStrategy[Any]) -> Templates:
    """Draw a suppression of the whole runtime context, the only one the format has."""
    return st.fixed_dictionaries({"op": st.just("suppress"), **place})


# ---- listeners -----------------------------------------------------------------------------------


def listeners(**place: st.SearchStrategy[Any]) -> Templates:
    """Draw a listener of each behaviour; it never returns nothing, which is an error here only."""
    flags = st.fixed_dictionaries({}, optional={"prepend": st.booleans(), "global": st.booleans()})
    rare = {"short_circuit", "throw"}
    behaviour = weighted(
        *((1 if name in rare else 4, _behaviour(name, args)) for name, args in arguments().items())
    )
    head = st.fixed_dictionaries({"op": st.just("listener"), "event": st.just("assemble"), **place})
    return st.tuples(head, behaviour, flags).map(lambda parts: parts[0] | parts[1] | parts[2])


def _behaviour(name: str, args: Templates) -> Templates:
    return st.fixed_dictionaries({"behaviour": st.just(name), "args": args})


def arguments() -> dict[str, Templates]:
    section = _entries(SECTION_NAMES)
    suffix = st.sampled_from([" [more]", "{{model}}", "", "}}"])
    return {
        "after_append": section,
        "append_section": section,
        "prepend_section": section,
        "append_context": _entries(CONTEXT_NAMES),
        "mutate_text": st.fixed_dictionaries(
            {"name": st.sampled_from(SECTION_NAMES), "suffix": suffix}
        ),
        # Only valid names and real values: the corpus sets no others.
        "set_variable": st.fixed_dictionaries(
            {"name": st.sampled_from(VARIABLE_NAMES), "value": texts()}
        ),
        "add_tool": schemas(st.sampled_from(TOOL_NAMES)),
        "mutate_tool": st.fixed_dictionaries(
            {"name": st.sampled_from(TOOL_NAMES), "suffix": suffix}
        ),
        "short_circuit": _whole_assemblies(),
        "throw": st.fixed_dictionaries({"message": free_text()}),
    }


def _entries(pool: list[str]) -> Templates:
    return st.fixed_dictionaries({"name": st.sampled_from(pool), "text": texts()})


def _whole_assemblies() -> Templates:
    values = st.dictionaries(st.sampled_from(VARIABLE_NAMES), texts(), max_size=3)
    return st.fixed_dictionaries(
        {},
        optional={
            "sections": st.lists(_entries(SECTION_NAMES), max_size=2),
            "contexts": st.lists(_entries(CONTEXT_NAMES), max_size=2),
            "tools": st.lists(schemas(st.sampled_from(TOOL_NAMES)), max_size=2),
            "variables": values,
        },
    )


# ---- mounting ------------------------------------------------------------------------------------


def configs() -> Templates:
    """Draw a config that is valid in type; its tool order may break its rules.

    No null and no unknown key: the original lets these pass, this project refuses or means them.
    """
    return st.fixed_dictionaries(
        {},
        optional={
            "includeHarnessIdentity": st.booleans(),
            "includeRuntimeContext": st.booleans(),
            "persona": texts(),
            "toolOrder": tool_orders(),
        },
    )


def tool_orders() -> st.SearchStrategy[list[str]]:
    """Draw a tool order: mostly a sound one, else one without a rest or with an entry twice."""
    name = st.sampled_from(TOOL_NAMES)
    before, after = st.lists(name, min_size=1, max_size=3), st.lists(name, max_size=3)
    sound = st.tuples(before, after).map(
        lambda parts: list(dict.fromkeys([*parts[0], REST, *parts[1]]))
    )
    anything = st.lists(st.sampled_from([*TOOL_NAMES[:3], REST]), max_size=4)
    return weighted((9, sound), (1, anything))


def broken_configs() -> Templates:
    """Draw a config with one field of a wrong type."""
    wrong: dict[str, list[Any]] = {
        "includeHarnessIdentity": ["yes", 0, 1, []],
        "includeRuntimeContext": ["", 0, {}],
        "persona": [5, True, ["x"]],
        "toolOrder": [[REST, 1], [["bash"], REST], 7, True],
    }
    return st.sampled_from([{name: value} for name, values in wrong.items() for value in values])


def first_mounts() -> Templates:
    """Draw the mount that opens a case; a broken one now and then."""
    config = weighted((19, configs()), (1, broken_configs()))
    bare = {"op": st.just("mount")}
    configured = st.fixed_dictionaries({**bare, "config": config})
    return weighted((6, configured), (1, st.fixed_dictionaries(bare)))


def openings() -> st.SearchStrategy[list[Template]]:
    """Draw what mostly follows the mount: values for the usual variables, tools, some scopes."""
    named = [
        {"op": "variable", "name": name, "value": f"<{name}>", "scope": None}
        for name in USUAL_VARIABLES
    ]
    universe = {"op": "tools", "schemas": [], "knownNames": TOOL_NAMES, "scope": None}
    tools = weighted((1, st.just([universe])), (1, st.just([])))
    scope = st.fixed_dictionaries({"op": st.just("scope"), "parent": SOMEWHERE})
    parts = st.tuples(tools, st.lists(scope, max_size=4))
    usual = parts.map(lambda drawn: [*named, *drawn[0], *drawn[1]])
    return weighted((6, usual), (1, st.just([])))


def later_templates() -> Templates:
    """Draw any operation that can follow the mount."""
    number = {"number": NUMBERS}
    mounted = st.fixed_dictionaries(
        {
            "op": st.just("plugin"),
            "home": st.sampled_from(["root", "scope", "parent"]),
            **number,
            "regs": st.lists(registrations(), max_size=4),
        }
    )
    return weighted(
        (10, registrations(scope=SOMEWHERE)),
        (5, mounted),
        (5, st.fixed_dictionaries({"op": st.just("assemble"), "scope": SOMEWHERE})),
        (2, st.fixed_dictionaries({"op": st.just("scope"), "parent": SOMEWHERE})),
        (2, st.fixed_dictionaries({"op": st.just("undo"), **number})),
        (2, st.fixed_dictionaries({"op": st.just("dispose_plugin"), **number})),
        (1, st.fixed_dictionaries({"op": st.just("dispose_scope"), **number})),
        (2, st.just({"op": "change_count"})),
        (1, st.just({"op": "mount", "config": {"persona": "second"}})),
    )
