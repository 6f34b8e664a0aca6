"""Commands of plugins, beside the built-in ones: entry points of the group `harness.commands`."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from importlib.metadata import entry_points as installed
from typing import Any

import click

__all__ = ["GROUP", "Commands"]

GROUP = "harness.commands"


class Commands(click.Group):
    """A group that also knows the commands of plugins, and imports them when they are wanted."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return sorted({*super().list_commands(ctx), *_plugged()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; a built-in one wins a name."""
        own = super().get_command(ctx, cmd_name)
        point = _plugged().get(cmd_name) if own is None else None
        return own if point is None else _load(point)


def _plugged() -> dict[str, EntryPoint]:
    return {point.name: point for point in installed(group=GROUP)}


def _load(point: EntryPoint) -> click.Command:
    try:
        command: Any = point.load()
    except Exception as error:  # whatever the import of somebody's package raises
        return _broken(point, f"cannot be imported: {type(error).__name__}: {error}")
    if not isinstance(command, click.Command):
        return _broken(point, f"is no click command but {command!r}")
    return command


def _broken(point: EntryPoint, reason: str) -> click.Command:
    """Return a command that says what is wrong when it is called; the others still work."""
    said = f'the command "{point.name}" ({point.value}) {reason}'

    anything = {"ignore_unknown_options": True}
    note = f"(broken: {reason})"

    @click.command(point.name, short_help=note, add_help_option=False, context_settings=anything)
    @click.argument("ignored", nargs=-1, type=click.UNPROCESSED)
    def broken(ignored: tuple[str, ...]) -> None:
        del ignored
        raise click.ClickException(said)

    return broken
