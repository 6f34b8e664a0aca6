"""What all tests share: they leave the user's own files alone."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def runtime_directory() -> Iterator[None]:
    """Let running harnesses show themselves in a directory of the tests; with a short name."""
    with tempfile.TemporaryDirectory(prefix="h") as place, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", place)
        yield
