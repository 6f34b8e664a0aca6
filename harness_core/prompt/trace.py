"""What one assembly remembers of how it came about: raw material for `explain` and `diff`.

Kept cheap: states are copied while the listeners run, and compared only when somebody asks.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple, TypeAlias

import attrs

from ..errors import ContributionError
from ..kernel.listeners import Listener
from .entries import Entry
from .explain import explain
from .model import PromptAssembly
from .origin import Explained, Origin
from .plan import Plan
from .texts import Texts as EvaluatedTexts
from .tool import ToolSchema

__all__ = ["Provided", "State", "Through", "Trace", "Transition", "Unpaired"]

Through: TypeAlias = dict[str, frozenset[str]]
"""For a tool that calls others: what can be called through it."""


class Provided(NamedTuple):
    """What one tool provider gave: schemas, names before restriction, what calls what."""

    schemas: tuple[Any, ...]
    known: tuple[str, ...] | None
    through: Through


Texts: TypeAlias = tuple[list[Any], list[Any]]
"""Records, and the texts they had."""

_UNTOUCHED: Final[Texts] = ([], [])


class State:
    """What listeners may change, as it was at one moment."""

    __slots__ = ("contexts", "sections", "tools", "variables")

    def __init__(self, assembly: PromptAssembly) -> None:
        if assembly.untouched_sections is not None:
            self.sections = _UNTOUCHED
        else:
            records = assembly.sections
            self.sections = (records[:], [record.text for record in records])
        if assembly.untouched_contexts is not None:
            self.contexts = _UNTOUCHED
        else:
            contexts = assembly.contexts
            self.contexts = (contexts[:], [record.text for record in contexts])
        self.tools = assembly.tools[:]
        self.variables = assembly.variables.copy()

    def texts(self, kind: str) -> Texts | None:
        """Return sections or contexts; None while nobody had touched them."""
        texts = self.sections if kind == "section" else self.contexts
        return None if texts is _UNTOUCHED else texts


class Snapshot:
    """Records of sections or contexts, by identity, with the texts they had."""

    def __init__(
        self, records: list[Any], texts: list[str], untouched: Iterable[Entry] = ()
    ) -> None:
        self._entries = {record.entry for record in records}.union(untouched)
        self._texts = {id(record): text for record, text in zip(records, texts, strict=True)}

    def text_of(self, record: Any) -> str | None:
        """Return the text a record had; None if it was not there."""
        return self._texts.get(id(record))

    def holds(self, entry: Entry) -> bool:
        """Whether a record made from `entry` was there."""
        return entry in self._entries


@attrs.frozen
class Transition:
    """What one listener, before or after its `next()`, made of the assembly."""

    listener: Listener
    before: State
    after: State

    def texts(self, kind: str, trace: Trace) -> tuple[Snapshot, Snapshot]:
        """Return sections or contexts before and after."""
        after = self.after.texts(kind)
        if after is None:
            return Snapshot([], []), Snapshot([], [])
        before = self.before.texts(kind)
        if before is None:
            return trace.untouched(kind, after[0]), Snapshot(*after)
        return Snapshot(*before), Snapshot(*after)


@attrs.frozen
class Unpaired:
    """A pair that was broken: its section and its tool, and which of them somebody took away."""

    section: str
    tool: str
    lost: str
    """"section", "tool", or "text": a section is there, but empty, or somebody else's."""


