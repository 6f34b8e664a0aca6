"""`harness check`: boot without a model, assemble every scope twice, and say what is wrong.

Rules: manifest, config, plugin, waiting, reported (of rows); assembly, tool-order, duplicate-tool
(an assembly that fails); unknown-variable, missing-variable, malformed-reference, order-tie,
hidden-tool, broken-pair, failed-contribution, invisible-characters (of one assembly); volatile
(of two).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import anyio
import attrs
from rich.console import Console
from rich.text import Text

from ..errors import ConfigError, InvariantError, ManifestError, ToolOrderError
from ..prompt import Origin, PromptAssembly, ToolSchema
from ..scopes import scope_chain_of
from .check_texts import Texts, check_assembly_texts, rendered
from .faults import fault_in_scope, fault_of_report
from .findings import Finding, finding_at, finding_of_fault
from .payload import GLOBAL
from .safe import one_line
from .session import ScopeView, Session

__all__ = ["run_checks", "show_findings"]

_VARIABLES = frozenset({"unknown-variable", "missing-variable"})


@attrs.define(eq=False)
class _Checked:
    """One scope, assembled for the first time."""

    view: ScopeView
    assembly: PromptAssembly
    texts: Texts
    findings: list[Finding]


async def run_checks(session: Session, interval: float) -> list[Finding]:
    """Return everything that is wrong; what an outer scope shows already is not said again.

    `interval`: seconds between the two assemblies that are compared.
    """
    findings = [*_rows(session)]
    views = session.scopes() if session.root.get("system_prompt") is not None else []
    checked: list[_Checked] = []
    for view in views:
        first = await _assemble(session, view)
        if isinstance(first, _Checked):
            checked.append(first)
        else:
            findings += first
    known = _known_tools(checked)
    for one in checked:
        findings += _of_rendering(one, checked)
        findings += check_assembly_texts(one.assembly, one.texts, one.view.name, known)
    findings += await _volatile(checked, interval)
    return _without_inherited(findings, views)


def _of_rendering(one: _Checked, checked: list[_Checked]) -> list[Finding]:
    """Return what cannot be rendered; of the global layer's variables, what is no agent's either.

    A text that all share may say `{{model}}`, which only an agent has.
    """
    others = [{two.fact for two in other.findings} for other in checked if other is not one]
    if not one.view.is_global or not others:
        return one.findings
    return [
        two
        for two in one.findings
        if two.rule not in _VARIABLES or all(two.fact in facts for facts in others)
    ]


# Rows


def _rows(session: Session) -> Iterator[Finding]:
    for name, error in session.loader.refused.items():
        where = ":".join(str(part) for part in (error.file, error.line, error.column) if part)
        yield Finding("plugin", GLOBAL, name, where, error.message)
    for fiber, fault in session.failed():
        yield finding_of_fault(_rule_of(fiber.error), fiber.name, fault)
    for fiber, fault in session.unfinished():
        yield finding_of_fault("plugin", fiber.name, fault)
    for fiber, reported in session.reported:
        if fiber.error is not reported:
            yield finding_of_fault("reported", fiber.name, fault_of_report(fiber, reported))
    for waiting in session.waiting():
        place = str(waiting.entry.place_of("name"))
        yield Finding("waiting", GLOBAL, waiting.fiber.name, place, str(waiting))


def _rule_of(error: BaseException | None) -> str:
    if isinstance(error, ToolOrderError):
        return "tool-order"
    if isinstance(error, ConfigError):
        return "config"
    return "manifest" if isinstance(error, ManifestError) else "plugin"


# Assembling


async def _assemble(session: Session, view: ScopeView) -> _Checked | list[Finding]:
    """Assemble a scope; where that fails, say why."""
    tools: list[ToolSchema] = []

    async def note(_: object, __: object, next: Any) -> PromptAssembly:
        result: PromptAssembly = await next()
        tools.extend(result.tools)
        return result

    listener = session.root.on("system-prompt/assemble", note, prepend=True, unfiltered=True)
    try:
        assembly = await view.assemble()
    except Exception as error:
        return _failed(error, view, tools)
    finally:
        await listener()
    texts, findings = rendered(assembly, view.name, view.ctx.kernel.texts)
    return _Checked(view, assembly, texts, findings)


def _failed(error: Exception, view: ScopeView, tools: list[ToolSchema]) -> list[Finding]:
    fault = fault_in_scope(error, view.name)
    if isinstance(error, InvariantError) and error.rule.startswith("tool names are unique"):
        return [*_duplicates(view, tools)] or [
            finding_of_fault("duplicate-tool", None, fault, view.name)
        ]
    rule = "tool-order" if isinstance(error, ToolOrderError) else "assembly"
    return [finding_of_fault(rule, None, fault, view.name)]


def _duplicates(view: ScopeView, tools: list[ToolSchema]) -> Iterator[Finding]:
    for name, count in Counter(tool.name for tool in tools).items():
        if count > 1:
            origins = [tool.origin for tool in tools if tool.name == name]
            by = " and ".join(str(origin) if origin else "a listener" for origin in origins)
            message = f'the tool "{name}" is there {count} times: from {by}'
            yield finding_at("duplicate-tool", view.name, origins[-1], message)


def _known_tools(checked: list[_Checked]) -> dict[str, Origin | None]:
    """Return every tool that some provider knows, shown or not."""
    known: dict[str, Origin | None] = {}
    for one in checked:
        for part in one.assembly.explain():
            if part.kind == "tool":
                known.setdefault(part.name, part.origin)
    return known


# Volatile text


async def _volatile(checked: list[_Checked], interval: float) -> list[Finding]:
    """Assemble again, and find sections that differ and stand before ones that do not."""
    if any(map(_may_change, checked)):
        await anyio.sleep(interval)
    findings: list[Finding] = []
    for one in checked:
        try:
            again = await one.view.assemble()
        except Exception as error:
            fault = fault_in_scope(error, one.view.name)
            findings.append(finding_of_fault("volatile", None, fault, one.view.name))
            continue
        findings += _compare(one, again)
    return findings


def _may_change(one: _Checked) -> bool:
    """Whether a section with a provider stands before another one."""
    before_last = one.assembly.sections[:-1]
    return any(item.origin is None or item.origin.seconds is not None for item in before_last) or (
        any(
            part.kind == "variable" and part.origin is not None and part.origin.seconds is not None
            for part in one.assembly.explain()
        )
    )


def _compare(one: _Checked, again: PromptAssembly) -> Iterator[Finding]:
    texts, _ = rendered(again, one.view.name, {})
    names = [item.name for item in one.assembly.sections if one.texts["section", item.name]]
    stable = [name for name in names if texts.get(("section", name)) == one.texts["section", name]]
    made = {
        part.name: f"; it was {part.status} {part.reason}"
        for part in one.assembly.explain()
        if part.kind == "section" and part.status in ("added", "changed")
    }
    for item in one.assembly.sections:
        name = item.name
        if name not in names or name in stable:
            continue
        after = [other for other in names[names.index(name) :] if other in stable]
        if after:
            message = (
                f'section "{name}" differs between two assemblies and stands before "{after[0]}", '
                "which does not: give it a higher order, or make it runtime context, so that the "
                f"prompt cache stays useful{made.get(name, '')}"
            )
            yield finding_at("volatile", one.view.name, item.origin, message)
    if again.tools != one.assembly.tools:
        changed = [tool for tool in one.assembly.tools if tool not in again.tools]
        origin = changed[0].origin if changed else None
        yield finding_at(
            "volatile", one.view.name, origin, "the tools differ between two assemblies"
        )


# Reporting


def _without_inherited(findings: list[Finding], views: list[ScopeView]) -> list[Finding]:
    """Drop what an outer scope shows already."""
    shown: dict[tuple[object, ...], set[str]] = {}
    for finding in findings:
        shown.setdefault(finding.fact, set()).add(finding.scope)
    names = {id(view.key): view.name for view in views}
    outer = {
        view.name: {GLOBAL, *(names.get(id(key), "") for key in scope_chain_of(view.key)[1:])}
        for view in views
        if view.key is not None
    }
    kept = [
        finding
        for finding in findings
        if not shown[finding.fact] & outer.get(finding.scope, set()) - {finding.scope}
    ]
    return list(dict.fromkeys(kept))


def show_findings(console: Console, findings: list[Finding], scopes: int) -> None:
    """Print one line for each finding, and a last line with their number."""
    for finding in findings:
        line = Text()
        if finding.where:
            line.append(f"{one_line(finding.where)}: ", style="bold")
        line.append(finding.rule, style="bold red")
        by = f", plugin {one_line(finding.plugin)}" if finding.plugin else ""
        line.append(f" (scope {one_line(finding.scope)}{by}): ", style="dim")
        line.append(one_line(finding.message))
        console.print(line, soft_wrap=True)
    many = "no fault" if not findings else f"{len(findings)} fault{'s' if findings[1:] else ''}"
    style = "green" if not findings else "bold red"
    assembled = f"{scopes} scope{'' if scopes == 1 else 's'}"
    console.print(Text(f"{many} in {assembled}", style=style))
