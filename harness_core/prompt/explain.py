"""Why an assembly is what it is: every part with its origin, and what is absent with the reason.

Contract: section 5, "Provenance".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import attrs

from .entries import Entry
from .model import Origin, PromptAssembly
from .plan import Shadowing
from .trace import State, Trace, Transition

__all__ = ["Explained", "explain"]

_SECTIONS, _CONTEXTS, _TOOLS, _VARIABLES = range(4)


@attrs.frozen
class Explained:
    """One contribution and what became of it.

    `status` is one of: "included", "empty" (its text is empty), "no-value" (a variable), "added"
    or "changed" (by the listener that `reason` names); and of what is absent: "shadowed",
    "suppressed", "tool-hidden" (it requires a tool that is not visible), "restricted" (a tool that
    its provider knows and does not show), "failed", "dropped" (by a listener), "replaced" (by the
    complete section). `origin` is None for what a listener added.
    """

    kind: str
    name: str
    status: str
    reason: str = ""
    origin: Origin | None = None

    @property
    def is_present(self) -> bool:
        """Whether it is part of the assembly."""
        return self.status in ("included", "empty", "no-value", "added", "changed")

    def __str__(self) -> str:
        reason = f": {self.reason}" if self.reason else ""
        origin = f" ({self.origin})" if self.origin else ""
        return f'{self.kind} "{self.name}" {self.status}{reason}{origin}'


def explain(assembly: PromptAssembly) -> list[Explained]:
    """Return what is in an assembly, in its order, then what is not; see `Explained`."""
    trace = assembly._trace
    if trace is None:  # made by hand, not by assemble()
        return [*_untraced(assembly)]
    transitions = trace.transitions()
    return [
        *_texts("section", assembly.sections, _SECTIONS, trace, transitions),
        *_texts("context", assembly.contexts, _CONTEXTS, trace, transitions),
        *_variables(assembly, trace, transitions),
        *_tools(assembly, trace, transitions),
    ]


def _untraced(assembly: PromptAssembly) -> Iterator[Explained]:
    for kind, items in (("section", assembly.sections), ("context", assembly.contexts)):
        for item in items:
            yield Explained(kind, item.name, "included", origin=item.origin)
    for name in assembly.variables:
        yield Explained("variable", name, "included")
    for tool in assembly.tools:
        yield Explained("tool", tool.name, "included", origin=tool.origin)


# Sections and contexts


def _texts(
    kind: str, items: Iterable[Any], part: int, trace: Trace, transitions: list[Transition]
) -> Iterator[Explained]:
    present: set[Entry] = set()
    for item in items:
        entry = _entry_of(item._source)
        if entry is not None:
            present.add(entry)
        yield _present_text(kind, item, part, trace, transitions)
    planned = trace.plan.sections if kind == "section" else trace.plan.contexts
    for entry in planned:
        if entry not in present:
            yield _absent(kind, entry, part, trace, transitions)
    yield from _shadowed(kind, trace)


def _entry_of(source: object) -> Entry | None:
    if isinstance(source, Shadowing):
        return source.entry
    return source if isinstance(source, Entry) else None


def _present_text(
    kind: str, item: Any, part: int, trace: Trace, transitions: list[Transition]
) -> Explained:
    origin = item.origin
    if origin is None:
        return Explained(kind, item.name, "added", _who_added(item, part, transitions))
    by = [
        t.listener.describe() for t in transitions if _text_in(t.before, part, item) is not None
        and _text_in(t.after, part, item) not in (None, _text_in(t.before, part, item))
    ]
    if by and not (trace.plan.complete and kind == "section"):
        return Explained(kind, item.name, "changed", f"by listener {', '.join(by)}", origin)
    status = "included" if item.text else "empty"
    return Explained(kind, item.name, status, "" if item.text else "its text is empty", origin)


def _text_in(state: State, part: int, item: Any) -> str | None:
    records: list[Any] = state[part]  # type: ignore[assignment]
    return next((text for record, _, text in records if record is item), None)


def _who_added(item: Any, part: int, transitions: list[Transition]) -> str:
    for transition in transitions:
        before, after = transition.before[part], transition.after[part]
        if _holds(after, item) and not _holds(before, item):
            return f"by listener {transition.listener.describe()}"
    return "by a listener"


def _holds(records: Any, item: Any) -> bool:
    return any(record is item for record, _, _ in records)


def _absent(
    kind: str, entry: Entry, part: int, trace: Trace, transitions: list[Transition]
) -> Explained:
    origin = trace.plan.source_of(entry).origin(trace.seconds.get(entry))
    for omission in trace.omissions:
        if omission.entry is entry:
            return Explained(kind, entry.name, omission.status, omission.reason, origin)
    if kind == "context" and trace.plan.suppressors and trace.plan.suppresses(entry.name):
        by = "; ".join(
            f"suppressed by {one.origin()}" + (f", scope {one.scope!r}" if one.scope else "")
            for one in trace.plan.suppressors
        )
        return Explained(kind, entry.name, "suppressed", f"{by}, provider not called", origin)
    if kind == "section" and trace.plan.complete:
        name = trace.plan.complete[0].name
        return Explained(
            kind, entry.name, "replaced", f'by complete section "{name}", evaluated', origin
        )
    for transition in transitions:
        had = any(_entry_of(record._source) is entry for record, _, _ in transition.before[part])
        has = any(_entry_of(record._source) is entry for record, _, _ in transition.after[part])
        if had and not has:
            by = f"by listener {transition.listener.describe()}"
            return Explained(kind, entry.name, "dropped", by, origin)
    return Explained(kind, entry.name, "dropped", "by a listener", origin)


def _shadowed(kind: str, trace: Trace) -> Iterator[Explained]:
    for entry, behind in trace.plan.shadowed.items():
        if entry.kind != kind:
            continue
        where = f"scope {entry.scope!r}" if entry.scope is not None else "the global layer"
        for one in behind:
            reason = f'by plugin "{entry.fiber.name}" in {where}, not evaluated'
            yield Explained(kind, one.name, "shadowed", reason, one.origin())


# Variables and tools


def _variables(
    assembly: PromptAssembly, trace: Trace, transitions: list[Transition]
) -> Iterator[Explained]:
    origins = trace.variable_origins()
    for name, value in assembly.variables.items():
        origin = origins.pop(name, None)
        by = [
            t.listener.describe() for t in transitions
            if t.before[_VARIABLES].get(name, _ABSENT) != t.after[_VARIABLES].get(name, _ABSENT)
        ]
        if by:
            status, reason = ("added" if origin is None else "changed"), f"by {', '.join(by)}"
        elif value is None:
            status, reason = "no-value", "its provider gave None"
        else:
            status, reason = "included", ""
        yield Explained("variable", name, status, reason, origin)
    for name, origin in origins.items():
        yield Explained("variable", name, "dropped", "by a listener", origin)
    yield from _shadowed("variable", trace)


_ABSENT = object()


def _tools(
    assembly: PromptAssembly, trace: Trace, transitions: list[Transition]
) -> Iterator[Explained]:
    names = {tool.name for tool in assembly.tools}
    for tool in assembly.tools:
        by = [
            t.listener.describe()
            for t in transitions
            if not any(one is tool for one in t.before[_TOOLS])
            and any(one is tool for one in t.after[_TOOLS])
        ]
        had_before = any(one.name == tool.name for one in trace.tools)
        status = "included" if not by else "changed" if had_before else "added"
        reason = f"by listener {by[-1]}" if by else ""
        yield Explained("tool", tool.name, status, reason, tool.origin)
    for tool in trace.tools:
        if tool.name not in names:
            by = [
                t.listener.describe()
                for t in transitions
                if any(one.name == tool.name for one in t.before[_TOOLS])
                and not any(one.name == tool.name for one in t.after[_TOOLS])
            ]
            who = by[-1] if by else "a listener"
            yield Explained("tool", tool.name, "dropped", f"by listener {who}", tool.origin)
    for entry, name in trace.restricted():
        reason = "its provider knows it and does not show it here"
        yield Explained("tool", name, "restricted", reason, entry.origin())
