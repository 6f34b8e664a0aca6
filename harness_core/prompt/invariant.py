"""`system-prompt-invariant`: a plugin that refuses an assembly which breaks a rule.

It looks at what `assemble` is about to return, after every listener and after restoration, where
nobody registered later can come behind it. Contract: section 7.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import cast

from ..errors import InvariantError
from ..kernel.context import Context
from .model import PromptAssembly
from .trace import State

__all__ = ["apply", "check_assembly", "inject", "name"]

name = "system-prompt-invariant"
inject = ["system_prompt"]

_VARIABLE_NAME = re.compile(r"[a-z][a-z0-9_]*")


def apply(ctx: Context) -> None:
    """Check every assembly."""
    ctx.system_prompt.final_check(check_assembly)


def check_assembly(assembly: PromptAssembly) -> None:
    """Raise InvariantError for the first rule that an assembly breaks.

    The error names the rule, the entry and, where it is known, the listener that broke it.
    """
    state = State(assembly)
    broken = next(_violations(state), None)
    if broken is not None:
        rule, entry = broken
        raise InvariantError(rule, entry, _who_broke(rule, entry, assembly))


def _who_broke(rule: str, entry: object, assembly: PromptAssembly) -> str | None:
    for transition in assembly.trace.transitions() if assembly.trace is not None else ():
        if (rule, entry) in _violations(transition.after) and (
            (rule, entry) not in _violations(transition.before)
        ):
            return transition.listener.describe()
    return None


def _violations(state: State) -> Iterator[tuple[str, object]]:
    for kind in ("section", "context"):
        texts = state.texts(kind)
        if texts is not None:  # what nobody touched was checked when it was registered
            records, values = texts
            yield from _names(kind, [record.name for record in records])
            for record, value in zip(records, values, strict=True):
                if not isinstance(cast("object", value), str):
                    yield f"{kind} texts are str", record.name
    yield from _names("tool", [getattr(tool, "name", None) for tool in state.tools])
    for variable, value in state.variables.items():
        if not isinstance(cast("object", variable), str) or not _VARIABLE_NAME.fullmatch(variable):
            yield "variable names match [a-z][a-z0-9_]*", variable
        if value is not None and not isinstance(cast("object", value), str):
            yield "variable values are str or None", variable


def _names(kind: str, names: list[object]) -> Iterator[tuple[str, object]]:
    seen: set[object] = set()
    for name in names:
        if not isinstance(name, str) or not name:
            yield f"{kind} names are not empty", name
        elif name in seen:
            yield f"{kind} names are unique", name
        else:
            seen.add(name)
