"""`harness dev`: run, watch, and show each reload as a difference of the prompt."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import click
from rich.console import Console

from .. import Context
from ..app import Application, Settings
from ..loader import Loader
from .frame import common, run_in_frame, warn
from .living import Happening, Living
from .presence import PresenceError, present
from .run import report_errors, until_told_to_stop
from .safe import one_line
from .session import Session, open_session
from .telling import show_happening
from .tree import show_tree, tree_of

__all__ = ["dev"]


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
                    show_happening(output, one)
                    if with_tree:
                        show_tree(output, tree_of(session, living[0].reloader.stale))

                async with _present(app, session, living[0]):
                    await living[0].run(session, report)
        finally:
            if living and as_json:
                _print_line(output, Happening("stopped"))
            elif living:
                show_happening(output, Happening("stopped"))

    async def action(app: Application) -> int:
        return await until_told_to_stop(lambda: serve(app))

    run_in_frame(Settings(config, debug, patience, disable), action, as_json=as_json)


@asynccontextmanager
async def _present(app: Application, session: Session, living: Living) -> AsyncGenerator[None]:
    """Let `harness tree` see the tree of this process, for the block, where that is possible."""

    def tell() -> dict[str, Any]:
        return {
            "process": os.getpid(),
            "tree": tree_of(session, living.reloader.stale).as_data(),
            "faults": [fault.as_data() for fault in session.faults()],
        }

    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(present(living.upkeep.manifest, tell))
        except PresenceError as error:
            said = f"warning: harness tree will not see this process: {error}"
            app.diagnostics().print(one_line(said), style="yellow", soft_wrap=True)
        yield


def _print_line(console: Console, one: Happening) -> None:
    console.file.write(json.dumps(one.as_data(), ensure_ascii=False) + "\n")
    console.file.flush()
