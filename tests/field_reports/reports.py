"""A kind of report: scenarios by the reference of the report that told of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

Scenario = Callable[..., Awaitable[None]]


class Kind:
    """Collects scenarios and parametrises one named test over them."""

    def __init__(self) -> None:
        self._scenarios: dict[str, Scenario] = {}

    def report(self, *references: str) -> Callable[[Scenario], Scenario]:
        """Enter a scenario under the references of the reports that told of it."""

        def enter(scenario: Scenario) -> Scenario:
            name = ", ".join(references)
            assert name not in self._scenarios, name
            self._scenarios[name] = scenario
            return scenario

        return enter

    def each(self) -> Any:
        """Return the mark that runs a test once for each scenario."""
        return pytest.mark.parametrize(
            "scenario", list(self._scenarios.values()), ids=list(self._scenarios)
        )
