"""`harness dev`: run, watch, and show each reload as a difference of the prompt."""

from __future__ import annotations

import json

import click
from rich.console import Console
from rich.text import Text

from .. import Context
from ..app import Application, Settings
from ..loader import Loader, shown_path
from .frame import common, run_in_frame, warn
from .living import Happening, Living
from .run import report_errors, until_told_to_stop
from .safe import one_line, visible
from .session import open_session
from .tree import show_tree
from .trouble import Trouble

__all__ = ["dev"]

_STYLES = {"ready": "green", "reloaded": "green", "failed": "bold red", "stopped": "dim"}
_MARKS = {"added": "+", "removed": "-", "changed": "~", "moved": "↕"}


@click.command(epilog="Exit codes: 0 stopped by SIGINT or SIGTERM, 1 faults, 2 a wrong call.")
@common
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")
@click.option("--tree", "with_tree", is_flag=True, help="Also print the tree after each change.")
def dev(
    config: str,
    as_json: bool,
    with_tree: bool,
    debug: bool,
    patience: float,
    disable: tuple[str, ...],
) -> None:
    """Run CONFIG, and follow every save of it, of its plugins and of the texts they watch."""

    async def serve(app: Application) -> None:
        living: list[Living] = []

        def prepare(root: Context, loader: Loader) -> None:
            living.append(Living(root, loader))

        output = app.output()
        try:
            async with open_session(app, prepare) as session:
                report_errors(session.root, app, unless=lambda: living[0].is_at_work)
                if not as_json:
                    warn(app, session, [])

                def report(one: Happening) -> None:
                    if as_json:
                        _print_line(output, one)
                        return
                    _show(output, one)
                    if with_tree:
                        show_tree(output, session, living[0].reloader.stale)

                await living[0].run(session, report)
        finally:
            if living and as_json:
                _print_line(output, Happening("stopped"))
            elif living:
                _show(output, Happening("stopped"))

    async def action(app: Application) -> int:
        return await until_told_to_stop(lambda: serve(app))

    run_in_frame(Settings(config, debug, patience, disable), action, as_json=as_json)


def _print_line(console: Console, one: Happening) -> None:
    console.file.write(json.dumps(one.as_data(), ensure_ascii=False) + "\n")
    console.file.flush()


def _show(console: Console, one: Happening) -> None:
    line = Text(one.event, style=_STYLES[one.event])
    if one.event == "ready":
        line.append(f"  {len(one.plugins)} plugins, {len(one.scopes)} scopes; waiting for saves")
    elif one.event != "stopped":
        line.append(f" {one_line(', '.join(one.plugins)) or 'nothing'}")
        line.append(f"  {one.seconds * 1000:.0f} ms", style="dim")
    console.print(line, soft_wrap=True)
    for change in one.plan.changes if one.plan is not None else ():
        if change.action != "keep":
            console.print(Text(f"  row: {one_line(str(change))}"), soft_wrap=True)
    for trouble in one.troubles:
        _show_trouble(console, trouble)
    _show_differences(console, one)
    for path in one.stale:
        stale = Text(f"  stale: {one_line(path)} runs an older version of its code", "yellow")
        console.print(stale, soft_wrap=True)


def _show_trouble(console: Console, trouble: Trouble) -> None:
    line = Text("  error: ", style="bold red")
    if trouble.file is not None:
        place = shown_path(trouble.file) if "/" in trouble.file else trouble.file
        where = f"{place}:{trouble.line}" if trouble.line is not None else place
        line.append(f"{one_line(where)}: ", style="bold")
    line.append(visible(trouble.message))
    console.print(line, soft_wrap=True)
    for code in trouble.excerpt.splitlines():
        style = "bold" if code.startswith(">") else "dim"
        console.print(Text(f"    {visible(code)}", style=style), soft_wrap=True)


def _show_differences(console: Console, one: Happening) -> None:
    if one.diffs and not any(one.diffs.values()) and one.event == "reloaded":
        console.print(Text("  no prompt changed", style="dim"))
    for name, diff in one.diffs.items():
        if not diff:
            continue
        line = Text(f"  {one_line(name)}", style="bold")
        line.append(
            f"  the first {diff.same_prefix} of {diff.after_length} characters are the same "
            f"({diff.reusable:.0%} of the prompt cache)",
            style="dim",
        )
        console.print(line, soft_wrap=True)
        for change in diff.changes:
            mark = _MARKS.get(change.change, "~")
            console.print(Text(f"    {mark} {one_line(str(change))}"), soft_wrap=True)
