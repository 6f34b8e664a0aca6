"""`harness run`: boot the manifest and let it run until it is told to stop."""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import click

from .. import Context, Fiber
from ..app import DEFAULT_PLUGINS, Application, Settings
from .faults import fault_of_report, print_faults
from .frame import common, run_in_frame, stop_at_faults, warn
from .safe import one_line
from .session import open_session

__all__ = ["report_errors", "run", "until_told_to_stop"]

_EPILOG = (
    "Exit codes: 0 stopped by SIGINT or SIGTERM, 1 faults, 2 a wrong call, 130 stopped at once by "
    "a second signal."
)


@click.command(epilog=_EPILOG)
@common
@click.option("--dry-run", is_flag=True, help="Print what would be mounted, and mount nothing.")
def run(config: str, dry_run: bool, debug: bool, patience: float, disable: tuple[str, ...]) -> None:
    """Boot CONFIG and run it until SIGINT or SIGTERM; then take it down in order."""

    async def action(app: Application) -> int:
        if dry_run:
            show_plan(app)
            return 0
        return await until_told_to_stop(lambda: _serve(app))

    run_in_frame(Settings(config, debug, patience, disable), action)


async def _serve(app: Application) -> None:
    async with open_session(app) as session:
        stop_at_faults(session)
        report_errors(session.root, app)
        warn(app, session, [])
        count = len(session.loader.running)
        said = f"running {count} {'row' if count == 1 else 'rows'} of {app.settings().config}"
        app.diagnostics().print(f"{said}; press Ctrl-C to stop")
        await anyio.sleep_forever()


def show_plan(app: Application) -> None:
    """Print what booting would do with each row."""
    loader = app.loader()
    loader.default = DEFAULT_PLUGINS
    for change in loader.plan():
        entry = next((one for one in loader.manifest.walk() if one.id == change.id), None)
        done = "leave out" if entry is not None and entry.disabled else change.action
        where = f"  {change.place}" if change.place.line else ""
        name = f" ({change.name})" if change.name not in (None, change.id) else ""
        app.output().print(one_line(f"{done} {change.id}{name}{where}"), soft_wrap=True)


def report_errors(
    root: Context, app: Application, unless: Callable[[], bool] = lambda: False
) -> None:
    """Print, from now on, the errors of plugins that have no caller to go to."""

    def report(fiber: Fiber, error: BaseException) -> None:
        if unless():
            return
        fault = fault_of_report(fiber, error)
        print_faults(app.diagnostics(), [fault], debug=app.settings().debug)

    root.on("fiber/error", report, unfiltered=True)


async def until_told_to_stop(serve: Callable[[], Awaitable[Any]]) -> int:
    """Run `serve` until SIGINT or SIGTERM, let it end in order, and return the exit code.

    A second signal ends the process at once.
    """
    error: Exception | None = None
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with anyio.create_task_group() as tasks:

            async def listen() -> None:
                told = False
                async for _ in signals:
                    if told:
                        os._exit(130)
                    told = True
                    scope.cancel()

            scope = anyio.CancelScope()
            tasks.start_soon(listen)
            with scope:
                try:
                    await serve()
                except Exception as caught:  # raised outside of the task group, which wraps it
                    error = caught
            tasks.cancel_scope.cancel()
    if error is not None:
        raise error
    return 0
