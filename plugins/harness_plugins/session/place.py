"""Place: where a store is, from its settings. Nothing is opened here."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

import attrs
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from harness_core.errors import ConfigError

__all__ = ["FILE", "Place", "find_place"]

FILE = "sessions.sqlite"
_DRIVERS = {
    "sqlite": "sqlite+aiosqlite",
    "sqlite+aiosqlite": "sqlite+aiosqlite",
    "postgres": "postgresql+asyncpg",
    "postgresql": "postgresql+asyncpg",
    "postgresql+asyncpg": "postgresql+asyncpg",
}


@attrs.frozen
class Place:
    """A database. `file` is that of SQLite, None on PostgreSQL."""

    url: URL
    file: Path | None

    @property
    def driver(self) -> str:
        """The module that talks to it."""
        return self.url.drivername.partition("+")[2]

    def __str__(self) -> str:
        """Name it for people, without a password."""
        if self.file is not None:
            return str(self.file)
        host = self.url.query.get("host")  # the directory of a socket; all else may be secret
        shown = self.url.set(drivername="postgresql", query={"host": host} if host else {})
        return unquote(shown.render_as_string(hide_password=True))


def find_place(base: Path, url: str | None, directory: str | None) -> Place:
    """Return where the store is; relative paths start at `base`. Raises ConfigError."""
    if url is None:
        file = base / (directory or ".harness") / FILE
        return Place(URL.create(_DRIVERS["sqlite"], database=str(file)), file)
    try:
        made = make_url(url)
    except ArgumentError:
        problem = "url: it is no database URL; expected sqlite:///path or postgresql://host/name"
        raise ConfigError([problem], plugin="session") from None
    if made.drivername not in _DRIVERS:
        known = "sqlite:///path and postgresql://host/name"
        problem = f'url: "{made.drivername}" is not supported; there are {known}'
        raise ConfigError([problem], plugin="session")
    made = made.set(drivername=_DRIVERS[made.drivername])
    if not made.drivername.startswith("sqlite"):
        return Place(made, None)
    if made.query or not made.database or made.database == ":memory:":
        problem = "url: of SQLite only a file is a store: sqlite:///path, nothing behind it"
        raise ConfigError([problem], plugin="session")
    file = base / made.database
    return Place(made.set(database=str(file)), file)
