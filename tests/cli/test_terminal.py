"""Colour on a terminal, and only there."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness_core.app import Application, Settings

from .conftest import ROOT


def on_a_terminal(*arguments: str, **environ: str) -> str:
    """Return what the command line prints to a pseudo-terminal."""
    ours, theirs = pty.openpty()
    kept = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLUMNS")}
    path = f"{ROOT}{os.pathsep}{ROOT / 'plugins'}"
    process = subprocess.Popen(
        [sys.executable, "-m", "harness_core.cli", *arguments],
        stdout=theirs,
        stderr=theirs,
        stdin=subprocess.DEVNULL,
        env={**kept, "PYTHONPATH": path, "TERM": "xterm-256color", **environ},
    )
    os.close(theirs)
    output = bytearray()
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        output += piece
    os.close(ours)
    process.wait(timeout=60)
    return output.decode()


@pytest.fixture
def manifest(tmp_path: Path) -> str:
    """A manifest with a persona."""
    file = tmp_path / "harness.yaml"
    file.write_text("- {name: persona, config: {text: Hello.}}\n")
    return str(file)


def test_colour_on_a_terminal(manifest: str) -> None:
    """And none where NO_COLOR asks for it."""
    assert "\x1b[" in on_a_terminal("prompt", manifest)
    plain = on_a_terminal("prompt", manifest, NO_COLOR="1")
    assert "\x1b[3" not in plain


def test_a_narrow_terminal_is_respected(manifest: str) -> None:
    """Nothing is wider than it."""
    out = on_a_terminal("prompt", manifest, COLUMNS="40")
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in out.splitlines()]
    assert max(map(len, lines)) <= 40


def test_every_provider_of_the_composition_root_can_be_built(tmp_path: Path, manifest: str) -> None:
    """Type checkers do not see into it, so this does."""
    app = Application(settings=Settings(manifest))
    assert app.check_dependencies() is None
    built = {name: provider() for name, provider in app.providers.items()}
    assert built["loader"].manifest is built["manifest"]
    assert built["resolver"].directory == tmp_path
    assert built["loader"] is app.loader()
    assert built["output"].width <= 100
