"""An assembled request for people: each part with who wrote it, where it stands, what it replaces.

Everything is laid out in lines that fit, so that a pipe, a terminal and a picture show the same.
"""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from ..loader import as_dict
from ..prompt import Explained, Origin, PromptAssembly
from ..scopes import scope_chain_of
from .faults import relative
from .payload import GLOBAL, describe_scope, render_part, scope_name, written_at
from .safe import one_line, visible
from .session import ScopeView
from .tokens import count_tokens, is_estimate

__all__ = ["show_legend", "show_request"]

_NAME, _PLUGIN, _DIM, _SHADOW, _ABSENT = "bold cyan", "green", "dim", "yellow", "red"
_QUIET = frozenset({"shadowed", "empty"})
"""What is absent in these ways shows elsewhere, or is nothing to look at, unless asked for."""


class _Page:
    """Prints lines no wider than the console."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def line(self, text: Text | str = "", *, indent: str = "", hanging: str | None = None) -> None:
        """Print a text, wrapped; lines after the first begin with `hanging`."""
        content = text if isinstance(text, Text) else Text(text)
        width = self.console.width - max(len(indent), len(hanging or indent))
        lines = content.wrap(self.console, width) or [Text()]
        for number, one in enumerate(lines):
            start = indent if number == 0 or hanging is None else hanging
            one.rstrip()
            full = Text.assemble((start, _DIM), one)
            full.rstrip()
            self.console.print(full, no_wrap=True, overflow="ignore", crop=False)

    def block(self, text: str) -> None:
        """Print other people's text, with a bar in front of each line."""
        for one in visible(text).expandtabs(4).split("\n"):
            self.line(one, indent="  │ ")

    def heading(self, title: str) -> None:
        """Print the title of a part of the request."""
        self.line()
        self.line(Text(title, style="bold"))


def show_request(
    console: Console, view: ScopeView, assembly: PromptAssembly, *, explain: bool
) -> None:
    """Print a scope's request. Raises what rendering raises."""
    chain = [*map(scope_name, scope_chain_of(view.key)), GLOBAL]
    described = describe_scope(assembly)
    explained = assembly.explain()
    page = _Page(console)
    _title(page, view, chain, described)
    page.heading("System prompt")
    _texts(page, "section", assembly.sections, assembly, explained, explain)
    page.heading("Runtime context")
    if described["snapshot"]:
        preamble = described["snapshot"].partition("\n\n")[0]
        page.line(Text(preamble, style="dim italic"), indent="  ")
    _texts(page, "context", assembly.contexts, assembly, explained, explain)
    page.heading("Tools")
    _tools(page, assembly, explained, explain)
    if explain:
        page.heading("Variables")
        _variables(page, assembly, explained)
    console.print()


def show_legend(console: Console) -> None:
    """Print what the lines mean."""
    legend = Text.assemble(
        ("●", _DIM), (" part", _NAME), ("  plugin", _PLUGIN), (" · scope · order · size", _DIM),
        ("     ○ left out", _ABSENT), (", and why", _DIM),
    )  # fmt: skip
    console.print(legend, no_wrap=True)
    console.print()


def _title(page: _Page, view: ScopeView, chain: list[str], described: dict[str, Any]) -> None:
    tools = "".join(
        f"{tool['name']}{tool['description']}{tool['parameters']}" for tool in described["tools"]
    )
    total = sum(count_tokens(text) for text in (described["system"], described["snapshot"], tools))
    title = Text.assemble((f" {one_line(view.name)} ", "bold white on blue"))
    rest = Text()
    if len(chain) > 1:
        rest.append(f"  sees {' → '.join(one_line(name) for name in chain[1:])}", style=_DIM)
    rest.append(f"  {_tokens(total)}", style=_DIM)
    page.line(title + rest)


def _tokens(count: int) -> str:
    return f"{'~' if is_estimate() else ''}{count} token{'' if count == 1 else 's'}"


