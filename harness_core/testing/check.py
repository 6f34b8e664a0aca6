"""`check_plugin`: load, reload and dispose a plugin, and interfere at every place where it waits.

One script is played over and over: mount, restart, dispose. The first time it is left alone, and
the checkpoints of the plugin's code are counted (its body, effects, tasks, context managers and
disposers). Then it is played once for each checkpoint and each kind of interference: a failure
thrown there, the disposal of the plugin at that moment, the cancellation of whoever waits for it.
Each time the plugin must load again afterwards, and leave nothing when it goes.
"""

from __future__ import annotations

import gc
import logging
import weakref
from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, cast

import anyio
import attrs

from ..errors import InactiveFiberError, PluginError
from ..kernel.context import Context
from ..kernel.fiber import Fiber
from ..kernel.jobs import Job, logger
from ..kernel.lifecycle import FiberState
from ..kernel.plugin import read_plugin
from ..kernel.service import Service
from ..kernel.tree import Owner
from ..prompt import SystemPrompt
from . import inside
from .checkpoints import Checkpoints
from .snapshot import Residue, Snapshot, observe

__all__ = ["InjectedFailure", "PluginCheckError", "PluginReport", "Run", "check_plugin"]

Kind = Literal["clean", "failure", "disposal", "cancelled caller"]
KINDS: tuple[Kind, ...] = ("failure", "disposal", "cancelled caller")


class InjectedFailure(Exception):
    """What `check_plugin` throws into a plugin where it waits."""


class PluginCheckError(AssertionError):
    """A plugin did not pass `check_plugin`; `report` says why."""

    def __init__(self, report: PluginReport) -> None:
        self.report = report
        super().__init__(str(report))


