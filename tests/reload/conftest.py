from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .project import Project, open_project


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    with open_project(tmp_path.resolve()) as opened:
        yield opened
