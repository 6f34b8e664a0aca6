"""What changed between two assemblies, who changed it, and what a prompt cache can still reuse.

Contract: section 5, `diff_assemblies`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import attrs

from .model import PromptAssembly
from .origin import Origin
from .render import render_context_snapshot, render_prompt

__all__ = ["AssemblyDiff", "Change", "diff_assemblies", "render_request"]


@attrs.frozen
class Change:
    """One difference. `change` is "added", "removed", "changed" or "moved".

    `origin` is that of the newer side (of the older one for what was removed); None for what a
    listener made. `detail` says what of it changed, `listener` which listeners had a hand in it.
    """

    kind: str
    name: str
    change: str
    detail: str = ""
    origin: Origin | None = None
    listener: str = ""

    def __str__(self) -> str:
        by = f' by plugin "{self.origin.plugin}"' if self.origin else ""
        if self.listener:
            by = f" by {self.listener}"
        detail = f" ({self.detail})" if self.detail else ""
        return f'{self.kind} "{self.name}" {self.change}{detail}{by}'


@attrs.frozen
class AssemblyDiff:
    """The differences between two assemblies; falsy if there are none.

    `same_prefix` counts the leading characters that the two rendered requests share, of
    `before_length` and `after_length`.
    """

    changes: tuple[Change, ...]
    same_prefix: int
    before_length: int
    after_length: int

    def __bool__(self) -> bool:
        return bool(self.changes) or self.before_length != self.after_length

    @property
    def reusable(self) -> float:
        """The share of the newer request that a prompt cache can reuse, from 0 to 1."""
        return self.same_prefix / self.after_length if self.after_length else 1.0


def render_request(assembly: PromptAssembly) -> str:
    """Return the request as one text: system prompt, tools, snapshot, as a prompt cache sees it."""
    tools = [[tool.name, tool.description, tool.parameters] for tool in assembly.tools]
    parts = [
        render_prompt(assembly),
        json.dumps(tools, ensure_ascii=False) if tools else "",
        render_context_snapshot(assembly),
    ]
    return "\n\n".join(part for part in parts if part)


def diff_assemblies(before: PromptAssembly, after: PromptAssembly) -> AssemblyDiff:
    """Return what changed from `before` to `after`. Raises what rendering either raises."""
    old, new = render_request(before), render_request(after)
    changes = [
        *_diff("section", before.sections, after.sections),
        *_diff("context", before.contexts, after.contexts),
        *_diff_variables(before, after),
        *_diff("tool", before.tools, after.tools),
    ]
    # Explaining costs more than comparing, and most comparisons find nothing.
    made = {**_made_by_listeners(before), **_made_by_listeners(after)} if changes else {}
    named = tuple(
        attrs.evolve(change, listener=made.get((change.kind, change.name), ""))
        for change in changes
    )
    return AssemblyDiff(named, _same_prefix(old, new), len(old), len(new))


def _made_by_listeners(assembly: PromptAssembly) -> dict[tuple[str, str], str]:
    """Return, by kind and name, the listeners that had a hand in a part."""
    return {
        (part.kind, part.name): part.reason.removeprefix("by ")
        for part in assembly.explain()
        if part.status in ("added", "changed", "dropped")
    }


def _same_prefix(old: str, new: str) -> int:
    shorter = min(len(old), len(new))
    pairs = zip(old, new, strict=False)
    return next((at for at, (one, other) in enumerate(pairs) if one != other), shorter)


def _diff(kind: str, before: Iterable[Any], after: Iterable[Any]) -> list[Change]:
    old = {item.name: item for item in before}
    new = {item.name: item for item in after}
    changes = [
        Change(kind, name, "removed", origin=item.origin)
        for name, item in old.items()
        if name not in new
    ]
    for name, item in new.items():
        if name not in old:
            changes.append(Change(kind, name, "added", origin=item.origin))
        else:
            detail = _what_changed(old[name], item)
            if detail:
                changes.append(Change(kind, name, "changed", detail, item.origin))
    stayed_old = [name for name in old if name in new]
    stayed_new = [name for name in new if name in old]
    changes += [
        Change(kind, name, "moved", origin=new[name].origin)
        for name, other in zip(stayed_new, stayed_old, strict=True)
        if name != other
    ]
    return changes


def _what_changed(old: Any, new: Any) -> str:
    fields = ("text", "literal") if hasattr(new, "text") else ("description", "parameters")
    return ", ".join(field for field in fields if getattr(old, field) != getattr(new, field))


def _diff_variables(before: PromptAssembly, after: PromptAssembly) -> list[Change]:
    old, new = before.variables, after.variables
    origins = {**before.variable_origins, **after.variable_origins}
    changes: list[Change] = []
    for name in dict.fromkeys([*old, *new]):
        if name not in new:
            change = "removed"
        elif name not in old:
            change = "added"
        elif old[name] != new[name]:
            change = "changed"
        else:
            continue
        changes.append(Change("variable", name, change, origin=origins.get(name)))
    return changes