def _texts(
    page: _Page,
    kind: str,
    items: list[Any],
    assembly: PromptAssembly,
    explained: list[Explained],
    explain: bool,
) -> None:
    by_name = {one.name: one for one in explained if one.kind == kind and one.is_present}
    shown = 0
    for item in items:
        text = render_part(kind, item, assembly.variables)
        if not text and not explain:
            continue
        shown += 1
        _part(page, item.name, item.origin, by_name.get(item.name), explain, count_tokens(text))
        if text:
            page.block(text)
    if not shown:
        page.line(Text("none", style=_DIM), indent="  ")
    _absent(page, kind, explained, explain)


def _part(
    page: _Page,
    name: str,
    origin: Origin | None,
    one: Explained | None,
    explain: bool,
    tokens: int | None = None,
) -> None:
    line = Text()
    line.append(one_line(name), style=_NAME)
    line.append("  ")
    if origin is None:
        line.append(f"added {one_line(one.reason) if one else ''}", style=_SHADOW)
    else:
        _append_origin(line, origin)
    if tokens is not None:
        line.append(f" · {_tokens(tokens)}", style=_DIM)
    page.line(line, indent="● ", hanging="    ")
    if origin is not None:
        _append_shadows(page, origin)
    if one is not None and one.status in ("changed", "empty"):
        page.line(
            Text(f"{one.status} {relative(one_line(one.reason))}", style=_SHADOW), indent="    "
        )
    if explain and origin is not None:
        page.line(Text(_whereabouts(origin), style=_DIM), indent="    ")


def _append_origin(line: Text, origin: Origin) -> None:
    line.append(one_line(origin.plugin), style=_PLUGIN)
    line.append(f" · {one_line(scope_name(origin.scope))}", style=_DIM)
    if origin.order is not None:
        line.append(f" · order {origin.order:g}", style=_DIM)


def _append_shadows(page: _Page, origin: Origin) -> None:
    for behind in origin.shadows:
        line = Text("replaces that of ", style=_SHADOW)
        line.append(one_line(behind.plugin), style=_SHADOW)
        line.append(f" · {one_line(scope_name(behind.scope))}", style=_SHADOW)
        page.line(line, indent="    ")


def _whereabouts(origin: Origin) -> str:
    took = f", provider took {origin.seconds * 1000:.1f} ms" if origin.seconds is not None else ""
    place = written_at(origin.file, origin.line)
    return one_line(f"{f'{place}, ' if place else ''}fiber {origin.fiber}{took}")


def _absent(page: _Page, kind: str, explained: list[Explained], explain: bool) -> None:
    for one in explained:
        if one.kind != kind or one.is_present or (one.status in _QUIET and not explain):
            continue
        line = Text.assemble((f"○ {one_line(one.name)}", _ABSENT))
        if one.origin is not None:
            line.append("  ")
            _append_origin(line, one.origin)
        page.line(line, hanging="    ")
        reason = Text(f"{one.status}: {relative(one_line(one.reason))}", style=_DIM)
        page.line(reason, indent="    ")


def _tools(
    page: _Page, assembly: PromptAssembly, explained: list[Explained], explain: bool
) -> None:
    by_name = {one.name: one for one in explained if one.kind == "tool" and one.is_present}
    for tool in assembly.tools:
        name = f"{tool.name}({_parameters(tool.parameters)})"
        _part(page, name, tool.origin, by_name.get(tool.name), explain)
        page.block(tool.description)
    if not assembly.tools:
        page.line(Text("none", style=_DIM), indent="  ")
    _absent(page, "tool", explained, explain)


def _parameters(schema: Any) -> str:
    properties = as_dict(schema.get("properties"))
    if properties is None:
        return ""
    required = schema.get("required", ())
    return ", ".join(name if name in required else f"{name}?" for name in properties)


def _variables(page: _Page, assembly: PromptAssembly, explained: list[Explained]) -> None:
    for one in explained:
        if one.kind != "variable":
            continue
        line = Text()
        line.append(one_line(one.name), style=_NAME)
        if one.is_present:
            value = assembly.variables.get(one.name)
            line.append(" = ")
            line.append("no value" if value is None else one_line(value))
        else:
            line.append(f"  {one.status}", style=_ABSENT)
        line.append("  ")
        if one.origin is not None:
            _append_origin(line, one.origin)
        page.line(line, indent="● ", hanging="    ")
        if one.origin is not None:
            page.line(Text(_whereabouts(one.origin), style=_DIM), indent="    ")
