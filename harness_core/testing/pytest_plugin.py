"""The pytest plugin: the fixture `app`. Importing it costs nothing; the fixture brings the rest.

The fixture is there where pytest-asyncio is, in strict and in auto mode.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

__all__ = ["pytest_configure"]


def pytest_configure(config: pytest.Config) -> None:
    """Register the fixtures."""
    if hasattr(config.option, "asyncio_mode"):  # pytest-asyncio, by whatever name it was loaded
        from . import fixtures

        config.pluginmanager.register(fixtures, "harness_core_fixtures")
