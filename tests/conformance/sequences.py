"""Draws fresh operation sequences for the differential test.

Hypothesis draws templates, which point at scopes, plugins and handles by number. `resolve` walks
them once and turns each number into something that exists by then. So any template can be
deleted or moved while Hypothesis shrinks a failure, and the rest stays valid.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import attrs
from hypothesis import strategies as st

from .corpus import Op
from .material import REST
from .templates import Template, Templates, first_mounts, later_templates, openings

__all__ = ["operations", "resolve"]


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
            case _:
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
