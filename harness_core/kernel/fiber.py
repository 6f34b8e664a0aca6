"""Fiber: one mounted plugin, from waiting for its services to the undoing of its last effect.

Reading order: `register` (the one door for every registration), `refresh` (what a change of the
world means for this fiber), `_load`, `unload_steps`, and last the calls a user makes.

A fiber knows nothing of contexts. It is given a `setup` callable that runs the plugin's body, and
`requirements` that say which services it needs.

Contract: section 2, "Fiber"; laws L1 to L6.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable
from threading import get_ident
from typing import Any, Protocol

from anyio import get_cancelled_exc_class

from ..errors import InactiveFiberError, PluginError, SelfDisposalError, safe_repr
from .completion import SPENT, Completion
from .effects import (
    Effect,
    EffectInfo,
    Owned,
    Site,
    Undo,
    calling_site,
    text_of,
    unwind,
)
from .jobs import Job, logger
from .lifecycle import MOVES, OPEN_STATES, FiberState
from .places import Label, LivePlace, Places
from .setup import absorb
from .steps import Step, Steps, run_steps
from .tree import Tree
from .twins import Twins

__all__ = ["Fiber", "Requirements"]

_PENDING, _LOADING, _ACTIVE = FiberState.PENDING, FiberState.LOADING, FiberState.ACTIVE
_FAILED, _UNLOADING, _DISPOSED = FiberState.FAILED, FiberState.UNLOADING, FiberState.DISPOSED

DEFAULT_GRACE = 10.0
"""Seconds that one step of a teardown may take."""


class Requirements(Protocol):
    """The services a fiber needs, as far as the fiber cares."""

    def watch(self) -> None:
        """Ask to be told of changes."""
        ...

    def take(self) -> bool:
        """Resolve all; True if all are there. What was taken is kept until `drop`."""
        ...

    def hold(self) -> bool:
        """Whether what was taken is still what would be taken now."""
        ...

    def drop(self) -> None:
        """Forget what was taken."""
        ...

    def remember_failure(self) -> None:
        """Forget what was taken, but for knowing it again."""
        ...

    def offer_others(self) -> bool:
        """Whether all are there, and not the very ones of the failure."""
        ...

    def missing(self) -> list[str]:
        """Return the keys that are not available."""
        ...

    def unwatch(self) -> None:
        """Ask to be told of no more changes."""
        ...


def _written_at(plugin: object) -> str:
    """Return where a plugin's code stands, as far as it is a function, for messages."""
    body = getattr(plugin, "body", None) or getattr(plugin, "apply", plugin)
    code = getattr(body, "__code__", None)
    return f" at {code.co_filename}:{code.co_firstlineno}" if code is not None else ""


def _put_in_order(held: dict[Any, None], last: Any) -> None:
    """Move the last of some effects or fibers in front of those that have later places."""
    later = [one for one in held if one.place > last.place]
    for one in later:
        del held[one]
        held[one] = None


class _Disposal(Completion):
    """The end of a fiber. Code that the fiber has to wait for cannot await it (law L6)."""

    __slots__ = ("fiber",)

    def __init__(self, fiber: Fiber) -> None:
        super().__init__()
        self.fiber = fiber

    async def wait(self) -> None:
        if not self.done:
            self.fiber.refuse_own_code()
            await super().wait()


class _Mounting(Effect):
    """The effect, in the parent's list, of a mounted child."""

    __slots__ = ("child",)
    child: Fiber

    def note_place(self, places: Places) -> None:
        below = self.child.leave_places()
        if not self.child.is_life:
            places.note(self.label, self.place, below)


