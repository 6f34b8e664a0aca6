"""`system-prompt-invariant`: a plugin that refuses an assembly which breaks a rule.

It looks at what `assemble` is about to return, after every listener and after restoration, where
nobody registered later can come behind it. Contract: section 7.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from ..errors import InvariantError
from ..kernel.context import Context
from .model import PromptAssembly
from .trace import State, state_of

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
    broken = next(_violations(state_of(assembly)), None)
    if broken is not None:
        rule, entry = broken
        raise InvariantError(rule, entry, _who_broke(rule, entry, assembly))


def _who_broke(rule: str, entry: object, assembly: PromptAssembly) -> str | None:
    trace = assembly._trace
    for transition in trace.transitions() if trace is not None else ():
        if (rule, entry) in _violations(transition.after) and (
            (rule, entry) not in _violations(transition.before)
        ):
            return transition.listener.describe()
    return None


def _violations(state: State) -> Iterator[tuple[str, object]]:
    sections, contexts, tools, variables = state
    yield from _texts("section", sections)
    yield from _texts("context", contexts)
    yield from _names("tool", [getattr(tool, "name", None) for tool in tools])
    for variable, value in variables.items():
        if not isinstance(variable, str) or not _VARIABLE_NAME.fullmatch(variable):
            yield "variable names match [a-z][a-z0-9_]*", variable
        if value is not None and not isinstance(value, str):
            yield "variable values are str or None", variable


def _texts(kind: str, records: Iterable[tuple[Any, object, object]]) -> Iterator[tuple[str, object]]:
    listed = list(records)
    yield from _names(kind, [name for _, name, _ in listed])
    for _, one, text in listed:
        if not isinstance(text, str):
            yield f"{kind} texts are str", one


def _names(kind: str, names: list[object]) -> Iterator[tuple[str, object]]:
    for one in names:
        if not isinstance(one, str) or not one:
            yield f"{kind} names are not empty", one
    hashable = [one for one in names if isinstance(one, str)]
    for one, count in Counter(hashable).items():
        if count > 1:
            yield f"{kind} names are unique", one
