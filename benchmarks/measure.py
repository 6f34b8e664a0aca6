"""Check that all subjects of a row agree, then time them in turn."""

from __future__ import annotations

import json
from collections.abc import Callable
from statistics import median
from typing import Any

import attrs

from benchmarks import floor, ours, peers
from benchmarks.original import Original
from benchmarks.rows import FLAT, Row, row_named
from benchmarks.subject import Subject

OURS = "ours"
FLOOR = "floor"
ORIGINAL = "original"
FEWER = "ours, fewer scopes"
MEMORY_ROUNDS = 3


class MismatchError(Exception):
    """Two subjects did not come to the same result, so that timing them would mean nothing."""

    def __init__(self, row: str, subject: str, reference: str, expected: Any, got: Any) -> None:
        super().__init__(row, subject, reference, expected, got)
        self.row = row
        self.subject = subject
        self.reference = reference
        self.expected = expected
        self.got = got

    def __str__(self) -> str:
        """Name the row and the subject, and show where the results part."""
        expected, got = (json.dumps(each, sort_keys=True) for each in (self.expected, self.got))
        pairs = enumerate(zip(expected, got, strict=False))
        shorter = min(len(expected), len(got))
        at = next((i for i, (left, right) in pairs if left != right), shorter)
        start = max(0, at - 60)
        return (
            f"row {self.row!r}: {self.subject} differs from {self.reference}\n"
            f"  expected ...{expected[start : at + 100]}\n"
            f"  got      ...{got[start : at + 100]}"
        )


@attrs.frozen
class Settings:
    """How long to measure."""

    rounds: int
    round_ms: float
    warm_ms: float
    node_warm_ms: float


FULL = Settings(rounds=15, round_ms=40, warm_ms=250, node_warm_ms=700)
QUICK = Settings(rounds=5, round_ms=8, warm_ms=50, node_warm_ms=250)


@attrs.frozen
class Goal:
    """One thing that a row should reach, and what it reached."""

    name: str
    at: str
    """`most` or `least`: on which side of `target` the value should be."""
    target: float
    value: float

    @property
    def met(self) -> bool:
        """Whether the goal is reached."""
        return self.value <= self.target if self.at == "most" else self.value >= self.target

    @property
    def missed_by(self) -> float:
        """How many times too far the value is; at most 1 where the goal is met."""
        ratio = self.value / self.target
        return ratio if self.at == "most" else 1 / ratio


@attrs.frozen
class Measured:
    """What came out for one row: per subject, a number for each round."""

    row: Row
    rounds: dict[str, list[float]]
    goals: list[Goal]

    def median(self, subject: str) -> float | None:
        """Return the median over the rounds, or None if the subject was not measured."""
        values = self.rounds.get(subject)
        return median(values) if values else None

    def ratio(self, over: str, under: str) -> float | None:
        """Return the median of the ratios of each round, which cancels what both suffered."""
        return ratio_of(self.rounds, over, under)


def ratio_of(rounds: dict[str, list[float]], over: str, under: str) -> float | None:
    """Return the median over the rounds of one subject's number by another's."""
    if over not in rounds or under not in rounds:
        return None
    pairs = zip(rounds[over], rounds[under], strict=True)
    return median(top / bottom for top, bottom in pairs)


def goals_of(row: Row, rounds: dict[str, list[float]]) -> list[Goal]:
    """Compare what was measured with what the row should reach."""
    candidates = (
        ("x floor", "most", row.floor_at_most, ratio_of(rounds, OURS, FLOOR)),
        ("x faster", "least", row.original_at_least, ratio_of(rounds, ORIGINAL, OURS)),
        ("absolute", "most", row.absolute_at_most, median(rounds[OURS])),
        ("flat", "most", FLAT if row.flat_against else None, ratio_of(rounds, OURS, FEWER)),
    )
    return [
        Goal(name, at, target, value)
        for name, at, target, value in candidates
        if target is not None and value is not None
    ]


async def build_all(row: Row, original: Original | None) -> dict[str, Subject]:
    """Build the row's work on everything that can do it."""
    subjects: dict[str, Subject] = {OURS: await ours.build(row), FLOOR: await floor.build(row)}
    if original is not None:
        subjects[ORIGINAL] = await original.build(row)
    subjects.update({peer.name: peer for peer in await peers.build(row)})
    return subjects


async def check_same(row: Row, subjects: dict[str, Subject]) -> None:
    """Raise `MismatchError` unless all come to what the original (else the floor) comes to."""
    results = {name: await subject.result() for name, subject in subjects.items()}
    reference = ORIGINAL if ORIGINAL in results else FLOOR
    expected = results[reference]
    for name, got in results.items():
        if _as_json(got) != _as_json(expected):
            raise MismatchError(row.name, name, reference, expected, got)


def _as_json(value: Any) -> Any:
    """Turn read-only and tuple shapes into what JSON makes of them."""
    return json.loads(json.dumps(value))


async def measure_row(
    row: Row,
    original: Original | None,
    settings: Settings,
    progress: Callable[[str], None],
) -> Measured:
    """Build, check, warm up and time one row; everything built is dropped again."""
    subjects: dict[str, Subject] = {}
    try:
        progress(f"{row.name}: building")
        subjects = await build_all(row, original)
        await check_same(row, subjects)
        if row.flat_against:
            subjects[FEWER] = await ours.build(row_named(row.flat_against))
        if row.is_memory:
            rounds = await _weigh(subjects)
        else:
            rounds = await _time(row, subjects, settings, progress)
    finally:
        for subject in reversed(subjects.values()):
            await subject.close()
    return Measured(row, rounds, goals_of(row, rounds))


async def _weigh(subjects: dict[str, Subject]) -> dict[str, list[float]]:
    rounds: dict[str, list[float]] = {name: [] for name in subjects}
    for _ in range(MEMORY_ROUNDS):
        for name, subject in subjects.items():
            rounds[name].append(await subject.measure())
    return rounds


async def _time(
    row: Row,
    subjects: dict[str, Subject],
    settings: Settings,
    progress: Callable[[str], None],
) -> dict[str, list[float]]:
    counts: dict[str, int] = {}
    for name, subject in subjects.items():
        progress(f"{row.name}: warming up {name}")
        cost = await subject.warm(settings.node_warm_ms if name == ORIGINAL else settings.warm_ms)
        counts[name] = max(1, int(settings.round_ms * 1e6 / cost))
    rounds: dict[str, list[float]] = {name: [] for name in subjects}
    for turn in range(settings.rounds):
        progress(f"{row.name}: round {turn + 1} of {settings.rounds}")
        for name, subject in subjects.items():
            rounds[name].append(await subject.round(counts[name]))
    return rounds
