"""Shared by the conformance tests: the tally that the run ends with, and the original's process."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from .original_process import Original, OriginalMissingError, start_original
from .tally import TALLY, Tally


@pytest.fixture(autouse=True)
def _quiet_failures() -> Iterator[None]:
    """Plugins that fail are part of the cases; their reports would bury a mismatch."""
    logger = logging.getLogger("harness_core")
    before, logger.disabled = logger.disabled, True
    yield
    logger.disabled = before


@pytest.fixture(scope="session")
def tally() -> Tally:
    """The running count of what this session has compared."""
    return TALLY


@pytest.fixture(scope="session")
def original() -> Iterator[Original]:
    """The original, one process for the session.

    Without node or npm the test is skipped, except where CI is set: there it fails.
    """
    try:
        process = start_original()
    except OriginalMissingError as reason:
        if reason.tolerable:
            pytest.skip(str(reason))
        pytest.fail(str(reason))
    with process:
        yield process


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how much was compared, so that a run that compared nothing cannot look like a pass."""
    for line in TALLY.lines():
        terminalreporter.write_line(f"conformance: {line}")
