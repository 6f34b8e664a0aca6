"""What the machines share: a live tree on a loop of its own, on virtual time.

The tree is opened and closed by one task (`TreeHost`); each rule runs as another. Nothing runs
between the rules, so a machine is as deterministic as its rules.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

import anyio
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine

from harness_core import Context, Fiber
from harness_core.testing import TreeHost, VirtualClockLoop, observe

T = TypeVar("T")

DEEP = os.environ.get("HARNESS_HYPOTHESIS") == "deep"


def laws(examples: int, steps: int = 20) -> settings:
    """Return the settings of one machine: random, with the blob of a failure printed."""
    return settings(
        max_examples=examples * (20 if DEEP else 1),
        stateful_step_count=steps * (2 if DEEP else 1),
        deadline=None,
        print_blob=True,
        # Explaining traces every line of the loop, which takes minutes.
        phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )


class Boom(Exception):
    """What the bodies and disposers of these tests raise on purpose."""


class TreeMachine(RuleBasedStateMachine):
    """A machine with a live tree: `root`, `reports` of errors without a caller, and `run`."""

    def __init__(self) -> None:
        super().__init__()
        self._runner = asyncio.Runner(loop_factory=VirtualClockLoop)
        self._host = TreeHost(grace=5.0)
        self.root: Context = self.run(self._host.start())
        self.reports: list[tuple[str, BaseException]] = []
        self.run(self._prepare())
        self.baseline = self.run(self._observe())

    def _note(self, fiber: Fiber, error: BaseException) -> None:
        self.reports.append((fiber.name, error))

    async def _prepare(self) -> None:
        self.root.on("fiber/error", self._note)
        await self.set_up()

    async def set_up(self) -> None:
        """Mount what a machine needs before its first rule."""

    async def _observe(self) -> Any:
        return observe(self.root)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run one step to its end; fail if the whole tree waits for nothing."""
        return self._runner.run(self._bounded(coroutine))

    async def _bounded(self, coroutine: Coroutine[Any, Any, T]) -> T:
        with anyio.fail_after(1000):  # virtual seconds: no honest step takes that long
            return await coroutine

    async def settle(self) -> None:
        """Let everything run until it waits for something that no time will bring."""
        await anyio.sleep(50)  # of virtual time: longer than any step of these tests

    async def residue(self) -> list[str]:
        """Return what is there and was not at the beginning."""
        return [str(one) for one in observe(self.root).added_since(self.baseline)]

    def has_failed(self) -> bool:
        """Whether a rule has failed already, so that its error is the one to be shown."""
        return sys.exc_info()[0] is not None

    def teardown(self) -> None:
        try:
            self.run(self._host.stop())
            assert not self.root.fiber.children
            left = asyncio.all_tasks(self._runner.get_loop())
            assert not left, f"tasks outlive the tree: {left}"
        finally:
            self._runner.close()
        gc.collect(0)