@attrs.frozen
class Run:
    """The script played once.

    `checkpoint` and `place` say where it was interfered with; both are empty for the clean run.
    `left` is what stayed behind, `faults` says what else went wrong: a plugin that would not load
    again, a disposer that raised or had to be passed over.
    """

    kind: Kind
    checkpoint: int
    place: str
    left: tuple[Residue, ...]
    faults: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing was left and nothing went wrong."""
        return not self.left and not self.faults

    @property
    def findings(self) -> tuple[str, ...]:
        """One line for each thing left and each fault."""
        return tuple(dict.fromkeys([*(f"left {residue}" for residue in self.left), *self.faults]))

    def __str__(self) -> str:
        return self.kind + (f" at {self.place}" if self.place else "")


@attrs.frozen
class PluginReport:
    """What `check_plugin` found. `str(report)` is for people."""

    plugin: str
    checkpoints: int
    runs: tuple[Run, ...]

    @property
    def ok(self) -> bool:
        """Whether every run was."""
        return all(run.ok for run in self.runs)

    @property
    def left(self) -> tuple[Residue, ...]:
        """Everything that any run left behind, each once."""
        return tuple(dict.fromkeys(residue for run in self.runs for residue in run.left))

    @property
    def faults(self) -> tuple[str, ...]:
        """Everything else that went wrong in any run, each once."""
        return tuple(dict.fromkeys(fault for run in self.runs for fault in run.faults))

    def raise_if_faulty(self) -> None:
        """Raise an AssertionError that says everything, unless the report is ok."""
        if not self.ok:
            raise PluginCheckError(self)

    def __str__(self) -> str:
        head = f'plugin "{self.plugin}": {self.checkpoints} checkpoints, {len(self.runs)} runs'
        alike: dict[tuple[str, ...], list[str]] = {}
        for run in self.runs:
            if not run.ok:
                alike.setdefault(run.findings, []).append(str(run))
        if not alike:
            return f"{head}, all ok"
        lines = [f"{head}, {sum(map(len, alike.values()))} faulty"]
        for findings, runs in alike.items():
            lines += [f"{', '.join(dict.fromkeys(runs))}:", *(f"  {line}" for line in findings)]
        return "\n".join(lines)


async def check_plugin(
    plugin: object,
    config: object = None,
    *,
    services: Mapping[str, Any] | None = None,
    limit: int = 100,
    grace: float = 5.0,
    raises: bool = False,
) -> PluginReport:
    """Prove that a plugin leaves nothing behind, however its life goes; return what was found.

    `services` gives what the plugin injects, by key: values, or `Service` classes. A plugin that
    injects `system_prompt` gets one. At most `limit` checkpoints are interfered with; a run that
    is still under way after `grace` seconds is a fault. With `raises`, a faulty plugin raises an
    AssertionError. Raises what the plugin raises when it is left alone, and PluginError if it
    waits for a service that was not given.
    """
    play = _Script(plugin, config, dict(services or {}), grace)
    with _silence():
        clean = await play("clean", 0)
        runs = [clean]
        total = play.passed
        for at in range(1, min(total, limit) + 1):
            for kind in KINDS:
                runs.append(await play(kind, at))
    report = PluginReport(read_plugin(plugin).name, total, tuple(runs))
    if raises:
        report.raise_if_faulty()
    return report


class _Probe:
    """Stands where all plugin code enters the event loop, and counts where it waits."""

    def __init__(self, root: Context, at: int, intrude: Callable[[], BaseException | None]) -> None:
        self.passed = 0
        self.place = ""
        self._at = at
        self._intrude = intrude
        self._before = set(root.fiber.children)
        tree = root.kernel.tree
        self._spawn = tree.spawn
        vars(tree)["spawn"] = self._spawn_watched

    @property
    def fired(self) -> bool:
        return 0 < self._at <= self.passed

    def _spawn_watched(self, fn: Callable[..., Coroutine[Any, Any, None]], *args: object) -> None:
        job = getattr(fn, "__self__", None)
        if isinstance(job, Job) and self._concerns(job.owner):
            self._spawn(self._run, job)
        else:
            self._spawn(fn, *args)

    def _concerns(self, owner: Owner) -> bool:
        fiber = owner if isinstance(owner, Fiber) else None
        while fiber is not None and fiber.parent is not None and fiber.parent.parent is not None:
            fiber = fiber.parent
        return fiber is not None and fiber.parent is not None and fiber not in self._before

    async def _run(self, job: Job) -> None:
        await Checkpoints(job.run(), lambda _: self._step_in(job))

    def _step_in(self, job: Job) -> BaseException | None:
        place = inside.place_in_plugin(job)
        if place is None:  # it waits in the kernel: a context manager that is held open
            return None
        self.passed += 1
        if self.passed != self._at:
            return None
        self.place = f"{place[0]}:{place[1]}"
        return self._intrude()


class _Script:
    """Plays the script for one plugin. `passed` is the number of checkpoints of the last run."""

    def __init__(
        self, plugin: object, config: object, services: dict[str, Any], grace: float
    ) -> None:
        self.plugin = plugin
        self.config = config
        self.services = services
        self.grace = grace
        self.passed = 0
        if "system_prompt" in read_plugin(plugin).inject:
            self.services.setdefault("system_prompt", SystemPrompt)

    async def __call__(self, kind: Kind, at: int) -> Run:
        faults: list[str] = []
        async with Context(grace=self.grace) as root:
            await self._provide(root)

            def note(_: Fiber, error: BaseException) -> None:
                faults.extend(_fault(error))

            root.on("fiber/error", note)
            before = observe(root)
            probe, left = await self._play(root, kind, at, faults, before)
        self.passed = probe.passed
        place = probe.place if probe.fired else ""
        return Run(kind, at, place, left, tuple(dict.fromkeys(faults)))

    async def _provide(self, root: Context) -> None:
        for key, value in self.services.items():
            if isinstance(value, type) and issubclass(cast("type[object]", value), Service):
                await root.plugin(value)
            else:
                root.provide(key, value)

    async def _play(
        self, root: Context, kind: Kind, at: int, faults: list[str], before: Snapshot
    ) -> tuple[_Probe, tuple[Residue, ...]]:
        mounted: list[Fiber] = []
        caller = anyio.CancelScope()

        def intrude() -> BaseException | None:
            if kind == "failure":
                return InjectedFailure(f"injected at checkpoint {at}")
            if kind == "disposal":
                mounted[0].dispose()
            else:
                caller.cancel()
            return None

        probe = _Probe(root, at, intrude)
        with anyio.move_on_after(2 * self.grace) as patience:
            with caller:
                mounted.append(root.plugin(self.plugin, self.config))
                await self._load(mounted[0], kind)
            if probe.fired:
                await self._load_again(root, mounted, faults)
            await _dispose_all(mounted)
        if patience.cancelled_caught:
            faults.append(f"was still under way after {2 * self.grace:g} s")
        left = observe(root).added_since(before)
        if kind == "clean" and not left:
            left = tuple(_remembered(mounted, self.plugin))
        return probe, left

    async def _load(self, fiber: Fiber, kind: Kind) -> None:
        try:
            await fiber
            if fiber.waiting_for:
                raise PluginError(
                    f'plugin "{fiber.name}" waits for {", ".join(fiber.waiting_for)}: give '
                    "check_plugin(..., services={...})"
                )
            await fiber.restart()
        except Exception:
            # What the interference has caused; whether the plugin recovers is asked for later.
            if kind == "clean":
                raise

    async def _load_again(self, root: Context, mounted: list[Fiber], faults: list[str]) -> None:
        fiber = mounted[0]
        try:
            if fiber.state in (FiberState.UNLOADING, FiberState.DISPOSED):
                await fiber.dispose()
                fiber = root.plugin(self.plugin, self.config)
                mounted.append(fiber)
                await fiber
            else:
                await fiber.restart()
        except Exception as error:
            faults.append(f"would not load again: {error!r}")
            return
        if fiber.state is not FiberState.ACTIVE:
            faults.append(f"would not load again: it is {fiber.state.value}")


async def _dispose_all(mounted: list[Fiber]) -> None:
    for fiber in mounted:
        await fiber.dispose()


def _remembered(mounted: list[Fiber], plugin: object) -> Iterator[Residue]:
    """Find out whether anything still refers to the context of a plugin that is gone."""
    fiber = mounted.pop()
    name, place = fiber.name, inside.place_of_callable(plugin)
    context: weakref.ref[Context] = weakref.ref(fiber.ctx)
    del fiber
    for _ in range(3):  # what one pass frees may be what held the next, such as a scope's key
        gc.collect()
    if context() is not None:
        yield Residue("memory", "its context, which something still refers to,", name, *place)


def _fault(error: BaseException) -> Iterator[str]:
    """Describe an error, unless the interference is its cause."""
    if not _was_injected(error):
        notes = "; ".join(getattr(error, "__notes__", ()))
        yield f"{type(error).__name__}: {error}" + (f" ({notes})" if notes else "")


def _was_injected(error: BaseException | None, depth: int = 0) -> bool:
    if error is None or depth > 20:
        return False
    # A body that goes on in a scope or fiber that the failure has closed is told so; that is right.
    consequences = (InjectedFailure, InactiveFiberError, anyio.get_cancelled_exc_class())
    if isinstance(error, consequences):
        return True
    causes: list[BaseException | None] = [error.__cause__, error.__context__]
    if isinstance(error, BaseExceptionGroup):
        causes += cast("BaseExceptionGroup[BaseException]", error).exceptions
    return any(_was_injected(cause, depth + 1) for cause in causes)


class _Silence(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:  # noqa: ARG002
        return False


@contextmanager
def _silence() -> Generator[None]:
    """Keep the errors that are provoked out of the log."""

    silence = _Silence()
    logger.addFilter(silence)
    try:
        yield
    finally:
        logger.removeFilter(silence)
