"""The sections, or the contexts, of a plan: fixed texts in place, providers where they are due.

`TextPlan` is the frozen part, kept with the plan; `Texts` is what one assembly made of it. The
records that listeners work on are made only when somebody asks for them: an assembly that nobody
touches is rendered from the plan's split texts. Contract: section 5, "Order of work".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from ..errors import PromptRenderError
from .entries import Entry
from .origin import OriginSource, Timed
from .template import Template, interpolate, parse

__all__ = ["OMITTED", "TextPlan", "Texts"]

OMITTED: Any = object()
"""Stands for the text of an optional entry that failed."""

SourceOf: TypeAlias = Callable[[Entry], OriginSource]


class TextPlan:
    """Entries in order, and everything about them that does not change between assemblies."""

    __slots__ = (
        "_without",
        "entries",
        "fixed",
        "needs_tools",
        "places",
        "providers",
        "sources",
        "templates",
    )

    def __init__(self, entries: Iterable[Entry], source_of: SourceOf) -> None:
        self.entries = list(entries)
        self.fixed: list[Any] = [entry.text for entry in self.entries]
        """The fixed texts; None where a provider gives one."""
        self.places = [at for at, entry in enumerate(self.entries) if entry.provider is not None]
        self.providers = [self.entries[at] for at in self.places]
        self.templates: list[Template | bool] = [_template_of(entry) for entry in self.entries]
        """For each text its split; False: nothing to scan, True: scan what the provider gave."""
        self.sources = [source_of(entry) for entry in self.entries]
        self.needs_tools = frozenset(
            name for entry in self.entries for name in entry.requires_tools
        )
        self._without: dict[frozenset[str], TextPlan] = {}

    def without(self, hidden: frozenset[str]) -> TextPlan:
        """Return the plan of what requires none of these tools."""
        plan = self._without.get(hidden)
        if plan is None:
            kept = [entry for entry in self.entries if hidden.isdisjoint(entry.requires_tools)]
            plan = self._without[hidden] = self.of(kept)
        return plan

    def of(self, kept: list[Entry]) -> TextPlan:
        """Return the plan of some of the entries."""
        sources = dict(zip(self.entries, self.sources, strict=True))
        return TextPlan(kept, sources.__getitem__)


def _template_of(entry: Entry) -> Template | bool:
    if entry.literal:
        return False
    if entry.text is None:
        return True
    if entry.template is None:
        entry.template = parse(entry.text) if "{{" in entry.text else False
    return entry.template


class Texts:
    """The texts of one assembly."""

    __slots__ = ("plan", "seconds", "texts")

    def __init__(
        self, plan: TextPlan, provided: Sequence[Any], seconds: Mapping[Entry, float]
    ) -> None:
        texts = plan.fixed[:]
        for place, text in zip(plan.places, provided, strict=True):
            texts[place] = text
        if OMITTED in provided:
            kept = [at for at, text in enumerate(texts) if text is not OMITTED]
            plan = plan.of([plan.entries[at] for at in kept])
            texts = [texts[at] for at in kept]
        self.plan = plan
        self.texts = texts
        self.seconds = seconds

    def records(self, kind: type[Any]) -> list[Any]:
        """Return the texts as the mutable records that listeners work on."""
        plan, seconds = self.plan, self.seconds
        records = [
            kind(entry.name, text, entry.literal, source)
            for entry, text, source in zip(plan.entries, self.texts, plan.sources, strict=True)
        ]
        for place in plan.places:
            record = records[place]
            record._source = Timed(record._source, seconds.get(plan.entries[place]))
        return records

    def rendered(self, variables: Mapping[str, str | None], kind: str) -> list[str]:
        """Return the texts with their references replaced."""
        rendered: list[str] = []
        for at, (text, template) in enumerate(zip(self.texts, self.plan.templates, strict=True)):
            if template is False or (template is True and "{{" not in text):
                rendered.append(text)
                continue
            if template is True:
                template = parse(text)
            entry = self.plan.entries[at]
            try:
                rendered.append(interpolate(template, variables, kind, entry.name))
            except PromptRenderError as error:
                error.add_note(f"{kind} from {entry.origin()}")
                raise
        return rendered
