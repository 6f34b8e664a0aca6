"""Effects: labelled acts that know how to undo themselves, each owned by exactly one fiber.

An `Effect` is callable: calling it (or `dispose()`) starts its teardown, does every synchronous
step before it returns, and returns something to await for the rest. Effects made inside another
effect's body are its children and are undone before it, newest first.

Contract: section 2, "Effects"; laws L1, L3, L5, L6.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Generator
from inspect import isawaitable
from types import CodeType
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from ..errors import SelfDisposalError
from .completion import SPENT, Completion
from .jobs import Job
from .places import Label, Places
from .steps import Step, Steps, run_steps

if TYPE_CHECKING:
    from .fiber import Fiber

__all__ = [
    "Effect",
    "EffectInfo",
    "Label",
    "Owned",
    "Site",
    "Undo",
    "calling_site",
    "this_site",
    "text_of",
    "unwind",
]

Undo: TypeAlias = Callable[[], object]
"""Takes an act back. What it returns is awaited if it is awaitable."""

Site: TypeAlias = tuple[CodeType, int]
"""Where a registration was made: the code and the index of its instruction."""

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_PASSED_OVER = tuple(
    os.path.join(_PACKAGE, part)
    for part in ("kernel", "scopes", os.path.join("prompt", "registry"))
)
"""Code that registers for others. What this package brings as plugins counts as plugin code."""


def calling_site(depth: int = 2) -> Site:
    """Return the place in plugin code that the current call came from.

    The search begins `depth` calls above, where plugin code can first be.
    """
    frame = sys._getframe(depth)  # pyright: ignore[reportPrivateUsage]
    while frame.f_code.co_filename.startswith(_PASSED_OVER):
        outer = frame.f_back
        if outer is None:
            break
        frame = outer
    return frame.f_code, frame.f_lasti


def this_site() -> Site:
    """Return the place of the caller itself: for what this package registers of its own."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    return frame.f_code, frame.f_lasti


def place_of(site: Site) -> tuple[str, int]:
    """Return file and line of a site. Slow, so asked only when somebody wants to read it."""
    code, instruction = site
    for start, end, line in code.co_lines():
        if start <= instruction < end and line is not None:
            return code.co_filename, line
    return code.co_filename, code.co_firstlineno


def text_of(label: Label) -> str:
    """Return a label as a person reads it."""
    return label if isinstance(label, str) else f'{label[0]} "{label[1]}"'


@attrs.frozen
class EffectInfo:
    """One entry of `fiber.effects()`: what was registered, where, and what it holds."""

    label: str
    file: str
    line: int
    children: tuple[EffectInfo, ...] = ()

    def __str__(self) -> str:
        return f"{self.label} ({self.file}:{self.line})"


class Owned:
    """Marks what some fiber owns already, so that a body may return it: effects and fibers."""

    __slots__ = ()


