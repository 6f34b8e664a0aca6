"""How many cases and operations a session has compared, by what they were compared with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import attrs

__all__ = ["TALLY", "Tally"]


@attrs.define(eq=False)
class Tally:
    """Counts that only grow."""

    cases: Counter[str] = attrs.field(factory=Counter)
    operations: Counter[str] = attrs.field(factory=Counter)

    def add(self, subject: str, *, cases: int, operations: int) -> None:
        """Count cases and operations whose answers were compared and found equal."""
        self.cases[subject] += cases
        self.operations[subject] += operations

    def lines(self) -> Iterator[str]:
        """Say each subject's counts in a line."""
        for subject, cases in self.cases.items():
            yield f"{subject}: {cases} cases, {self.operations[subject]} operations equal"


TALLY = Tally()
