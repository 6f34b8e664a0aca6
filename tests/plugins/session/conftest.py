"""Stores: SQLite in a temporary directory, and a database of a real PostgreSQL server."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .server import Server, find_programs, start


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A PostgreSQL server; without one the test is skipped, but not where CI must have it."""
    programs = find_programs()
    if programs is None:
        if os.environ.get("CI"):
            pytest.fail("PostgreSQL is not installed: initdb, postgres and psql are needed")
        pytest.skip("PostgreSQL is not installed")
    running = start(*programs)
    try:
        yield running
        deadline = time.monotonic() + 10
        while running.clients() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert running.clients() == 0, "a test has left a connection open"
    finally:
        running.stop()


@pytest.fixture(params=["sqlite", "postgresql"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """The settings of an empty store, on each of the two databases."""
    if request.param == "sqlite":
        return {"directory": str(tmp_path)}
    server: Server = request.getfixturevalue("server")
    return {"url": server.url(user=server.new_user())}


@pytest.fixture
def sqlite(tmp_path: Path) -> dict[str, Any]:
    """The settings of an empty store in SQLite."""
    return {"directory": str(tmp_path)}
