"""The laws provoke errors by the thousand; their log is of no interest, their reports are."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


class _Silence(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return False


@pytest.fixture(autouse=True)
def quiet_log() -> Iterator[None]:
    logger, silence = logging.getLogger("harness_core"), _Silence()
    logger.addFilter(silence)
    yield
    logger.removeFilter(silence)
