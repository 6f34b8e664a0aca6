"""Pairs: a section and a tool of which an assembly has both or neither.

Looked at after the listeners and after restoration, when nobody takes anything away any more.
"""

from __future__ import annotations

from .entries import Entry
from .model import PromptAssembly
from .trace import Trace, Unpaired

__all__ = ["keep_pairs"]


def keep_pairs(assembly: PromptAssembly, trace: Trace) -> None:
    """Leave out the rest of every pair that is no longer whole, and note it in the trace."""
    for pair in trace.plan.pairs:
        name, (tool,) = pair.name, pair.requires_tools
        has_section = _has_section(assembly, pair)
        has_tool = any(one.name == tool for one in assembly.tools)
        if has_section == has_tool:
            continue
        lost = "tool" if has_section else "section"
        if not has_section and any(item.name == name for item in assembly.sections):
            lost = "text"
        trace.unpaired[name] = Unpaired(name, tool, lost)
        assembly.sections = [item for item in assembly.sections if item.name != name]
        assembly.tools = [one for one in assembly.tools if one.name != tool]
        lost_tools = {tool}.union(*(one.through.get(tool, ()) for one in trace.provided))
        _without_guidance(assembly, trace, lost_tools - trace.callable_tools(assembly))


def _has_section(assembly: PromptAssembly, pair: Entry) -> bool:
    """Whether the section is there, with a text, and is nobody else's of that name."""
    texts = assembly.untouched_sections
    if texts is not None:
        pairs = zip(texts.plan.entries, texts.texts, strict=True)
        return any(one.name == pair.name and text and _same(one, pair) for one, text in pairs)
    return any(
        item.name == pair.name and item.text and _same(item.entry, pair)
        for item in assembly.sections
    )


def _same(entry: Entry | None, pair: Entry) -> bool:
    """Whether an entry is of whoever made the pair; what a listener put there counts."""
    return entry is None or entry.fiber is pair.fiber


def _without_guidance(assembly: PromptAssembly, trace: Trace, lost: set[str]) -> None:
    """Leave out what requires a tool that can no longer be called."""
    if not trace.plan.needs_tools & lost:
        return
    trace.hidden_tools |= lost

    def stays(entry: Entry | None) -> bool:
        return entry is None or entry.complete or lost.isdisjoint(entry.requires_tools)

    assembly.sections = [item for item in assembly.sections if stays(item.entry)]
    assembly.contexts = [item for item in assembly.contexts if stays(item.entry)]
