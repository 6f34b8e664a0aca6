"""Teardown as steps: do what is synchronous at once, await the rest in strict order.

A teardown is a generator that yields what must be over before it is resumed: another such
generator (a child fiber, a consumer of a service), or a `Step` that must be awaited. `run_steps`
drives a stack of them, so a chain of a thousand dependent plugins does not recurse, and a teardown
without anything to await is over when `run_steps` returns.

Rejected: recursive `async def` teardown (a synchronous disposer would wait for the loop, deep
trees would overflow); one task per fiber (20 µs where nothing is ever awaited).

Contract: laws L3 and L6.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, TypeAlias

import anyio

from .completion import SPENT, Completion
from .jobs import Job, logger

if TYPE_CHECKING:
    from .tree import Tree

__all__ = ["Step", "Steps", "run_steps"]


AFTERMATH = 1.0
"""Seconds that cancelled code gets to leave before it is closed by force, and passed over."""


class Step:
    """One part of a teardown that must be awaited.

    Either a `job` that was told to end, which gets its owner's grace, or another teardown's
    `completion`, which ends by itself.
    """

    __slots__ = ("completion", "job")

    def __init__(self, *, job: Job | None = None, completion: Completion = SPENT) -> None:
        self.job = job
        self.completion = completion


Steps: TypeAlias = Generator["Steps | Step", None, None]


def _advance(stack: list[Steps]) -> Step | None:
    """Do every synchronous step; return the first that must be awaited, or None at the end."""
    while stack:
        try:
            item = next(stack[-1], None)
        except Exception:  # a fault of this package: the rest of the teardown must go on
            logger.exception("a teardown step failed")
            item = None
        if item is None:
            stack.pop()
        elif isinstance(item, Step):
            return item
        else:
            stack.append(item)
    return None


def run_steps(tree: Tree, steps: Steps) -> None:
    """Do a teardown: all leading synchronous steps now, the rest in a task of the tree."""
    stack = [steps]
    step = _advance(stack)
    if step is not None:
        tree.spawn(_finish, stack, step)


async def _finish(stack: list[Steps], first: Step) -> None:
    step: Step | None = first
    while step is not None:
        if step.job is not None:
            await _see_out(step.job)
        else:
            await step.completion.wait()
        step = _advance(stack)


async def _see_out(job: Job) -> None:
    """Wait for a job that was told to end: for its grace, then cancel it, then use force."""
    grace = job.owner.grace
    with anyio.move_on_after(grace):
        await job.over.wait()
        return
    job.owner.report(
        TimeoutError(f"{job.what} took longer than its grace of {grace:g} s and was passed over"),
        job.what,
    )
    job.cancel()
    with anyio.move_on_after(AFTERMATH):
        await job.over.wait()
        return
    job.end_by_force()
    with anyio.move_on_after(AFTERMATH):
        await job.over.wait()
