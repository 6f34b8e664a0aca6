"""`harness new`: a plugin to begin with, and its test."""

from __future__ import annotations

import keyword
import sys
from pathlib import Path

import click

from ..loader import entry_points

__all__ = ["new"]

_PLUGIN = '''\
"""`{name}`: says in one sentence what this plugin is for."""

from __future__ import annotations

import attrs

from harness_core import Context

__all__ = ["Config", "apply", "inject", "name"]

name = "{name}"
inject = ["system_prompt"]


@attrs.frozen
class Config:
    """The settings of a row."""

    text: str = "Say what the agent should know."
    order: float = 10


def apply(ctx: Context, config: Config) -> None:
    """Register what the plugin contributes; it goes when the plugin goes."""
    ctx.system_prompt.section(name, config.text, order=config.order)
'''

_TEST = '''\
"""What `{name}` puts into the prompt, and that nothing of it stays."""

from __future__ import annotations

import {name}
import pytest

from harness_core import Context
from harness_core.prompt import SystemPrompt, render_prompt
from harness_core.testing import assert_no_residue

pytestmark = pytest.mark.asyncio


async def test_the_section_is_there_and_goes_with_the_plugin(app: Context) -> None:
    """What is loaded and disposed leaves the prompt as it was."""
    app.plugin(SystemPrompt)
    before = render_prompt(await app.system_prompt.assemble())
    async with assert_no_residue(app):
        fiber = await app.plugin({name}, {{"text": "Be brief."}})
        assert "Be brief." in render_prompt(await app.system_prompt.assemble())
        await fiber.dispose()
    assert render_prompt(await app.system_prompt.assemble()) == before
'''


_SETTINGS = """\
[pytest]
asyncio_default_fixture_loop_scope = function
"""

_CONFIGURING = {
    "pytest.ini": None,
    ".pytest.ini": None,
    "pyproject.toml": "[tool.pytest",
    "tox.ini": "[pytest]",
    "setup.cfg": "[tool:pytest]",
}
"""Files in which pytest looks for settings, and what they then hold."""


@click.group()
def new() -> None:
    """Write something to begin with."""


@new.command("plugin", epilog="Exit codes: 0 written, 1 something is in the way, 2 a wrong call.")
@click.argument("name", metavar="NAME")
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("."),
    show_default="the working directory",
    metavar="DIR",
    help="Where to write it.",
)
def new_plugin(name: str, directory: Path) -> None:
    """Write a plugin, NAME.py, and a test of it that passes, test_NAME.py.

    And pytest.ini, unless pytest is configured there already.
    """
    _check(name)
    files = {
        directory / f"{name}.py": _PLUGIN.format(name=name),
        directory / f"test_{name}.py": _TEST.format(name=name),
    }
    if not _configures_pytest(directory):
        files[directory / "pytest.ini"] = _SETTINGS
    for file in files:
        if file.exists() or file.is_symlink():
            raise click.ClickException(f"{file} exists already; nothing has been written")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for file, text in files.items():
            with file.open("x", encoding="utf-8") as opened:
                opened.write(text)
    except OSError as error:
        raise click.ClickException(f"cannot write to {directory}: {error.strerror}") from error
    plugin, test, *others = files
    click.echo(f"wrote {', '.join(map(str, (plugin, *others)))} and {test}")
    click.echo(f"run its test:  python -m pytest {test}")
    click.echo(f"add it to harness.yaml:  - name: ./{name}.py")


def _configures_pytest(directory: Path) -> bool:
    """Whether pytest finds settings in a directory or above it."""
    place = directory.absolute()
    return any(
        section is None or _has_section(above / file, section)
        for above in (place, *place.parents)
        for file, section in _CONFIGURING.items()
        if (above / file).is_file()
    )


def _has_section(file: Path, section: str) -> bool:
    try:
        return section in file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False


def _check(name: str) -> None:
    if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
        raise click.UsageError(f"{name!r} cannot be the name of a module: use letters, digits, _")
    if name in sys.stdlib_module_names:
        raise click.UsageError(f'"{name}" is a module of Python itself: choose another name')
    if name in entry_points():
        raise click.UsageError(f'a plugin "{name}" is installed already: choose another name')
