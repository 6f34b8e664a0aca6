"""The one shape that everything measured has: built work that can be checked, repeated, dropped."""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable
from time import perf_counter_ns
from typing import Any, Protocol

from benchmarks.rows import Row


class Subject(Protocol):
    """The work of one row, built on one implementation and ready to run."""

    name: str

    async def result(self) -> Any:
        """Do the work once and return what came out, as JSON data."""

    async def warm(self, milliseconds: float) -> float:
        """Repeat the work at least that long; return nanoseconds per unit."""

    async def round(self, count: int) -> float:
        """Collect garbage, then do `count` units; return nanoseconds per unit."""

    async def measure(self) -> float:
        """Return the bytes that one unit keeps (memory rows only)."""

    async def close(self) -> None:
        """Drop everything that was built."""


async def _nothing() -> None:
    return None


class LocalSubject:
    """Work in this process: a result, a loop that runs it a number of times, and an end."""

    def __init__(
        self,
        name: str,
        *,
        result: Callable[[], Awaitable[Any]],
        run: Callable[[int], Awaitable[None]] | None = None,
        measure: Callable[[], Awaitable[float]] | None = None,
        close: Callable[[], Awaitable[None]] = _nothing,
        unit: int = 1,
    ) -> None:
        self.name = name
        self._result = result
        self._run = run
        self._measure = measure
        self._close = close
        self._unit = unit

    async def result(self) -> Any:
        """Do the work once and return what came out, as JSON data."""
        return await self._result()

    async def warm(self, milliseconds: float) -> float:
        """Repeat the work at least that long; return nanoseconds per unit of the last go."""
        assert self._run is not None
        end = perf_counter_ns() + int(milliseconds * 1e6)
        step, cost = 1, 0.0
        while perf_counter_ns() < end:
            start = perf_counter_ns()
            await self._run(step)
            cost = (perf_counter_ns() - start) / (step * self._unit)
            if cost * step * self._unit < 5e6:
                step *= 2
        return cost

    async def round(self, count: int) -> float:
        """Collect garbage, then time `count` units (rounded up to whole repetitions)."""
        assert self._run is not None
        repetitions = max(1, round(count / self._unit))
        gc.collect()
        start = perf_counter_ns()
        await self._run(repetitions)
        return (perf_counter_ns() - start) / (repetitions * self._unit)

    async def measure(self) -> float:
        """Return the bytes that one unit keeps."""
        assert self._measure is not None
        return await self._measure()

    async def close(self) -> None:
        """Drop everything that was built."""
        await self._close()
        self._run = self._measure = None
        gc.collect()


Builder = Callable[[Row], Awaitable[Subject | None]]
"""Builds a row's work on one implementation, or says with `None` that it cannot do it."""
