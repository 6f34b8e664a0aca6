"""The rules of `harness check` that look at one assembly: its texts, orders, tools and pairs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import attrs

from ..errors import (
    MalformedReferenceError,
    MissingVariableError,
    PromptRenderError,
    UnknownVariableError,
)
from ..prompt import Explained, Origin, PromptAssembly
from .findings import Finding, finding_at
from .origins import written_text
from .payload import render_part

__all__ = ["Texts", "check_assembly_texts", "rendered"]

Texts = dict[tuple[str, str], str]
"""By kind and name: the texts of an assembly as far as they can be rendered."""

_RULES: tuple[tuple[type[Exception], str], ...] = (
    (UnknownVariableError, "unknown-variable"),
    (MissingVariableError, "missing-variable"),
    (MalformedReferenceError, "malformed-reference"),
)

_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e007f\U000e0100-\U000e01ef]"
)
_JOINERS = "\u200c\u200d"


def items_of(assembly: PromptAssembly) -> Iterator[tuple[str, Any]]:
    """Yield every section and context with its kind."""
    for section in assembly.sections:
        yield "section", section
    for context in assembly.contexts:
        yield "context", context


def rendered(
    assembly: PromptAssembly, scope: str, files: Mapping[Path, str]
) -> tuple[Texts, list[Finding]]:
    """Return every text as far as it can be rendered, and a finding for each that cannot.

    `files` are those that plugins have read.
    """
    texts: Texts = {}
    findings: list[Finding] = []
    for kind, item in items_of(assembly):
        try:
            texts[kind, item.name] = render_part(kind, item, assembly.variables)
        except Exception as error:
            texts[kind, item.name] = item.text
            rule = next((name for cls, name in _RULES if isinstance(error, cls)), "assembly")
            finding = finding_at(rule, scope, item.origin, str(error))
            if isinstance(error, PromptRenderError):
                where = written_text(error, assembly, files)
                finding = attrs.evolve(finding, where=where or finding.where)
            findings.append(finding)
    return texts, findings


def check_assembly_texts(
    assembly: PromptAssembly, texts: Texts, scope: str, known_tools: Mapping[str, Origin | None]
) -> Iterator[Finding]:
    """Yield what one assembly shows: ties, hidden tools, broken pairs, failures, the invisible."""
    yield from _ties("section", assembly.sections, texts, scope)
    yield from _ties("context", assembly.contexts, texts, scope)
    yield from _hidden_tools(assembly, texts, scope, known_tools)
    explained = assembly.explain()
    for one in explained:
        if one.status == "failed":
            message = f'{one.kind} "{one.name}" was left out: {one.reason}'
            yield finding_at("failed-contribution", scope, one.origin, message)
    yield from _broken_pairs(explained, scope)
    yield from _invisible(assembly, texts, scope)


def _ties(kind: str, items: list[Any], texts: Texts, scope: str) -> Iterator[Finding]:
    standing = [
        item
        for item in items
        if texts.get((kind, item.name))
        and item.origin is not None
        and item.origin.order is not None
    ]
    standing.sort(key=lambda item: item.origin.order)
    for order, group in groupby(standing, key=lambda item: item.origin.order):
        tied = list(group)
        if len(tied) > 1:
            names = " and ".join(f'"{item.name}" of {item.origin.plugin}' for item in tied)
            message = f"{kind}s {names} have the same order {order:g}: which comes first is chance"
            yield finding_at("order-tie", scope, tied[-1].origin, message)


def _hidden_tools(
    assembly: PromptAssembly, texts: Texts, scope: str, known: Mapping[str, Origin | None]
) -> Iterator[Finding]:
    hidden = set(known) - assembly.callable_tools
    if not hidden:
        return
    for kind, item in items_of(assembly):
        # In data only what is marked as code counts: a commit may well be about a tool.
        for name in _named(texts[kind, item.name], hidden, only_code=item.literal):
            message = f'{kind} "{item.name}" names the tool {name}, which is hidden here'
            yield finding_at("hidden-tool", scope, item.origin, message)
    for tool in assembly.tools:
        for name in _named(tool.description, hidden, only_code=False):
            message = f'the description of tool "{tool.name}" names {name}, which is hidden here'
            yield finding_at("hidden-tool", scope, tool.origin, message)


def _broken_pairs(explained: list[Explained], scope: str) -> Iterator[Finding]:
    """Yield every section and tool that belong together and are not both there."""
    unpaired = [one for one in explained if one.status == "unpaired"]
    # Where both were left out, the section says why.
    sections = [one for one in unpaired if one.kind == "section"]
    for one in sections or unpaired:
        message = f'{one.kind} "{one.name}" was left out: {one.reason}'
        yield finding_at("broken-pair", scope, one.origin, message)


def _named(text: str, names: set[str], *, only_code: bool) -> list[str]:
    found: list[str] = []
    for name in sorted(names):
        escaped = re.escape(name)
        word = f"`{escaped}`" if only_code else rf"(?<![\w-]){escaped}(?![\w-])"
        if re.search(word, text):
            found.append(name)
    return found


def _invisible(assembly: PromptAssembly, texts: Texts, scope: str) -> Iterator[Finding]:
    for kind, item in items_of(assembly):
        found = _describe_invisible(texts[kind, item.name])
        if found:
            message = f'{kind} "{item.name}" holds invisible characters: {found}'
            yield finding_at("invisible-characters", scope, item.origin, message)
    for tool in assembly.tools:
        found = _describe_invisible(f"{tool.name}\n{tool.description}")
        if found:
            message = f'tool "{tool.name}" holds invisible characters: {found}'
            yield finding_at("invisible-characters", scope, tool.origin, message)


def _describe_invisible(text: str, most: int = 5) -> str:
    found = [
        f"U+{ord(match[0]):04X} at offset {match.start()}"
        for match in _INVISIBLE.finditer(text)
        if not _joins(text, match.start())
    ]
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + more


def _joins(text: str, at: int) -> bool:
    """Whether a joiner stands between two letters or emoji that it is written for."""
    around = text[at - 1 : at] + text[at + 1 : at + 2]
    return text[at] in _JOINERS and len(around) == 2 and not any(map(str.isascii, around))
