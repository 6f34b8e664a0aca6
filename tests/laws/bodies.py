"""Random plugins as data: strategies, the body that performs one, and the model of what it leaves.

A `Body` is a list of acts. `plugin_of` makes a plugin that performs them and notes in a journal
what it sets up (`+x`), begins to undo (`-x`) and has undone (`=x`). `expect` is the model: the
tree of registrations that must be there when it has loaded, without any event loop.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Literal

import anyio
import attrs
from anyio.lowlevel import checkpoint
from hypothesis import strategies as st

from harness_core import Context, Effect, Fiber, create_scope

from .machine import Boom

Form = Literal["sync", "async", "generator", "async generator"]
ASYNC: tuple[Form, ...] = ("async", "async generator")


@attrs.frozen
class Wait:
    """Give way to the loop; only in asynchronous bodies."""


@attrs.frozen
class Fail:
    """Raise."""


@attrs.frozen
class Listen:
    """Register a listener."""


@attrs.frozen
class Section:
    """Register a section of the prompt."""


@attrs.frozen
class Task:
    """Run a background task that cleans up asynchronously."""


@attrs.frozen
class Enter:
    """Enter a context manager; an asynchronous one only in asynchronous bodies."""

    asynchronous: bool


@attrs.frozen
class Undoable:
    """Register an effect whose body performs `inner` and returns a disposer."""

    asynchronous_body: bool
    asynchronous_undo: bool
    undo_raises: bool
    inner: tuple[Any, ...]


@attrs.frozen
class Child:
    """Mount a plugin; asynchronous bodies wait for it."""

    body: Body


@attrs.frozen
class InScope:
    """Mint a scope and act through its context."""

    inner: tuple[Any, ...]


@attrs.frozen
class Body:
    """A plugin: its form, its acts, and whether it hands back a disposer at the end."""

    form: Form
    acts: tuple[Any, ...]
    hands_back: bool


def _acts(deep: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    flat = st.one_of(
        st.builds(Wait),
        st.builds(Listen),
        st.builds(Section),
        st.builds(Task),
        st.builds(Enter, st.booleans()),
    )
    # One act in about twelve fails, so that most bodies come to their end.
    act = st.integers(0, 11).flatmap(
        lambda n: st.just(Fail()) if n == 11 else (deep if n < 6 else flat)
    )
    return st.lists(act, max_size=4).map(tuple)


_FORMS: st.SearchStrategy[Form] = st.sampled_from(("sync", "async", "generator", "async generator"))


def _deeper(deep: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    acts = _acts(deep)
    return st.one_of(
        st.builds(Undoable, st.booleans(), st.booleans(), st.booleans(), acts),
        st.builds(Child, st.builds(Body, _FORMS, acts, st.booleans())),
        st.builds(InScope, acts),
    )


_LEAF = st.builds(Undoable, st.booleans(), st.booleans(), st.booleans(), st.just(()))
bodies: st.SearchStrategy[Body] = st.builds(
    Body, _FORMS, _acts(st.recursive(_LEAF, _deeper, max_leaves=6)), st.booleans()
)


# The model


@attrs.define(eq=False)
class Node:
    """A registration that must be there: its label, its undo in the journal, what it holds."""

    label: str
    path: str = ""
    undo: Literal["", "sync", "async"] = ""
    is_fiber: bool = False
    body: Body | None = None
    failed: bool = False
    holds: list[Node] = attrs.Factory(list)

    def undoing(self) -> list[str]:
        """Return the journal of undoing it: newest first, each over before the next."""
        lines = [line for held in reversed(self.holds) for line in held.undoing()]
        if self.undo == "sync":
            lines.append(f"-{self.path}")
        elif self.undo == "async":
            lines += [f"-{self.path}", f"={self.path}"]
        return lines

    def labels(self) -> Any:
        """Return the labels of what it holds, as `fiber.effects()` nests them."""
        return [(one.label, [] if one.is_fiber else one.labels()) for one in self.holds]

    def walk(self) -> Iterator[Node]:
        """Yield it and everything below it."""
        yield self
        for held in self.holds:
            yield from held.walk()


def is_calm(body: Body, inside_sync: bool = False) -> bool:
    """Whether nothing loads in the background while its parent goes on: the model is exact."""
    asynchronous = body.form in ASYNC
    if asynchronous and inside_sync:
        return False
    return all(_calm(act, not asynchronous) for act in body.acts)


def _calm(act: Any, inside_sync: bool) -> bool:
    if isinstance(act, Child):
        return is_calm(act.body, inside_sync)
    if isinstance(act, Undoable):
        # A synchronous effect body cannot wait for a child either.
        return all(_calm(one, inside_sync or not act.asynchronous_body) for one in act.inner)
    if isinstance(act, InScope):
        return all(_calm(one, inside_sync) for one in act.inner)
    return True


def expect(body: Body, path: str) -> Node:
    """Return what a fiber that runs `body` holds once it has settled."""
    node = Node(f'plugin "{path}"', path, is_fiber=True, body=body)
    asynchronous = body.form in ASYNC
    if not _perform(body.acts, path, node.holds, asynchronous):
        node.holds = []
        node.failed = True
    elif body.hands_back:
        undo: Literal["sync", "async"] = "async" if asynchronous else "sync"
        node.holds.append(Node(f"disposer from body of {path}", f"{path}.back", undo))
    return node


def _perform(acts: tuple[Any, ...], path: str, holds: list[Node], asynchronous: bool) -> bool:
    """Add what the acts register; False if they fail."""
    for index, act in enumerate(acts):
        here = f"{path}.{index}"
        if isinstance(act, Fail):
            return False
        if isinstance(act, Listen):
            holds.append(Node('listener "law"', here))
        elif isinstance(act, Section):
            holds.append(Node(f'section "{here}"', here))
        elif isinstance(act, Task):
            holds.append(Node(f'task "{here}"', here, "async" if asynchronous else ""))
        elif isinstance(act, Enter):
            if not act.asynchronous:
                holds.append(Node("exit _GeneratorContextManager", here, "sync"))
            elif asynchronous:
                holds.append(Node("entered _AsyncGeneratorContextManager", here, "async"))
        elif isinstance(act, Child):
            holds.append(expect(act.body, here))
        elif isinstance(act, InScope):
            scope = Node('plugin "scope"', here, is_fiber=True)
            holds.append(scope)
            if not _perform(act.inner, here, scope.holds, asynchronous):
                return False
        elif isinstance(act, Undoable):
            awaits = act.asynchronous_body and asynchronous
            effect = Node(here, here)
            if _perform(act.inner, here, effect.holds, awaits):
                undo: Literal["sync", "async"] = "async" if act.asynchronous_undo else "sync"
                effect.holds.append(Node(f"disposer from {here}", f"{here}!", undo))
                holds.append(effect)
    return True


# The performance


class World:
    """Where the bodies write what they do."""

    def __init__(self, *, forgetful: bool = False) -> None:
        self.forgetful = forgetful  # keeps nothing of the plugins, so that they can be collected
        self.journal: list[str] = []
        self.effects: dict[str, Effect] = {}
        self.fibers: dict[str, Fiber] = {}

    def note_fiber(self, path: str, fiber: Fiber) -> None:
        """Remember a fiber for the rules."""
        if not self.forgetful:
            self.fibers[path] = fiber

    def take(self) -> list[str]:
        """Return the journal since the last call."""
        journal, self.journal = self.journal, []
        return journal

    def undo(self, name: str, *, asynchronous: bool, raises: bool = False) -> Callable[[], Any]:
        """Note that `name` is set up, and return its disposer."""
        self.journal.append(f"+{name}")

        def sync() -> None:
            self.journal.append(f"-{name}")
            if raises:
                raise Boom(name)

        async def slow() -> None:
            self.journal.append(f"-{name}")
            await checkpoint()
            await anyio.sleep(0.01)
            self.journal.append(f"={name}")
            if raises:
                raise Boom(name)

        return slow if asynchronous else sync

    async def task(self, name: str, noted: bool) -> None:
        """Run in the background until cancelled, and take a while to leave."""
        if noted:
            self.journal.append(f"+{name}")
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                if noted:
                    self.journal.append(f"-{name}")
                await checkpoint()
                if noted:
                    self.journal.append(f"={name}")

    @contextmanager
    def manager(self, name: str) -> Iterator[None]:
        undo = self.undo(name, asynchronous=False)
        try:
            yield
        finally:
            undo()

    @asynccontextmanager
    async def async_manager(self, name: str) -> AsyncIterator[None]:
        await checkpoint()
        undo = self.undo(name, asynchronous=True)
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await undo()


def plugin_of(body: Body, path: str, world: World) -> Any:
    """Return a plugin that performs `body`."""

    def steps(ctx: Context) -> Iterator[Awaitable[Any] | None]:
        world.note_fiber(path, ctx.fiber)
        return _steps(body.acts, ctx, path, world, body.form in ASYNC)

    def back() -> Any:
        if not body.hands_back:
            return None
        return world.undo(f"{path}.back", asynchronous=body.form in ASYNC)

    def sync(ctx: Context) -> Any:
        for _ in steps(ctx):
            pass
        return back()

    def generator(ctx: Context) -> Iterator[Any]:
        for _ in steps(ctx):
            yield None
        yield back()

    async def asynchronous(ctx: Context) -> Any:
        for step in steps(ctx):
            await (step or checkpoint())
        return back()

    async def async_generator(ctx: Context) -> AsyncIterator[Any]:
        for step in steps(ctx):
            await (step or checkpoint())
            yield None
        yield back()

    forms: dict[Form, Any] = {
        "sync": sync,
        "async": asynchronous,
        "generator": generator,
        "async generator": async_generator,
    }
    plugin = forms[body.form]
    plugin.name = path
    return plugin


async def _settled(awaitable: Awaitable[Any]) -> None:
    try:
        await awaitable
    except Boom:
        pass  # a child or an effect that fails is its own affair


def _steps(
    acts: tuple[Any, ...], ctx: Context, path: str, world: World, asynchronous: bool
) -> Iterator[Awaitable[Any] | None]:
    """Perform the acts; yield what an asynchronous body has to await, None for a checkpoint."""
    for index, act in enumerate(acts):
        here = f"{path}.{index}"
        if isinstance(act, Fail):
            raise Boom(here)
        if isinstance(act, Wait):
            if asynchronous:
                yield None
        elif isinstance(act, Listen):
            ctx.on("law", lambda: None)
        elif isinstance(act, Section):
            ctx.get("system_prompt").section(here, "text", order=1)
        elif isinstance(act, Task):
            ctx.start_soon(world.task, here, asynchronous, name=here)
            if asynchronous:
                yield anyio.wait_all_tasks_blocked()
        elif isinstance(act, Enter):
            if not act.asynchronous:
                for _ in _drive(ctx.enter(world.manager(here))):
                    raise AssertionError("entering a synchronous context manager waited")
            elif asynchronous:
                yield ctx.enter(world.async_manager(here))
        elif isinstance(act, Child):
            fiber = ctx.plugin(plugin_of(act.body, here, world))
            if asynchronous:
                yield _settled(fiber)
        elif isinstance(act, InScope):
            scope = create_scope(ctx, Key())
            world.note_fiber(here, scope.ctx.fiber)
            yield from _steps(act.inner, scope.ctx, here, world, asynchronous)
        elif isinstance(act, Undoable):
            awaited = _effect(act, ctx, here, world, asynchronous)
            if awaited is not None:
                yield _settled(awaited)


def _drive(coroutine: Any) -> Iterator[Any]:
    yield from coroutine.__await__()


class Key:
    """A scope key."""


def _effect(
    act: Undoable, ctx: Context, here: str, world: World, asynchronous: bool
) -> Effect | None:
    awaits = act.asynchronous_body and asynchronous

    def disposer() -> Callable[[], Any]:
        return world.undo(f"{here}!", asynchronous=act.asynchronous_undo, raises=act.undo_raises)

    def body(ctx: Context) -> Any:
        for _ in _steps(act.inner, ctx, here, world, False):
            pass
        return disposer()

    async def async_body(ctx: Context) -> Any:
        for step in _steps(act.inner, ctx, here, world, True):
            await (step or checkpoint())
        return disposer()

    try:
        effect = ctx.effect(async_body if awaits else body, label=here)
    except Boom:
        return None
    if not world.forgetful:
        world.effects[here] = effect
    return effect if awaits else None