class Effect(Owned):
    """One reversible act. Only its owner's teardown or calling it takes it back.

    Awaiting it waits for its set-up, and raises what the set-up raised.
    """

    __slots__ = (
        "__weakref__",
        "children",
        "completion",
        "fiber",
        "holder",
        "label",
        "place",
        "setup",
        "site",
        "steps",
        "undo",
    )

    def __init__(
        self,
        fiber: Fiber,
        label: Label,
        undo: Undo | None,
        site: Site,
        steps: Callable[[], Steps] | None = None,
    ) -> None:
        self.fiber = fiber
        self.label = label
        self.undo = undo
        self.steps = steps
        self.site = site
        self.children: dict[Effect, None] | None = None
        self.place = 0
        self.holder: dict[Effect, None] | None = None
        self.completion: Completion | None = None
        self.setup: EffectSetup | None = None

    # Undoing

    def __call__(self) -> Completion:
        """Undo the act: every synchronous step now, the rest when awaited (idempotent, shared)."""
        completion = self.completion
        if completion is None:
            self.fiber.tree.check_thread()
            run_steps(self.fiber.tree, self.dispose_steps())
            completion = self.completion or SPENT
        return completion

    def dispose(self) -> Completion:
        """Undo the act. The same as calling the effect."""
        return self()

    def dispose_steps(self, places: Places | None = None) -> Steps:
        """Undo the act, as part of a larger teardown."""
        completion = self.completion
        if completion is not None:
            if not completion.done:
                yield Step(completion=completion)
            return
        completion = self.completion = Completion()
        try:
            setup = self.setup
            if setup is not None and not setup.ended:
                setup.job.cancel()
                yield Step(job=setup.job)
            if self.children:
                yield unwind(self.children, places)
            step = self.undo_now()
            if step is not None:
                yield step
        finally:
            # Only now: the owner's teardown finds an effect that is being undone, and waits.
            self.forget()
            completion.finish()

    def undo_now(self) -> Step | Steps | None:
        """Call the undo, report what it raises, and return what is left to be done."""
        if self.steps is not None:
            steps, self.steps = self.steps, None
            return steps()
        undo, self.undo = self.undo, None
        if undo is None:
            return None
        try:
            rest = undo()
        except BaseException as error:
            self.fiber.report(error, f"undoing {self}")
            return None
        if rest is None or not isawaitable(rest):
            return None
        return Step(job=self._undo_job(rest))

    def _undo_job(self, rest: Awaitable[Any]) -> Job:
        what = f"undoing {self}"

        def end(error: BaseException | None) -> None:
            if error is not None:
                self.fiber.report(error, what)

        job = Job(self.fiber, lambda: what, lambda: rest, end, made=rest)
        self.fiber.tree.spawn(job.run)
        return job

    def forget(self) -> None:
        """Take the effect off its owner's list."""
        if self.holder is not None:
            self.holder.pop(self, None)
            self.holder = None

    # Set-up of asynchronous effects

    def __await__(self) -> Generator[Any, None, Effect]:
        return self._ready().__await__()

    async def _ready(self) -> Effect:
        setup = self.setup
        if setup is not None:
            if self.fiber.tree.current_job() is setup.job:
                raise SelfDisposalError(self.fiber, self.fiber)
            setup.awaited = True
            await setup.job.over.wait()
            if setup.error is not None:
                await self()
                raise setup.error
        return self

    def set_up(self, rest: Awaitable[Any], around: Callable[[bool], None]) -> None:
        """Run the rest of the effect's body in a task; all or nothing (law L5)."""
        what = f"setting up {self}"

        def end(error: BaseException | None) -> None:
            setup.ended = True
            setup.error = error
            tree.gate.set_ups.pop(setup.job, None)
            if error is None:
                return
            self.fiber.attribute(error, what)
            if self.completion is not None and self.completion.done and self.children:
                run_steps(tree, unwind(self.children))  # it was passed over, and left things
            if not setup.awaited and not setup.job.cancelled:
                self.fiber.report(error, what)
            self()

        tree = self.fiber.tree
        job = Job(self.fiber, lambda: what, lambda: rest, end, around, made=rest)
        setup = self.setup = EffectSetup(job)
        tree.gate.set_ups[setup.job] = None
        tree.spawn(setup.job.run)

    # Describing

    def note_place(self, places: Places) -> None:
        """Note the place of this effect, which is being undone, for the next life of the fiber."""
        places.note(self.label, self.place, None)

    @property
    def disposed(self) -> bool:
        """Whether the teardown has at least begun."""
        return self.completion is not None

    def describe(self) -> EffectInfo:
        """Return label, place and children as a frozen record."""
        file, line = place_of(self.site)
        children = tuple(child.describe() for child in self.children or ())
        return EffectInfo(text_of(self.label), file, line, children)

    def __str__(self) -> str:
        file, line = place_of(self.site)
        return f"{text_of(self.label)} registered at {file}:{line}"

    def __repr__(self) -> str:
        return f"<Effect {self}{' disposed' if self.disposed else ''}>"


class EffectSetup:
    """The set-up of one asynchronous effect: its job, and the error for whoever awaits."""

    __slots__ = ("awaited", "ended", "error", "job")

    def __init__(self, job: Job) -> None:
        self.job = job
        self.error: BaseException | None = None
        self.awaited = False
        self.ended = False


def unwind(effects: dict[Effect, None], places: Places | None = None) -> Steps:
    """Undo effects, newest first, each over before the next begins.

    With `places`, theirs are noted there, for the next life of the fiber.
    """
    while effects:
        effect, _ = effects.popitem()
        effect.holder = None
        if places is not None:
            effect.note_place(places)
        if effect.completion is None and effect.setup is None and not effect.children:
            # An act with an undo and nothing else needs no generator of its own.
            step = effect.undo_now()
            if step is None:
                effect.completion = SPENT
                continue
            completion = effect.completion = Completion()
            yield step
            completion.finish()
        else:
            yield effect.dispose_steps(places)