class Trace:
    """How one assembly came about."""

    __slots__ = (
        "assembly",
        "contexts",
        "failures",
        "hidden_tools",
        "plan",
        "provided",
        "scope",
        "seconds",
        "sections",
        "states",
        "tools",
        "unpaired",
    )

    assembly: PromptAssembly
    """The assembly that is handed to the listeners; set only while they run."""

    def __init__(self, plan: Plan, scope: object | None) -> None:
        self.plan = plan
        self.scope = scope
        self.failures: dict[Entry, Exception] = {}
        """Optional entries that failed."""
        self.hidden_tools: frozenset[str] = frozenset()
        """Tools that some entry requires and that are not visible."""
        self.sections: EvaluatedTexts | None = None
        self.contexts: EvaluatedTexts | None = None
        """What the providers gave, before the listeners."""
        self.provided: list[Provided] = []
        """For each tool provider what it gave."""
        self.unpaired: dict[str, Unpaired] = {}
        """Parts that were left out because their pair is gone, by the name of the section."""
        self.tools: list[ToolSchema] = []
        """The tools in order, as they were handed to the listeners."""
        self.seconds: dict[Entry, float] = {}
        self.states: list[tuple[Listener | None, bool, State]] = []
        """(listener, entering, state then), in order; the last is the state at the end."""

    # The observer of the waterfall

    def entering(self, listener: Listener) -> None:
        """Note the state in which a listener is called."""
        self.states.append((listener, True, State(self.assembly)))

    def innermost(self) -> PromptAssembly:
        """Note the state in which the innermost `next()` was called, and return the assembly."""
        self.states.append((None, True, State(self.assembly)))
        return self.assembly

    def leaving(self, listener: Listener, result: Any) -> None:
        """Note the state that a listener returned; refuse what is no assembly."""
        if not isinstance(result, PromptAssembly):
            raise ContributionError(
                f"listener {listener.describe()} returned {result!r} ({type(result).__name__}): "
                "expected a PromptAssembly, for instance what `await next()` gave"
            )
        self.states.append((listener, False, State(result)))

    def transitions(self) -> list[Transition]:
        """Return what each listener changed, in the order in which it happened.

        Between two neighbouring states runs exactly one listener: on the way in the one that was
        entered, on the way out the one that is left.
        """
        found: list[Transition] = []
        for (one, inward, before), (other, still_inward, after) in zip(
            self.states, self.states[1:], strict=False
        ):
            listener = other if not still_inward else (one if inward else None)
            if listener is not None:
                found.append(Transition(listener, before, after))
        return found

    def untouched(self, kind: str, records: list[Any]) -> Snapshot:
        """Return what was there at first; `records` are those that were made of it later."""
        evaluated = self.sections if kind == "section" else self.contexts
        if evaluated is None:
            return Snapshot([], [])
        first = dict(zip(evaluated.plan.entries, evaluated.texts, strict=True))
        mine = [record for record in records if record.entry in first]
        return Snapshot(mine, [first[record.entry] for record in mine], first)

    def restricted(self) -> list[tuple[Entry, str]]:
        """Return the tools that providers know and did not show, with the provider's entry."""
        shown = {tool.name for tool in self.tools}
        return [
            (entry, name)
            for entry, (_, known, _) in zip(self.plan.tools, self.provided, strict=False)
            for name in known or ()
            if name not in shown
        ]

    def callable_tools(self, assembly: PromptAssembly) -> set[str]:
        """Return the names of the tools that an assembly shows, or that are called through one."""
        names = {tool.name for tool in assembly.tools}
        for _, _, through in self.provided:
            for name, others in through.items():
                if name in names:
                    names = names | others
        return names

    def called_through(self, name: str, assembly: PromptAssembly) -> str | None:
        """Return the tool that an assembly shows, and that a tool can be called through."""
        shown = {tool.name for tool in assembly.tools}
        for _, _, through in self.provided:
            for caller, others in through.items():
                if caller in shown and name in others:
                    return caller
        return None

    def explain(self, assembly: PromptAssembly) -> list[Explained]:
        """Return what became of every contribution to `assembly`, which came about this way."""
        return explain(assembly, self)

    def variable_origins(self) -> dict[str, Origin]:
        """Return who registered each variable."""
        origins: dict[str, Origin] = {}
        for entry in self.plan.all_variables:
            seconds = self.seconds.get(entry)
            origins[entry.name] = self.plan.source_of(entry).origin(seconds)
        return origins