class Fiber(Owned):
    """One mounted plugin. Awaiting it waits until it has settled, and raises its load error.

    A fiber that waits for a missing service has settled. All other calls that wait (`dispose`,
    `restart`, `update`) may be made by any number of tasks at once.
    """

    is_life = False
    """Whether it is one life of a plugin that may live twice at once; see `life`."""

    __slots__ = (
        "__weakref__",
        "_changed",
        "_children",
        "_disposal",
        "_effects",
        "_failure",
        "_life",
        "_load_job",
        "_mounting",
        "_places",
        "_places_left",
        "_twins",
        "_unloading",
        "_was_active",
        "carried",
        "collector",
        "ctx",
        "error",
        "grace",
        "hold",
        "name",
        "parent",
        "plugin",
        "requirements",
        "services",
        "setup",
        "state",
        "transparent",
        "tree",
        "updater",
        "waits_on",
    )

    def __init__(
        self,
        tree: Tree,
        name: str,
        parent: Fiber | None,
        *,
        setup: Callable[[], object] | None = None,
        requirements: Requirements | None = None,
        grace: float | None = None,
    ) -> None:
        self.tree = tree
        self.name = name
        self.parent = parent
        self.setup = setup
        self.transparent = setup is None
        """Whether this is a scope or the root: no plugin that could declare what it injects."""
        self.requirements = requirements
        self.grace: float = (
            grace if grace is not None else parent.grace if parent is not None else DEFAULT_GRACE
        )
        self.state = _PENDING
        self.error: BaseException | None = None
        self._children: dict[Fiber, None] = {}
        self._twins: Twins | None = None
        self.ctx: Any = None
        self.plugin: object = None
        self.updater: Any = None
        self.services: dict[str, Any] = {}
        """Bindings that this fiber provides, by key."""
        self._effects: dict[Effect, None] = {}
        self.collector = self._effects
        self._mounting: Effect | None = None
        self._load_job: Job | None = None
        self._unloading: Completion | None = None
        self._disposal: _Disposal | None = None
        self._failure: BaseException | None = None
        self.hold = False
        """While it is on, the fiber does not load: something else is put into it."""
        self.carried: dict[str, Any] = {}
        self._life = 0
        self._was_active = False
        self.waits_on: Fiber | None = None
        """The consumer that the teardown of this fiber waits for at the moment."""
        self._changed: Completion | None = None
        self._places: Places | None = None
        """Places of the life before, to be taken up by this one."""
        self._places_left: Places | None = None
        """Places of this life, noted while it is undone."""

    # Registering

    def register(
        self,
        label: Label,
        undo: Undo | None = None,
        *,
        steps: Callable[[], Steps] | None = None,
        site: Site | None = None,
        kind: type[Effect] = Effect,
    ) -> Effect:
        """Own a new effect; every registration of every kind comes through here.

        Raises InactiveFiberError unless the fiber is loading or active, and ForeignThreadError
        from another thread.
        """
        if self.state not in OPEN_STATES:
            raise InactiveFiberError(self)
        tree = self.tree
        if get_ident() != tree.thread or not tree.loop_runs():
            tree.refuse_foreign()
        effect = kind(self, label, undo, site or calling_site(2), steps)
        places = self._places
        place = places.take(label) if places is not None else None
        effect.place = next(tree.places) if place is None else place
        if tree.lives and self.lives():
            effect.place = LivePlace(effect.place, self)
        collector = self.collector
        collector[effect] = None
        effect.holder = collector
        return effect

    def check_open(self) -> None:
        """Raise InactiveFiberError unless registrations are taken."""
        if self.state not in OPEN_STATES:
            raise InactiveFiberError(self)

    def collect_into(self, effect: Effect) -> Callable[[bool], None]:
        """Return a switch: while it is on, what is registered belongs to `effect`."""
        outer: list[dict[Effect, None]] = []

        def switch(on: bool) -> None:
            if on:
                outer.append(self.collector)
                if effect.children is None:
                    effect.children = {}
                self.collector = effect.children
            else:
                self.collector = outer.pop()

        return switch

    def own(self, undo: Undo, label: Label, site: Site | None = None) -> Effect:
        """Register the disposer that a body returned or yielded.

        Unlike `register`, it is taken while the fiber closes: the act has happened, so its undo
        must happen too (law L4).
        """
        if self.state in OPEN_STATES:
            return self.register(label, undo, site=site)
        effect = Effect(self, label, undo, site or calling_site())
        self.collector[effect] = None
        effect.holder = self.collector
        return effect

    def adopt(self, child: Fiber) -> None:
        """Make `child` a fiber of this one: an effect that disposes it, and its place."""
        label = ("life" if child.is_life else "plugin", child.name)
        if child.is_life:
            child.take_up(self._places)  # what a life registers stands for this fiber
        elif self._places is not None:
            child.take_up(self._places.below(label))
        effect = self.register(label, steps=child.dispose_steps, kind=_Mounting)
        assert isinstance(effect, _Mounting)
        effect.child = child
        child._mounting = effect
        self._take_in(child)
        if self.tree.gate.swaps:
            self.tree.gate.touch(child, because_of=self)

    def _take_in(self, child: Fiber) -> None:
        self._children[child] = None
        if self._twins is not None and not child.is_life:
            self._twins.add(child.name, child.place)

    def _let_go(self, child: Fiber, place: int) -> None:
        if child in self._children:
            del self._children[child]
            if self._twins is not None and not child.is_life:
                self._twins.remove(child.name, place)

    def _number(self, child: Fiber) -> int:
        """Return which of its name a child is, from 1 on; they are counted once somebody asks."""
        if self._twins is None:
            self._twins = Twins()
            for one in self._children:
                if not one.is_life:
                    self._twins.add(one.name, one.place)
        return self._twins.number(child.name, child.place)

    def _arrange(self, child: Fiber, place: int) -> None:
        """Give a child another place among its siblings."""
        assert child._mounting is not None
        self._let_go(child, child.place)
        child._mounting.place = place
        self._take_in(child)
        _put_in_order(self._effects, child._mounting)
        _put_in_order(self._children, child)

    def move(self, parent: Fiber) -> None:
        """Become, as it is, a child of another fiber, in the same place.

        Raises InactiveFiberError, and changes nothing, if that one is closing.
        """
        before, mounting, places = self.parent, self._mounting, self._places
        if before is None or mounting is None or before is parent:
            return
        parent.adopt(self)
        assert self._mounting is not None
        self._mounting.site = mounting.site
        parent._arrange(self, mounting.place)
        self._places = places
        mounting.forget()
        before._let_go(self, mounting.place)
        self.parent = parent

    def take_up(self, places: Places | None) -> None:
        """Stand where an earlier mount of this plugin stood."""
        self._places = places

    def inherit(self, other: Fiber) -> None:
        """Stand where another plugin stood, which has been unloaded."""
        assert self.parent is not None
        self.parent._arrange(self, other.place)
        if other._places is not None:
            self._places = other._places.for_another()

    def leave_places(self) -> Places:
        """Return where the coming teardown will note its places."""
        if self._places_left is None:
            self._places_left = Places()
        return self._places_left

    # Being moved

    def _move(self, state: FiberState) -> None:
        old = self.state
        if state not in MOVES[old]:
            raise RuntimeError(f"a fiber cannot go from {old.value} to {state.value}")
        self.state = state
        on_state = self.tree.on_state
        if on_state is not None:
            on_state(self, old)
        changed = self._changed
        if changed is not None:
            self._changed = None
            changed.finish()

    def start(self) -> None:
        """Let the fiber load as soon as it can; called once, when it is mounted."""
        self.refresh()

    def refresh(self) -> None:
        """Do what the present state of the fiber's services asks for."""
        needs = self.requirements
        if self._disposal is not None or self.hold:
            return
        if self.state is _PENDING:
            if needs is None or needs.take():
                self._load()
        elif self.state is _ACTIVE:
            if needs is not None and not needs.hold():
                run_steps(self.tree, self.unload_steps())
        elif self.state is _FAILED and self._may_try_again(needs):
            self._move(_PENDING)
            self.refresh()

    def _may_try_again(self, needs: Requirements | None) -> bool:
        """Whether a failed fiber has been given another provider than the one it failed with.

        A plugin that never ran, because of its config, has no use for any.
        """
        return needs is not None and self._life > 0 and needs.offer_others()

    def _load(self) -> None:
        self._move(_LOADING)
        self.error = None
        self._failure = None
        self._life = life = self._life + 1
        self._was_active = False
        setup = self.setup
        try:
            outcome = setup() if setup is not None else None
            rest = None if outcome is None else absorb(self, outcome, f"body of {self.name}")
        except get_cancelled_exc_class() as error:
            # Whoever awaits the fiber would take this for a cancellation of his own.
            outside = PluginError(f"body of {self.name} was cancelled from outside its tree")
            outside.__cause__ = error
            self._load_ended(life, outside)
            return
        except BaseException as error:
            self._load_ended(life, error)
            if not isinstance(error, Exception):
                raise
            return
        if rest is None:
            self._load_ended(life, None)
        else:
            self._load_job = Job(
                self,
                lambda: f"body of {self.name}{_written_at(self.plugin)}",
                lambda: rest,
                lambda error: self._load_ended(life, error),
                made=rest,
            )
            self.tree.spawn(self._load_job.run)

    def _load_ended(self, life: int, error: BaseException | None) -> None:
        self._load_job = None if life == self._life else self._load_job
        if life == self._life and self.state is _LOADING:
            if error is None:
                self._loaded()
            else:
                self.fail(error, "loading")
            return
        # Unloaded while the body ran. An asynchronous teardown waits for the body and goes on; a
        # synchronous body that ended its own fiber outlived the teardown and may have left things.
        if error is not None and not isinstance(error, InactiveFiberError):
            self.report(error, "loading")
        if self._effects and self.state is not _UNLOADING and life == self._life:
            run_steps(self.tree, unwind(self._effects))

    def _loaded(self) -> None:
        self._move(_ACTIVE)
        self._was_active = True
        for binding in tuple(self.services.values()):
            if binding.fiber is self:  # and not one of its lives, which has announced its own
                binding.announce()
        if self.requirements is not None:
            # A service that went and came back during the load is no reason to load again; one
            # that is gone is.
            self.tree.enqueue(self.refresh)

    def fail(self, error: BaseException, during: str) -> None:
        """Take the fiber down because its own code failed; it ends FAILED with `error`."""
        self.attribute(error, during)
        if self.state is _PENDING:
            self.error = error
            self._move(_FAILED)
        elif self.state in OPEN_STATES:
            self._failure = error
            run_steps(self.tree, self.unload_steps())
        self.report(error, during)

    def unload_steps(self) -> Steps:
        """Undo everything the fiber has registered; then decide what becomes of it."""
        if self.state is _UNLOADING:
            yield Step(completion=self._unloaded_later())
            return
        self._move(_UNLOADING)
        try:
            job, self._load_job = self._load_job, None
            if job is not None:
                job.cancel()
                yield Step(job=job)
            places = self._places_left if self._disposal is not None else self.leave_places()
            yield from unwind(self._effects, places)
            cut_short = not self._was_active and not self.is_life
            if places is not None and self._places is not None and cut_short:
                # A life that was cut short has not taken up all its places; the next one may.
                places.carry_over(self._places)
        finally:
            unloading, self._unloading = self._unloading, None
            self._unloaded()
            if unloading is not None:
                unloading.finish()

    def _unloaded_later(self) -> Completion:
        """Return the end of the unloading that is under way."""
        if self._unloading is None:
            self._unloading = Completion()
        return self._unloading

    def _unloaded(self) -> None:
        if self._disposal is None:
            self._places, self._places_left = self._places_left, None
        if self._disposal is not None:
            self._end()
        elif self._failure is not None:
            self.error = self._failure
            if self.requirements is not None:
                self.requirements.remember_failure()
            self._move(_FAILED)
        else:
            if self.requirements is not None:
                self.requirements.drop()
            self._move(_PENDING)
            self.tree.enqueue(self.refresh)

    def _end(self) -> None:
        if self.requirements is not None:
            self.requirements.drop()
            self.requirements.unwatch()
        if self.parent is not None:
            self.parent._let_go(self, self.place)
        if self._mounting is not None:
            self._mounting.forget()
        self._move(_DISPOSED)
        # Nothing of the plugin stays reachable through a handle that somebody keeps.
        self.setup = self.plugin = self.updater = None
        self.carried.clear()
        self._places = None
        if self._disposal is not None:
            self._disposal.finish()

    # Ending

    def dispose(self) -> Completion:
        """Start the teardown, do its synchronous part, and return something to await for the rest.

        Idempotent and shared: all callers get the same teardown, and cancelling one of them does
        not cancel it. Errors of disposers are reported, never raised. Awaiting it from code that
        the teardown waits for raises SelfDisposalError. (Laws L3, L6.)
        """
        if self._disposal is None:
            self.tree.check_thread()
            run_steps(self.tree, self.dispose_steps())
        assert self._disposal is not None
        return self._disposal

    def dispose_steps(self) -> Steps:
        """Dispose the fiber, as part of a larger teardown."""
        if self._disposal is None:
            self._disposal = _Disposal(self)
            yield from self.unload_steps()
        elif not self._disposal.done:
            yield Step(completion=self._disposal)

    # Awaiting

    def __await__(self) -> Generator[Any, None, Fiber]:
        return self.wait_settled().__await__()

    async def _wait_change(self) -> None:
        self.refuse_own_code(ending=False)
        if self._changed is None:
            self._changed = Completion()
        await self._changed.wait()

    async def wait_settled(self) -> Fiber:
        """Wait until nothing is under way; raise the load error of a failed fiber."""
        await self.wait_quiet()
        if self.error is not None and self.state is _FAILED:
            raise self.error
        return self

    async def wait_active(self) -> Fiber:
        """Wait until the fiber is active, for as long as its services take to arrive.

        Raises its load error if it fails, and InactiveFiberError if it is disposed.
        """
        while self.state is not _ACTIVE:
            if self.state is _FAILED and self.error is not None:
                raise self.error
            if self.state is _DISPOSED:
                raise InactiveFiberError(self)
            await self._wait_change()
        return self

    async def restart(self) -> Fiber:
        """Unload the fiber and load it again; raise the new body's error, if it has one."""
        self.refuse_own_code()
        if self._disposal is not None:
            raise InactiveFiberError(self)
        swap = self.tree.gate.begin(self)
        try:
            await self.reload()
        finally:
            opened = swap.end()
        await opened.wait()
        if self._disposal is not None:
            raise InactiveFiberError(self)
        return await self.wait_settled()

    async def reload(self) -> None:
        """Unload and load again with the present `setup`, without the gate and without raising."""
        await self.start_reload().wait()
        await self.wait_quiet()

    async def wait_quiet(self) -> bool:
        """Wait until the fiber neither loads nor unloads; return whether it was so already.

        Its error is not raised.
        """
        was_quiet = True
        while self.state is _LOADING or self.state is _UNLOADING:
            was_quiet = False
            await self._wait_change()
        return was_quiet

    def start_reload(self) -> Completion:
        """Begin to unload and load again, and return the unloading."""
        self.tree.check_thread()
        if self._disposal is not None:
            return self._disposal
        self._failure = None
        if self.state is _FAILED:
            if self.requirements is not None:
                self.requirements.drop()
            self._move(_PENDING)
        if self.state is _PENDING:
            self.tree.enqueue(self.refresh)
            return SPENT
        run_steps(self.tree, self.unload_steps())
        return self._unloaded_later() if self.state is _UNLOADING else SPENT

    async def update(self, config: object) -> Fiber:
        """Give the plugin a new config: in place where it accepts that, else by a restart.

        An invalid config changes nothing and raises ConfigError. A new body that fails is rolled
        back: the old config runs again, and the error is raised (law L5).
        """
        self.refuse_own_code()
        if self._disposal is not None or self.updater is None:
            raise InactiveFiberError(self)
        await self.updater.update(self, config)
        if self._disposal is not None:
            raise InactiveFiberError(self)
        return self

    def refuse_own_code(self, *, ending: bool = True) -> None:
        """Raise SelfDisposalError in code that this fiber has to wait for.

        To end, it waits for all its code; to settle, only for what it loads and undoes.
        """
        self.tree.check_loop()
        job = self.tree.current_job()
        if job is None or not (ending or job.is_awaited):
            return
        fiber = job.owner if isinstance(job.owner, Fiber) else None
        while fiber is not None:
            if self.waits_for(fiber):  # itself, or a consumer that it has to see out first
                raise SelfDisposalError(self, job.owner)
            fiber = fiber.parent

    # Running code for the plugin

    def run_soon(
        self,
        start: Callable[[], Awaitable[Any]],
        label: Label,
        failed: Callable[[BaseException], None] | None = None,
    ) -> Effect:
        """Run code in a background task that is an effect of this fiber.

        The effect goes when the task ends. `failed` gets its error; by default the fiber fails.
        """
        what = text_of(label)

        def steps() -> Steps:
            job.cancel()
            if not job.over.done:
                yield Step(job=job)

        def end(error: BaseException | None) -> None:
            effect.forget()
            if error is None:
                return
            if job.cancelled:
                self.report(error, f"cancelling {what}")
            elif failed is not None:
                failed(error)
            else:
                self.fail(error, what)

        effect = self.register(label, steps=steps)
        job = Job(self, lambda: str(effect), start, end, is_awaited=False)
        self.tree.spawn(job.run)
        return effect

    def waits_for(self, other: Fiber) -> bool:
        """Whether the teardown of this fiber waits for that of `other`, directly or not."""
        fiber: Fiber | None = self
        while fiber is not None:
            if fiber is other:
                return True
            fiber = fiber.waits_on
        return False

    # Describing

    @property
    def path(self) -> str:
        """The names from the root to this fiber; siblings of one name are numbered."""
        names: list[str] = []
        fiber = self
        while fiber.parent is not None:
            if not fiber.is_life:
                number = fiber.parent._number(fiber)
                names.append(f"{fiber.name}#{number}" if number > 1 else fiber.name)
            fiber = fiber.parent
        return "/".join([fiber.name, *reversed(names)])

    @property
    def place(self) -> int:
        """Where the fiber stands in the order of all registrations."""
        return self._mounting.place if self._mounting is not None else 0

    @property
    def may_be_failing(self) -> bool:
        """Whether what it undoes may be undone because its own code failed."""
        return self.state is _LOADING or self._failure is not None

    @property
    def is_ending(self) -> bool:
        """Whether the fiber is disposed, or about to be."""
        return self._disposal is not None

    @property
    def plugin_name(self) -> str:
        """The name of the plugin whose fiber this is; for a scope, of the one that minted it."""
        fiber = self
        while fiber.transparent and fiber.parent is not None:
            fiber = fiber.parent
        return fiber.name

    @property
    def config(self) -> Any:
        """The checked config that the plugin runs with."""
        return self.updater.config if self.updater is not None else None

    @property
    def children(self) -> tuple[Fiber, ...]:
        """The fibers mounted by this one, oldest first."""
        if not self.tree.lives:
            return tuple(self._children)
        found: list[Fiber] = []
        for child in self._children:
            found += child.children if child.is_life else (child,)
        return tuple(found)

    @property
    def mounted(self) -> Fiber:
        """The fiber that users know: itself, or for a life the one that stands for it."""
        return self

    def lives(self) -> list[Fiber]:
        """Return the lives that this fiber is, or belongs to, nearest first."""
        found: list[Fiber] = []
        fiber: Fiber | None = self
        while fiber is not None:
            if fiber.is_life:
                found.append(fiber)
            fiber = fiber.parent
        return found

    def own_effects(self) -> Iterable[Effect]:
        """Return the effects themselves, oldest first."""
        return self._effects

    @property
    def waiting_for(self) -> list[str]:
        """The keys of the services that a pending fiber waits for."""
        if self.state is not _PENDING or self.requirements is None:
            return []
        return self.requirements.missing()

    def effects(self) -> list[EffectInfo]:
        """Return everything the fiber has registered, oldest first, with file and line."""
        found: list[EffectInfo] = []
        for effect in self._effects:
            if isinstance(effect, _Mounting) and effect.child.is_life:
                found += effect.child.effects()
            else:
                found.append(effect.describe())
        return found

    def attribute(self, error: BaseException, during: str) -> None:
        """Note on an error whose it is (law L9)."""
        tag = getattr(self.ctx, "tag", None)
        scope = f", scope {safe_repr(tag)}" if tag is not None else ""
        note = f'in plugin "{self.plugin_name}" (fiber {self.path}{scope}), {during}'
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)

    def report(self, error: BaseException, during: str) -> None:
        """Log an error that has no caller to go to, and tell `fiber/error` listeners."""
        self.attribute(error, during)
        logger.error("%s: %s failed: %r", self.path, during, error, exc_info=error)
        if self.tree.on_error is not None:
            self.tree.on_error(self, error)

    def __repr__(self) -> str:
        return f"<Fiber {self.path} {self.state.value}>"
