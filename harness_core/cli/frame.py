"""What the commands share: their common options, one run from boot to exit, and faults.

Exit codes: 0 nothing to complain about, 1 faults, 2 a wrong call.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import click

from ..app import DEFAULT_PLUGINS, Application, Settings
from ..errors import ManifestError, closest
from ..loader import raised_at
from ..prompt import PromptAssembly
from .faults import Fault, Faulty, fault_of_report, logged, print_faults
from .safe import one_line
from .session import ScopeView, Session, UnknownScope, open_session

__all__ = [
    "EPILOG",
    "common",
    "print_json",
    "run_command",
    "run_in_frame",
    "stop_at_faults",
    "warn",
]

EPILOG = "Exit codes: 0 nothing to complain about, 1 faults, 2 a wrong call."


def common(function: Callable[..., None]) -> Callable[..., None]:
    """Add what all commands take."""
    function = click.option("--debug", is_flag=True, help="Show tracebacks and the log.")(function)
    function = click.option(
        "--patience",
        type=click.FloatRange(min=0),
        default=30.0,
        show_default=True,
        metavar="SECONDS",
        help="How long plugins may take to load.",
    )(function)
    function = click.option(
        "--disable", multiple=True, metavar="ID", help="Leave out a row; may be given again."
    )(function)
    return click.argument("config", metavar="CONFIG")(function)


def run_command(
    settings: Settings,
    action: Callable[[Application, Session], Awaitable[int]],
    *,
    as_json: bool = False,
    refused: Callable[[Application, ManifestError], None] | None = None,
) -> None:
    """Boot, run the action, report faults, exit."""

    async def run(app: Application) -> int:
        async with open_session(app) as session:
            return await action(app, session)

    run_in_frame(settings, run, as_json=as_json, refused=refused)


def run_in_frame(
    settings: Settings,
    run: Callable[[Application], Awaitable[int]],
    *,
    as_json: bool = False,
    refused: Callable[[Application, ManifestError], None] | None = None,
) -> None:
    """Read the manifest, run, report faults, exit."""
    app = Application(settings=settings)
    app.output()  # before stdout is kept clean of what plugins print
    clean = contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext()
    faults: list[Fault] = []
    code = 1
    with logged(settings.debug), clean:
        try:
            _check_disabled(app)
            code = anyio.run(run, app)
        except ManifestError as error:
            faults = [Fault.of_manifest(error)]
            if refused is not None:
                refused(app, error)
        except Faulty as error:
            faults = error.faults
        except UnknownScope as error:
            raise click.UsageError(str(error)) from None
        except (BrokenPipeError, click.ClickException):
            raise  # click ends quietly, or says what was wrong with the call
        except Exception as error:
            faults = [Fault(f"{type(error).__name__}: {error}", raised_at(error), error=error)]
        print_faults(app.diagnostics(), faults, debug=settings.debug)
    sys.exit(code)


def _check_disabled(app: Application) -> None:
    """Refuse ids that no row has."""
    if not app.settings().disable:
        return  # what is asked for need not be read now
    known = [*(entry.id for entry in app.manifest().walk()), *DEFAULT_PLUGINS]
    for one in app.settings().disable:
        if one not in known:
            guess = closest(one, known)
            hint = f'; did you mean "{guess}"?' if guess else ""
            raise click.UsageError(f'--disable: there is no row "{one}"{hint}')


def stop_at_faults(session: Session) -> None:
    """Raise Faulty if anything is wrong."""
    faults = session.faults()
    if faults:
        raise Faulty(faults)


def warn(app: Application, session: Session, pairs: list[tuple[ScopeView, PromptAssembly]]) -> None:
    """Say on stderr what is missing without being fatal."""
    console = app.diagnostics()
    for waiting in session.waiting():
        where = waiting.entry.place_of("name")
        console.print(f"warning: {where}: {waiting}", style="yellow", soft_wrap=True)
    for fiber, error in session.reported:
        if fiber.error is not error:
            said = f"warning: {fault_of_report(fiber, error).message}"
            console.print(one_line(said), style="yellow", soft_wrap=True)
    for view, assembly in pairs:
        for one in assembly.explain():
            if one.status == "failed":
                said = f"warning: scope {view.name}: {one}"
                console.print(one_line(said), style="yellow", soft_wrap=True)


def print_json(app: Application, data: Any) -> None:
    """Print JSON to the real stdout."""
    app.output().file.write(json.dumps(data, indent=2) + "\n")
