"""Draws fresh operation sequences for the differential test.

Hypothesis draws *templates*: operations that point at scopes, plugins and handles by number.
`resolve` then walks them once and turns each number into something that exists by then. So any
template can be deleted or moved while Hypothesis shrinks a failure, and the rest stays valid.

What the two implementations answer differently on purpose is not drawn; each such gap has a
comment here that says why.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeAlias

import attrs
from hypothesis import strategies as st

from .corpus import Op

__all__ = ["operations", "resolve"]

Template: TypeAlias = dict[str, Any]
Templates: TypeAlias = st.SearchStrategy[Template]

REST = "<unlisted-tools>"


def weighted(*choices: tuple[int, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    """Draw from strategies by weight; shrinks towards the first (`one_of` ignores repetitions)."""
    bag = [strategy for weight, strategy in choices for _ in range(weight)]
    return st.integers(0, len(bag) - 1).flatmap(bag.__getitem__)


# ---- words ---------------------------------------------------------------------------------------

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


# ---- tools ---------------------------------------------------------------------------------------


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


# ---- templates -----------------------------------------------------------------------------------

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
    known = st.just(TOOL_NAMES) | st.lists(st.sampled_from(TOOL_NAMES), max_size=4)
    return st.fixed_dictionaries(head) | st.fixed_dictionaries({**head, "knownNames": known})


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
    listed = st.lists(st.sampled_from(TOOL_NAMES), max_size=3, unique=True)
    sound = st.tuples(listed, listed).map(
        lambda parts: list(dict.fromkeys([*parts[0], REST, *parts[1]]))
    )
    anything = st.lists(st.sampled_from([*TOOL_NAMES[:3], REST]), max_size=4)
    return weighted((9, sound), (1, anything))


def broken_configs() -> Templates:
    """Draw a config with one field of a wrong type."""
    wrong = {
        "includeHarnessIdentity": ["yes", 0, 1, []],
        "includeRuntimeContext": ["", 0, {}],
        "persona": [5, True, ["x"]],
        "toolOrder": [[REST, 1], [["bash"], REST], 7, True],
    }
    return st.sampled_from([{name: value} for name, values in wrong.items() for value in values])


def first_mounts() -> Templates:
    """Draw the mount that opens a case; a broken one now and then."""
    config = weighted((19, configs()), (1, broken_configs()))
    return st.fixed_dictionaries({"op": st.just("mount")}, optional={"config": config})


def openings() -> st.SearchStrategy[list[Template]]:
    """Draw what mostly follows the mount: values for the usual variables, tools, some scopes."""
    named = [
        {"op": "variable", "name": name, "value": f"<{name}>", "scope": None}
        for name in USUAL_VARIABLES
    ]
    universe = {"op": "tools", "schemas": [], "knownNames": TOOL_NAMES, "scope": None}
    scopes = st.lists(
        st.fixed_dictionaries({"op": st.just("scope"), "parent": SOMEWHERE}), max_size=4
    )
    usual = scopes.map(lambda minted: [*named, universe, *minted])
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


# ---- from templates to operations ----------------------------------------------------------------


def operations() -> st.SearchStrategy[list[Op]]:
    """Draw the operations of one case."""
    # Lists of lists grow long and still shrink to nothing, which a least size would prevent.
    episodes = st.lists(st.lists(later_templates(), max_size=10), max_size=12)
    return _cases(first_mounts(), openings(), episodes)


@st.composite
def _cases(
    draw: st.DrawFn,
    mounts: Templates,
    openings: st.SearchStrategy[list[Template]],
    episodes: st.SearchStrategy[list[list[Template]]],
) -> list[Op]:
    mount, opening = draw(mounts), draw(openings)
    return resolve([mount, *opening, *itertools.chain.from_iterable(draw(episodes))])


def resolve(templates: list[Template]) -> list[Op]:
    """Turn templates into the operations of one case, ending with a look at every scope."""
    names = Names()
    ops = [op for template in templates for op in names.resolve(template)]
    return without_telling_counters([*ops, *names.farewell()])


def without_telling_counters(ops: list[Op]) -> list[Op]:
    """Make constant each counter that would tell of an evaluation which this project spares.

    A fault in the order of tools is found before any text is evaluated; the original evaluates
    the texts first. A second complete section is found before any variable is evaluated; the
    original evaluates the variables first. A shadowed variable is never evaluated; the original
    evaluates it.
    """
    flat = [reg for op in ops for reg in op.get("regs", [op])]
    names = Counter(op["name"] for op in flat if op["op"] == "variable")
    tool_order = any(map(may_break_tool_order, flat))
    complete = sum(op.get("complete", False) for op in flat) > 1

    def tells(op: Op) -> bool:
        return complete or names[op["name"]] > 1 if op["op"] == "variable" else tool_order

    return [without_counters(op, tells) for op in ops]


def may_break_tool_order(op: Op) -> bool:
    """Tell whether the operation can make an assembly fail for the order of its tools."""
    reserved = any(schema["name"] == REST for schema in op.get("schemas", ()))
    return reserved or "toolOrder" in op.get("config", {})


def without_counters(op: Op, tells: Callable[[Op], bool]) -> Op:
    """Turn the counter of a registration that tells into a constant."""
    if "regs" in op:
        return op | {"regs": [without_counters(reg, tells) for reg in op["regs"]]}
    for field in ("text_provider", "value_provider"):
        if op.get(field, {}).get("kind") == "counter" and tells(op):
            return op | {field: op[field] | {"kind": "const"}}
    return op


@attrs.define
class Names:
    """What a case has named so far. Ids are never used twice, disposed things stay addressable.

    The prompt service is never restarted in a case: what is registered from the root then keeps
    its place here and is lost in the original.
    """

    mounted: bool = False
    scopes: list[str] = attrs.field(factory=list)
    plugins: list[str] = attrs.field(factory=list)
    handles: list[str] = attrs.field(factory=list)

    def resolve(self, template: Template) -> list[Op]:
        """Give the operation that stands for a template, or none if it points at nothing."""
        op = dict(template)
        match op["op"]:
            case "mount":
                self.mounted = self.mounted or is_sound(op.get("config", {}))
                return [op]
            case "change_count":
                return [op]
            case _ if not self.mounted:
                return []
            case "undo":
                return pointing(op, "handle", self.handles)
            case "dispose_plugin":
                return pointing(op, "id", self.plugins)
            case "dispose_scope":
                return pointing(op, "id", self.scopes)
            case "assemble":
                return [self._placed(op, "scope")]
            case "scope":
                return [self._placed(op, "parent") | {"id": mint("scope", self.scopes)}]
            case "plugin":
                return [self._plugin(op)]
        return [self._registered(self._placed(op, "scope"))]

    def farewell(self) -> list[Op]:
        """Look at the global view and at every scope, disposed ones too."""
        if not self.mounted:
            return [{"op": "change_count"}]
        scopes: list[Op] = [{"op": "assemble", "scope": scope} for scope in self.scopes]
        return [{"op": "change_count"}, {"op": "assemble"}, *scopes]

    def _placed(self, op: Op, field: str) -> Op:
        """Name the scope in place of its number; without one, the root is meant."""
        number = op.pop(field)
        if number is not None and self.scopes:
            op[field] = pick(self.scopes, number)
        return op

    def _registered(self, op: Op) -> Op:
        return op | {"handle": mint("h", self.handles)}

    def _plugin(self, op: Op) -> Op:
        home, number = op.pop("home"), op.pop("number")
        homes = {"scope": self.scopes, "parent": self.plugins}.get(home)
        if homes:
            op[home] = pick(homes, number)
        regs = [self._registered(reg) for reg in op.pop("regs")]
        return op | {"id": mint("plugin", self.plugins), "regs": regs}


def is_sound(config: dict[str, Any]) -> bool:
    """Tell whether a mount with this config succeeds, unless the service is there already."""
    types = {
        "includeHarnessIdentity": bool,
        "includeRuntimeContext": bool,
        "persona": str,
        "toolOrder": list,
    }
    if not all(isinstance(value, types[name]) for name, value in config.items()):
        return False
    order = config.get("toolOrder", [REST])
    return all(isinstance(name, str) for name in order) and (
        REST in order and len(order) == len(set(order))
    )


def mint(kind: str, minted: list[str]) -> str:
    """Make a new id and remember it."""
    minted.append(f"{kind}{len(minted) + 1}")
    return minted[-1]


def pick(minted: list[str], number: int) -> str:
    """Choose by number, wherever the number lies."""
    return minted[number % len(minted)]


def pointing(op: Op, field: str, minted: list[str]) -> list[Op]:
    """Name what an operation points at; one that can point at nothing yet falls away."""
    number = op.pop("number")
    return [op | {field: pick(minted, number)}] if minted else []
