"""The one place where the kit looks behind the public door of the kernel.

What is read here is what a test of residue must see and a plugin must not. A name that is gone
reads as its default, so that a change of the kernel's insides shows in the kit's own tests and
not in everybody else's.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
from collections.abc import AsyncIterator, Iterable, Mapping
from types import CodeType, FrameType
from typing import Any

import anyio

from ..kernel import steps
from ..kernel.context import Context
from ..kernel.jobs import Job
from ..kernel.services import Slot
from ..scopes import keys

__all__ = [
    "declared_events",
    "is_driver",
    "job_of",
    "place_in_plugin",
    "place_of_callable",
    "place_of_task",
    "scope_links",
    "slots",
]

_KERNEL = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")


def _read(thing: object, name: str, default: Any) -> Any:
    return getattr(thing, name, default)


def slots(ctx: Context) -> dict[tuple[str, object], Slot]:
    """Return every service slot of the tree by key and realm."""
    return dict(_read(ctx.kernel.services, "_slots", {}))


def declared_events(ctx: Context) -> Iterable[str]:
    """Return the names of the events that somebody declared with an `Event`."""
    return tuple(_read(ctx.kernel.bus, "_declared", ()))


def scope_links() -> dict[int, object]:
    """Return the parent of every linked scope key, by the key's identity."""
    links: Mapping[int, object] = _read(keys, "_links", {})
    return {identity: _read(link, "parent", None) for identity, link in links.items()}


def job_of(coroutine: object) -> Job | None:
    """Return the job that a task's coroutine runs, if it is one of the tree's jobs."""
    for one in _chain(coroutine):
        frame = _frame(one)
        for name in ("self", "job"):
            found = frame.f_locals.get(name) if frame is not None else None
            if isinstance(found, Job):
                return found
    return None


def is_driver(coroutine: object) -> bool:
    """Whether a task drives a teardown: what it undoes is seen by itself, and it is not."""
    return any(
        frame is not None and frame.f_code is _DRIVER
        for frame in (_frame(one) for one in _chain(coroutine))
    )


def place_in_plugin(job: Job) -> tuple[str, int] | None:
    """Return where a job's code waits in a plugin's own file, or None if it waits elsewhere."""
    return _place_outside(_read(_read(job, "_driven", None), "_awaitable", None), _NOT_PLUGINS)


def place_of_task(coroutine: object) -> tuple[str, int]:
    """Return where the code of a task waits, in a plugin's own file if it is there."""
    job = job_of(coroutine)
    if job is not None:
        place = place_in_plugin(job)
        if place is not None:
            return place
    return _place_outside(coroutine, _NOT_PLUGINS) or _place_outside(coroutine, ()) or ("", 0)


def place_of_callable(function: object) -> tuple[str, int]:
    """Return where a function is written."""
    code = _read(inspect.unwrap(function) if callable(function) else None, "__code__", None)
    return (code.co_filename, code.co_firstlineno) if code is not None else ("<unknown>", 0)


_DRIVER: CodeType | None = _read(_read(steps, "_finish", None), "__code__", None)

_NOT_PLUGINS = (
    os.path.join(_KERNEL, "kernel", ""),
    os.path.join(_KERNEL, "scopes", ""),
    os.path.join(_KERNEL, "testing", ""),
    *(os.path.join(os.path.dirname(library.__file__ or ""), "") for library in (anyio, asyncio)),
    contextlib.__file__,
)


def _place_outside(awaitable: object, directories: tuple[str, ...]) -> tuple[str, int] | None:
    for one in _chain(awaitable):
        frame = _frame(one)
        code = frame.f_code if frame is not None else None
        if code is None or frame is None:
            continue
        if not code.co_filename.startswith(directories or ("\0",)):
            return code.co_filename, frame.f_lineno
    return None


def _frame(awaitable: object) -> FrameType | None:
    for name in ("cr_frame", "gi_frame", "ag_frame"):
        frame = _read(awaitable, name, None)
        if isinstance(frame, FrameType):
            return frame
    return None


def _chain(awaitable: object) -> list[object]:
    """Return what waits for what, outermost first."""
    chain: list[object] = []
    while awaitable is not None and len(chain) < 100:
        chain.append(awaitable)
        awaitable = _awaited_by(awaitable)
    return chain


def _awaited_by(awaitable: object) -> Any:
    for name in ("cr_await", "gi_yieldfrom", "ag_await"):
        inner = _read(awaitable, name, None)
        if inner is not None and not isinstance(inner, _OPAQUE):
            return inner
    # The step of an asynchronous generator hides the generator; whoever took the step knows it.
    frame = _frame(awaitable)
    known = frame.f_locals if frame is not None else {}
    for candidate in (known.get("body"), _read(known.get("self"), "gen", None)):
        if inspect.isasyncgen(candidate) and candidate.ag_running:
            return candidate
    # A task that has not begun: anyio wraps what it will run.
    wrapped = _read(known.get("self"), "_coro", None)
    if inspect.iscoroutine(wrapped) and wrapped is not awaitable:
        return wrapped
    # An awaitable of the kernel that stands for a coroutine of a plugin.
    return _read(awaitable, "body", None)


async def _generator() -> AsyncIterator[None]:
    yield None  # pragma: no cover


_OPAQUE = (type(_generator().__aiter__().__anext__()),)
