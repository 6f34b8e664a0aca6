"""Why an assembly is what it is: every part with its origin, and what is absent with the reason.

Contract: section 5, "Provenance".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..errors import safe_repr
from .entries import Entry
from .model import PromptAssembly
from .origin import Explained
from .plan import Plan
from .tool import ToolSchema

if TYPE_CHECKING:
    from .trace import Trace, Transition, Unpaired

__all__ = ["explain"]


def explain(assembly: PromptAssembly, trace: Trace) -> list[Explained]:
    """Return what is in an assembly, in its order, then what is not; see `Explained`."""
    return [
        *_Texts("section", trace).explain(assembly.sections),
        *_Texts("context", trace).explain(assembly.contexts),
        *_variables(assembly, trace),
        *_tools(assembly, trace),
    ]


class _Texts:
    """Explains the sections, or the contexts, of one assembly."""

    def __init__(self, kind: str, trace: Trace) -> None:
        self.kind = kind
        self.trace = trace
        self.plan: Plan = trace.plan
        self.is_complete = False
        self.changes = [
            (transition, *transition.texts(kind, trace)) for transition in trace.transitions()
        ]

    def explain(self, items: list[Any]) -> Iterator[Explained]:
        present: set[int] = set()
        complete = self.plan.complete[0] if self.plan.complete else None
        self.is_complete = complete is not None and [item.entry for item in items] == [complete]
        for item in items:
            present.add(id(item.entry))
            yield self._present(item)
        texts = self.plan.sections if self.kind == "section" else self.plan.contexts
        for entry in texts.entries:
            if id(entry) not in present:
                yield self._absent(entry)
        if self.kind == "context":
            for entry in self.plan.hidden_contexts:
                yield self._suppressed(entry)
        yield from _shadowed(self.kind, self.plan)

    def _present(self, item: Any) -> Explained:
        origin = item.origin
        if origin is None:
            return Explained(self.kind, item.name, "added", self._who_added(item))
        by = [
            transition.listener.describe()
            for transition, before, after in self.changes
            if before.text_of(item) is not None
            and after.text_of(item) not in (None, before.text_of(item))
        ]
        if by and not (self.is_complete and self.kind == "section"):
            return Explained(self.kind, item.name, "changed", f"by {', '.join(by)}", origin)
        if not item.text:
            return Explained(self.kind, item.name, "empty", "its text is empty", origin)
        return Explained(self.kind, item.name, "included", "", origin)

    def _who_added(self, item: Any) -> str:
        for transition, before, after in self.changes:
            if after.text_of(item) is not None and before.text_of(item) is None:
                return f"by {transition.listener.describe()}"
        return "by a listener"

    def _absent(self, entry: Entry) -> Explained:
        status, reason = self._why_absent(entry)
        origin = self.plan.source_of(entry).origin(self.trace.seconds.get(entry))
        return Explained(self.kind, entry.name, status, reason, origin)

    def _why_absent(self, entry: Entry) -> tuple[str, str]:
        broken = self.trace.unpaired.get(entry.name) if self.kind == "section" else None
        if broken is not None:
            return "unpaired", self._why_unpaired(entry, broken)
        hidden = sorted(self.trace.hidden_tools.intersection(entry.requires_tools))
        if hidden:
            return "tool-hidden", f"requires tools that are not visible: {', '.join(hidden)}"
        failure = self.trace.failures.get(entry)
        if failure is not None:
            return "failed", f"{type(failure).__name__}: {failure}"
        return self._who_took(entry)

    def _why_unpaired(self, entry: Entry, broken: Unpaired) -> str:
        if broken.lost == "tool":
            by = _who_dropped(broken.tool, self.trace.transitions())
            return f'its tool "{broken.tool}" is gone: dropped by {by}'
        if broken.lost == "text":
            why = "it is empty, or stands in front of the one that belongs to"
            return f'{why} tool "{broken.tool}", which was left out too'
        failure = self.trace.failures.get(entry)
        why = f"failed: {failure!r}" if failure is not None else " ".join(self._who_took(entry))
        return f'{why}; its tool "{broken.tool}" was left out too'

    def _who_took(self, entry: Entry) -> tuple[str, str]:
        if self.kind == "section" and self.is_complete:
            return "replaced", f'by complete section "{self.plan.complete[0].name}"'
        for transition, before, after in self.changes:
            if before.holds(entry) and not after.holds(entry):
                return "dropped", f"by {transition.listener.describe()}"
        return "dropped", "by a listener"

    def _suppressed(self, entry: Entry) -> Explained:
        by = "; ".join(
            f"by {one.origin()}"
            + (f", scope {safe_repr(one.scope)}" if one.scope is not None else "")
            for one in self.plan.suppressors
        )
        origin = self.plan.source_of(entry).origin()
        reason = f"{by}; its provider was not called"
        return Explained(self.kind, entry.name, "suppressed", reason, origin)


def _shadowed(kind: str, plan: Plan) -> Iterator[Explained]:
    for entry, behind in plan.shadowed.items():
        if entry.kind != kind:
            continue
        where = f"scope {safe_repr(entry.scope)}" if entry.scope is not None else "the global layer"
        for one in behind:
            reason = f'by plugin "{entry.fiber.plugin_name}" in {where}; not evaluated'
            yield Explained(kind, one.name, "shadowed", reason, one.origin())


_ABSENT = object()


def _variables(assembly: PromptAssembly, trace: Trace) -> Iterator[Explained]:
    origins = trace.variable_origins()
    transitions = trace.transitions()

    def changed_by(name: str) -> str:
        return ", ".join(
            one.listener.describe()
            for one in transitions
            if one.before.variables.get(name, _ABSENT) != one.after.variables.get(name, _ABSENT)
        )

    for name, value in assembly.variables.items():
        origin = origins.pop(name, None)
        by = changed_by(name)
        if by:
            status = "changed" if origin is not None else "added"
            yield Explained("variable", name, status, f"by {by}", origin)
        elif value is None:
            yield Explained("variable", name, "no-value", "its provider gave None", origin)
        else:
            yield Explained("variable", name, "included", "", origin)
    for name, origin in origins.items():
        by = changed_by(name) or "a listener"
        yield Explained("variable", name, "dropped", f"by {by}", origin)
    yield from _shadowed("variable", trace.plan)


def _tools(assembly: PromptAssembly, trace: Trace) -> Iterator[Explained]:
    transitions = trace.transitions()
    planned = {tool.name for tool in trace.tools}
    for tool in assembly.tools:
        by = _who_brought(tool, transitions)
        if by is None:
            yield Explained("tool", tool.name, "included", "", tool.origin)
        else:
            status = "changed" if tool.name in planned else "added"
            yield Explained("tool", tool.name, status, f"by {by}", tool.origin)
    shown = {tool.name for tool in assembly.tools}
    unpaired = {one.tool: one for one in trace.unpaired.values() if one.lost != "tool"}
    for tool in trace.tools:
        if tool.name in shown:
            continue
        if tool.name in unpaired:
            reason = f'its section "{unpaired[tool.name].section}" is gone'
            yield Explained("tool", tool.name, "unpaired", reason, tool.origin)
        else:
            by = _who_dropped(tool.name, transitions)
            yield Explained("tool", tool.name, "dropped", f"by {by}", tool.origin)
    for entry, name in trace.restricted():
        if name not in shown:
            caller = trace.called_through(name, assembly)
            status = "restricted" if caller is None else "indirect"
            reason = "its provider knows it and does not show it here"
            if caller is not None:
                reason = f'it is called through "{caller}"'
            yield Explained("tool", name, status, reason, entry.origin())


def _who_brought(tool: ToolSchema, transitions: list[Transition]) -> str | None:
    for one in transitions:
        if any(t is tool for t in one.after.tools) and not any(t is tool for t in one.before.tools):
            return one.listener.describe()
    return None


def _who_dropped(name: str, transitions: list[Transition]) -> str:
    for one in transitions:
        had = any(tool.name == name for tool in one.before.tools)
        if had and not any(tool.name == name for tool in one.after.tools):
            return one.listener.describe()
    return "a listener"
