"""`harness sessions CONFIG`: list, show, export and fork what the manifest's store holds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from harness_core.cli.kit import (
    EPILOG,
    Application,
    Fault,
    Faulty,
    Settings,
    common,
    one_line,
    print_json,
    run_command,
    visible,
)
from harness_core.cli.kit import Session as Run

from .api import HistoryEntry, SessionError, SessionInfo, Sessions, project

__all__ = ["sessions"]

_AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON, nothing else.")


@click.group(invoke_without_command=True, epilog=EPILOG, subcommand_metavar="[COMMAND ...]")
@common
@click.pass_context
def sessions(
    ctx: click.Context, config: str, debug: bool, patience: float, disable: tuple[str, ...]
) -> None:
    """Look into the sessions of CONFIG. Without a command: list them."""
    ctx.obj = Settings(config, debug, patience, disable)
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_sessions)


@sessions.command("list", epilog=EPILOG)
@click.option("--agent", metavar="NAME", help="Only those of this agent.")
@_AS_JSON
@click.pass_obj
def list_sessions(settings: Settings, agent: str | None = None, as_json: bool = False) -> None:
    """List the sessions, that with the latest event first."""

    async def action(app: Application, service: Sessions) -> None:
        found = await service.list(agent)
        if as_json:
            print_json(app, [_as_data(one) for one in found])
        elif not found:
            app.diagnostics().print("no sessions")
        else:
            _show_list(app.output(), found)

    _run(settings, action, as_json=as_json)


@sessions.command(epilog=EPILOG)
@click.argument("id")
@_AS_JSON
@click.pass_obj
def show(settings: Settings, id: str, as_json: bool) -> None:
    """Print the conversation of the session ID: what of it a model would see."""

    async def action(app: Application, service: Sessions) -> None:
        entries = project(await service.read(id)).entries
        if as_json:
            print_json(app, [_said(entry) for entry in entries])
        else:
            for entry in entries:
                _show_entry(app.output(), entry)

    _run(settings, action, as_json=as_json)


@sessions.command(epilog=EPILOG)
@click.argument("id")
@click.pass_obj
def export(settings: Settings, id: str) -> None:
    """Print the log of the session ID as JSON lines: all of it, one event a line."""

    async def action(app: Application, service: Sessions) -> None:
        async for line in service.export(id):
            app.output().file.write(f"{line}\n")

    _run(settings, action, as_json=True)


@sessions.command(epilog=EPILOG)
@click.argument("id")
@click.option("--at", type=click.IntRange(min=0), metavar="N", help="Only up to event N.")
@click.option("--id", "new_id", metavar="NEW", help="The id of the copy.")
@click.pass_obj
def fork(settings: Settings, id: str, at: int | None, new_id: str | None) -> None:
    """Copy the session ID, which may be in use, and print the id of the copy."""

    async def action(app: Application, service: Sessions) -> None:
        copy = await service.fork(id, at=at, new_id=new_id)
        app.output().file.write(f"{copy.id}\n")

    _run(settings, action)


def _run(
    settings: Settings,
    action: Callable[[Application, Sessions], Awaitable[None]],
    *,
    as_json: bool = False,
) -> None:
    async def run(app: Application, booted: Run) -> int:
        service = booted.root.get("session")
        if service is None:
            problems = booted.faults()
            missing = Fault("no row provides the service session: mount the plugin session")
            raise Faulty(problems or [missing])
        try:
            await action(app, service)
        except SessionError as error:
            raise Faulty([Fault(str(error), error=error)]) from error
        return 0

    run_command(settings, run, as_json=as_json)


def _as_data(info: SessionInfo) -> dict[str, Any]:
    return {
        "id": info.id,
        "agent": info.agent,
        "title": info.title,
        "created_at": info.created_at.isoformat(),
        "last_at": info.last_at.isoformat() if info.last_at is not None else None,
        "events": info.events,
        "messages": info.messages,
    }


def _show_list(console: Console, found: list[SessionInfo]) -> None:
    wide = max(len(one_line(one.id)) for one in found)
    agents = max(len(one_line(one.agent or "")) for one in found)
    for one in found:
        line = Text(f"{one_line(one.id):{wide}}", style="bold cyan")
        line.append(f"  {(one.last_at or one.created_at).astimezone():%Y-%m-%d %H:%M}", style="dim")
        messages = "1 message" if one.messages == 1 else f"{one.messages} messages"
        line.append(f"  {messages:>13}")
        if agents:
            line.append(f"  {one_line(one.agent or ''):{agents}}", style="magenta")
        line.append(f"  {one_line(one.title or '')}".rstrip())
        console.print(line, soft_wrap=True)


def _said(entry: HistoryEntry) -> dict[str, Any]:
    message = entry.message
    said: dict[str, Any] = {
        "seq": entry.seq,
        "kind": entry.kind,
        "at": entry.at.isoformat(),
        "role": message.role,
        "text": message.text,
    }
    if message.requests:
        said["requests"] = [
            {"id": one.id, "name": one.name, "arguments": one.arguments} for one in message.requests
        ]
    if message.role == "tool":
        said |= {"call_id": message.call_id, "is_error": message.is_error}
    return said


def _show_entry(console: Console, entry: HistoryEntry) -> None:
    message = entry.message
    speaker = {"snapshot": "runtime context", "compaction": "summary"}.get(entry.kind, message.role)
    head = Text(speaker, style="bold cyan")
    head.append(f"  {entry.seq}  {entry.at.astimezone():%Y-%m-%d %H:%M:%S}", style="dim")
    if message.is_error:
        head.append("  failed", style="red")
    console.print(head, soft_wrap=True)
    if message.text:
        console.print(Text(visible(message.text)), soft_wrap=True)
    for one in message.requests:
        console.print(
            Text(f"{one_line(one.name)} {one_line(one.arguments)}", style="yellow"), soft_wrap=True
        )
    console.print()
