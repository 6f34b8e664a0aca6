"""Tables as both reports print them."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

__all__ = ["new_table"]


def new_table(console: Console, *columns: str) -> Table:
    """Return an empty table that fits the console."""
    table = Table(box=SIMPLE_HEAD if console.is_terminal else None, pad_edge=False)
    for column in columns:
        table.add_column(column, no_wrap=True)
    return table
