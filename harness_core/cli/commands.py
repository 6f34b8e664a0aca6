"""The commands. Each boots the manifest, does one thing with it, and says what went wrong.

Exit codes: 0 nothing to complain about, 1 faults, 2 a wrong call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from ..app import Application, Settings
from ..errors import ManifestError
from ..prompt import PromptAssembly, render_request
from .checks import run_checks, show_findings
from .dev import dev
from .diff import read_saved, show_difference
from .faults import Fault, Faulty, fault_in_scope, print_faults
from .frame import EPILOG, common, print_json, run_command, run_in_frame, stop_at_faults, warn
from .installed import plugins
from .new import new
from .payload import GLOBAL, describe_scope
from .picture import draw
from .plugged import Commands
from .presence import PresenceError, find_present
from .progress import progress
from .request import show_legend, show_request
from .run import run
from .safe import one_line
from .session import ScopeView, Session, open_session
from .tree import Branch, show_tree, tree_of

__all__ = ["harness"]

Pair = tuple[ScopeView, PromptAssembly]


@click.group(cls=Commands, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
def harness() -> None:
    """Look into an agent harness: what it sends to the model, and who wrote it."""


@harness.command(epilog=EPILOG)
@common
@click.option("--agent", metavar="NAME", help=f"Only this agent; {GLOBAL} for no agent.")
@click.option("--explain", is_flag=True, help="Also what is absent, variables, lines and times.")
@click.option("--diff", metavar="FILE", help="Compare with what --json printed before.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, and nothing else on stdout.")
@click.option("--raw", is_flag=True, help="Print the request as one text, just as it is sent.")
@click.option("--svg", metavar="FILE", help="Also draw the output into this file.")
def prompt(
    config: str,
    agent: str | None,
    explain: bool,
    diff: str | None,
    as_json: bool,
    raw: bool,
    svg: str | None,
    debug: bool,
    patience: float,
    disable: tuple[str, ...],
) -> None:
    """Print the request that CONFIG assembles: system prompt, runtime context and tools.

    Without --agent: every agent's; where there are no agents, the global layer's. JSON holds the
    global layer too; --raw without --agent prints it alone.
    """
    if as_json + raw + (diff is not None) > 1 or (svg and (as_json or raw or diff)):
        raise click.UsageError("--json, --raw, --diff and --svg exclude each other")

    async def action(app: Application, session: Session) -> int:
        stop_at_faults(session)
        views = session.chosen(agent)
        if raw and agent is None:
            views = [view for view in views if view.is_global]
        elif agent is None and not as_json and diff is None and len(views) > 1:
            views = [view for view in views if not view.is_global]
        with progress(app.diagnostics(), "assembling"):
            pairs = await session.assemble(views)
        warn(app, session, pairs)
        if raw:
            click.echo("\n\n".join(_rendered(render_request, pair) for pair in pairs))
        elif as_json or diff is not None:
            scopes = dict(_described(app, pairs, only=agent))
            if diff is not None:
                return show_difference(app.output(), read_saved(diff), scopes, only=agent)
            print_json(app, {"scopes": scopes})
        else:
            _show(app, pairs, explain, svg, config)
        return 0

    run_command(Settings(config, debug, patience, disable), action, as_json=as_json)


@harness.command(epilog=EPILOG)
@common
@click.option("--json", "as_json", is_flag=True, help="Print JSON, and nothing else on stdout.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Between the two assemblies that are compared to find volatile text.",
)
def check(
    config: str,
    as_json: bool,
    interval: float,
    debug: bool,
    patience: float,
    disable: tuple[str, ...],
) -> None:
    """Assemble every scope of CONFIG and report what is wrong, one line for each fault."""

    async def action(app: Application, session: Session) -> int:
        with progress(app.diagnostics(), "assembling every scope twice"):
            findings = await run_checks(session, interval)
        if as_json:
            print_json(app, [finding.as_data() for finding in findings])
        else:
            show_findings(app.output(), findings, len(session.scopes()))
        return 1 if findings else 0

    def refused(app: Application, error: ManifestError) -> None:
        where = ":".join(str(part) for part in (error.file, error.line, error.column) if part)
        finding = {"rule": "manifest", "scope": GLOBAL, "plugin": None, "where": where}
        print_json(app, [{**finding, "message": error.message}])

    settings = Settings(config, debug, patience, disable)
    run_command(settings, action, as_json=as_json, refused=refused if as_json else None)


@harness.command(epilog=EPILOG)
@common
@click.option("--fresh", is_flag=True, help="Boot CONFIG, even while `harness dev` runs it.")
def tree(config: str, fresh: bool, debug: bool, patience: float, disable: tuple[str, ...]) -> None:
    """Print the fibers of CONFIG: their states, what they wait for, what they registered.

    While `harness dev` runs CONFIG, these are the fibers that run there, also those that are stale;
    else, and with --disable, CONFIG is booted.
    """

    async def action(app: Application) -> int:
        told = None if fresh or disable else await _ask_present(app)
        if told is not None:
            branch, faults = told
            show_tree(app.output(), branch)
            print_faults(app.diagnostics(), faults, debug=debug)
            return 1 if faults else 0
        async with open_session(app) as session:
            show_tree(app.output(), tree_of(session))
            faults = session.faults()
            print_faults(app.diagnostics(), faults, debug=debug)
            warn(app, session, [])
            return 1 if faults else 0

    run_in_frame(Settings(config, debug, patience, disable), action)


async def _ask_present(app: Application) -> tuple[Branch, list[Fault]] | None:
    """Return what a running `harness dev` shows of the manifest, and say that it is from there."""
    console = app.diagnostics()
    try:
        told = await find_present(Path(app.settings().config))
        if told is None:
            return None
        process, branch = int(told["process"]), Branch.from_data(told["tree"])
        faults = [Fault(**fault) for fault in told["faults"]]
    except PresenceError as error:
        console.print(one_line(f"warning: {error}"), style="yellow", soft_wrap=True)
        return None
    except (LookupError, TypeError, ValueError) as error:
        said = f"warning: the running `harness dev` is of another version, {error!r} in its answer"
        console.print(one_line(said), style="yellow", soft_wrap=True)
        return None
    said = f"as `harness dev` runs it, process {process} (--fresh boots anew)"
    console.print(said, style="dim", soft_wrap=True)
    return branch, faults


def _described(app: Application, pairs: list[Pair], only: str | None) -> Iterator[tuple[str, Any]]:
    """Yield each scope as JSON. The global layer, beside agents, is left out if it cannot be sent.

    What all share may say `{{model}}`, which only an agent has.
    """
    for view, assembly in pairs:
        try:
            yield view.name, _rendered(describe_scope, (view, assembly))
        except Faulty as error:
            if not view.is_global or only is not None or len(pairs) == 1:
                raise
            said = f"warning: left out: {error}"
            app.diagnostics().print(one_line(said), style="yellow", soft_wrap=True)


def _rendered(render: Callable[[PromptAssembly], Any], pair: Pair) -> Any:
    view, assembly = pair
    try:
        return render(assembly)
    except Exception as error:
        fault = fault_in_scope(error, view.name, assembly, view.ctx.kernel.texts)
        raise Faulty([fault]) from error


def _show(app: Application, pairs: list[Pair], explain: bool, svg: str | None, config: str) -> None:
    for pair in pairs:
        _rendered(describe_scope, pair)  # what cannot be rendered is said before anything shows

    def show(console: Any) -> None:
        show_legend(console)
        for view, assembly in pairs:
            show_request(console, view, assembly, explain=explain)

    show(app.output())
    if svg is not None:
        try:
            Path(svg).write_text(draw(show, f"harness prompt {config}"), encoding="utf-8")
        except OSError as error:
            raise Faulty([Fault(f"cannot be written: {error.strerror}", svg)]) from error


for _command in (run, dev, plugins, new):
    harness.add_command(_command)
