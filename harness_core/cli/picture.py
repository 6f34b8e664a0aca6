"""A picture of what the command line prints: SVG from the real output, without foreign hosts."""

from __future__ import annotations

import io
import re
from collections.abc import Callable

from rich.console import Console

from ..app import MAX_WIDTH

__all__ = ["draw"]

_FONT_FACE = re.compile(r"\s*@font-face\s*\{[^}]*\}")
_COMMENT = re.compile(r"\s*<!--.*?-->", re.DOTALL)
_FONT = re.compile(r"font-family:\s*Fira Code[^;]*;")


def draw(show: Callable[[Console], None], title: str) -> str:
    """Return the SVG of what `show(console)` prints, in colour and 100 columns wide."""
    console = Console(
        file=io.StringIO(),
        record=True,
        force_terminal=True,
        color_system="truecolor",
        width=MAX_WIDTH,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
        no_color=False,
    )
    show(console)
    svg = console.export_svg(title=title, unique_id="harness")
    svg = _COMMENT.sub("", svg)
    svg = _FONT_FACE.sub("", svg)  # they would be fetched from elsewhere
    return _FONT.sub(
        "font-family: ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace;", svg
    )
