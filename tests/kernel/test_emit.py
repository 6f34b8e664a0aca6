"""`emit`: all in order, nobody stopped, coroutine listeners as tasks of their own fiber."""

from __future__ import annotations

import logging
from collections.abc import Callable

import anyio
import anyio.lowlevel
import pytest

from harness_core import Context, Event, Fiber, FiberState
from harness_core.errors import EventModeError, PluginError

pytestmark = pytest.mark.asyncio


async def test_emit_calls_all_in_order_and_returns_nothing() -> None:
    """Arguments are passed; results are dropped; a stopper stops nobody."""
    journal: list[str] = []
    async with Context() as root:
        for name in "abc":
            root.on("ping", lambda word, name=name: journal.append(f"{name} {word}") or True)
        assert root.emit("ping", "hi") is None  # type: ignore[func-returns-value]
        assert journal == ["a hi", "b hi", "c hi"]


async def test_nobody_has_to_listen() -> None:
    """An event that nobody hears is fine."""
    async with Context() as root:
        root.emit("unheard")
        assert await root.serial("unheard") is None
        assert root.bail("unheard") is None
        await root.parallel("unheard")


async def test_on_returns_an_effect_that_removes_the_listener() -> None:
    """And the listener goes with its fiber, too."""
    journal: list[str] = []
    async with Context() as root:
        effect = root.on("ping", lambda: journal.append("effect"))
        fiber = root.plugin(lambda ctx: ctx.on("ping", lambda: journal.append("plugin")) and None)
        await effect()
        root.emit("ping")
        await fiber.dispose()
        root.emit("ping")
        assert journal == ["plugin"]
        assert "ping" not in root.kernel.bus.listeners()


async def test_on_and_once_are_decorators() -> None:
    """They return the function itself."""
    journal: list[str] = []
    async with Context() as root:

        @root.on("ping")
        def always() -> None:
            journal.append("always")

        @root.once("ping", prepend=True)
        def at_first() -> None:
            journal.append("once")

        always()
        root.emit("ping")
        root.emit("ping")
        assert journal == ["always", "once", "always", "always"]


async def test_prepend_calls_a_listener_before_the_others() -> None:
    """The last prepended comes first."""
    journal: list[str] = []
    async with Context() as root:
        root.on("ping", lambda: journal.append("a"))
        root.on("ping", lambda: journal.append("b"), prepend=True)
        root.on("ping", lambda: journal.append("c"), prepend=True)
        root.on("ping", lambda: journal.append("d"))
        root.emit("ping")
        assert journal == ["c", "b", "a", "d"]


@pytest.mark.parametrize("listener", [5, "name", ()], ids=repr)
async def test_a_listener_is_a_callable(listener: object) -> None:
    """Anything else is refused and leaves nothing."""
    async with Context() as root:
        with pytest.raises(PluginError, match="callable"):
            root.on("ping", listener)  # type: ignore[call-overload]
        assert root.fiber.effects() == []
        assert "ping" not in root.kernel.bus.listeners()


async def test_a_falsy_listener_is_a_listener() -> None:
    """Truth is not asked."""
    journal: list[str] = []

    class Falsy:
        def __bool__(self) -> bool:
            return False

        def __call__(self) -> None:
            journal.append("called")

    async with Context() as root:
        effect = root.on("ping", Falsy())
        root.emit("ping")
        await effect()
        root.emit("ping")
        assert journal == ["called"]


async def test_the_same_function_may_listen_twice() -> None:
    """Each registration is its own, and goes alone."""
    journal: list[str] = []

    def listener() -> None:
        journal.append("x")

    async with Context() as root:
        first = root.on("ping", listener)
        root.on("ping", listener)
        root.emit("ping")
        await first()
        root.emit("ping")
        assert journal == ["x"] * 3


async def test_a_raising_listener_stops_neither_the_others_nor_the_emitter(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is logged and told with its owner, which goes on living."""
    journal: list[str] = []

    def fail() -> None:
        raise LookupError("planned")

    def plugin(ctx: Context) -> None:
        ctx.on("ping", fail)

    async with Context() as root:
        told: list[tuple[Fiber, BaseException]] = []
        root.on("fiber/error", lambda fiber, error: told.append((fiber, error)))
        fiber = root.plugin(plugin)
        root.on("ping", lambda: journal.append("after"))
        with caplog.at_level(logging.ERROR, "harness_core"):
            root.emit("ping")
        assert journal == ["after"]
        ((teller, error),) = told
        assert teller is fiber
        assert isinstance(error, LookupError)
        notes = "\n".join(error.__notes__)
        assert "fail" in notes
        assert 'plugin "plugin"' in notes
        assert '"ping"' in notes
        assert __file__ in notes
        assert fiber.state is FiberState.ACTIVE
        assert "root/plugin" in caplog.records[0].getMessage()


async def test_a_vetoing_event_lets_the_first_error_reach_the_emitter() -> None:
    """The others after it are not called."""
    journal: list[str] = []
    saved = Event("saving", vetoing=True)

    def refuse() -> None:
        raise LookupError("no")

    async with Context() as root:
        root.on(saved, lambda: journal.append("first"))
        root.on("saving", refuse)
        root.on(saved, lambda: journal.append("last"))
        with pytest.raises(LookupError, match="no") as caught:
            root.emit(saved)
        assert journal == ["first"]
        assert "refuse" in "\n".join(caught.value.__notes__)


async def test_coroutine_listeners_run_as_tasks_of_their_own_fiber() -> None:
    """`emit` does not wait; the task is an effect of the listener's fiber while it runs."""
    journal: list[str] = []
    go = anyio.Event()

    async def listener(word: str) -> None:
        journal.append(f"begin {word}")
        await go.wait()
        journal.append("end")

    async with Context() as root:
        fiber = root.plugin(lambda ctx: ctx.on("ping", listener) and None)
        root.emit("ping", "hi")
        assert [info.label for info in fiber.effects()][1:] == ['listener task "ping"']
        assert [info.label for info in root.fiber.effects()] == [f'plugin "{fiber.name}"']
        await anyio.wait_all_tasks_blocked()
        assert journal == ["begin hi"]
        go.set()
        await anyio.wait_all_tasks_blocked()
        assert journal == ["begin hi", "end"]
        assert len(fiber.effects()) == 1


async def test_disposing_the_listeners_fiber_ends_its_tasks() -> None:
    """The emitter's fiber has no part in it."""
    journal: list[str] = []

    async def listener() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            journal.append("cancelled")

    async with Context() as root:
        fiber = root.plugin(lambda ctx: ctx.on("ping", listener) and None)
        root.emit("ping")
        await anyio.wait_all_tasks_blocked()
        await fiber.dispose()
        assert journal == ["cancelled"]


async def test_a_failing_coroutine_listener_is_reported_and_its_fiber_lives() -> None:
    """A listener's error is no crash of the fiber, sync or async."""

    async def listener() -> None:
        raise LookupError("planned")

    async with Context() as root:
        told = anyio.Event()
        errors: list[str] = []

        def tell(fiber: Fiber, error: BaseException) -> None:
            errors.append(f"{fiber.name}: {error}")
            told.set()

        root.on("fiber/error", tell)

        def plugin(ctx: Context) -> None:
            ctx.on("ping", listener)

        fiber = root.plugin(plugin)
        root.emit("ping")
        await told.wait()
        assert errors == ["plugin: planned"]
        assert fiber.state is FiberState.ACTIVE


async def test_an_object_with_an_async_call_is_a_coroutine_listener() -> None:
    """What decides is the result, not the look of the listener."""
    done = anyio.Event()

    class Listener:
        async def __call__(self) -> None:
            done.set()

    async with Context() as root:
        root.on("ping", Listener())
        root.emit("ping")
        with anyio.fail_after(5):
            await done.wait()


async def test_the_listeners_of_a_dispatch_are_those_registered_when_it_began() -> None:
    """One registered meanwhile waits for the next."""
    journal: list[str] = []
    async with Context() as root:

        def first() -> None:
            journal.append("first")
            root.on("ping", lambda: journal.append("new"))

        root.on("ping", first)
        root.emit("ping")
        assert journal == ["first"]


async def test_a_listener_disposed_meanwhile_is_not_called() -> None:
    """Its turn has not come yet, and will not."""
    journal: list[str] = []
    async with Context() as root:
        root.on("ping", lambda: later())
        later = root.on("ping", lambda: journal.append("later"))
        root.on("ping", lambda: journal.append("last"))
        root.emit("ping")
        assert journal == ["last"]


async def test_once_is_called_once_also_when_its_call_emits_again() -> None:
    """It is gone before it is called."""
    journal: list[str] = []
    async with Context() as root:

        def listener() -> None:
            journal.append("once")
            root.emit("ping")

        effect = root.once("ping", listener)
        root.emit("ping")
        root.emit("ping")
        assert journal == ["once"]
        assert root.fiber.effects() == []
        await effect()  # undoing it after it has fired is harmless


@pytest.mark.parametrize("mode", ["parallel", "serial", "waterfall"])
async def test_once_is_called_once_under_overlapping_dispatches(mode: str) -> None:
    """However many dispatches are under way before it returns."""
    journal: list[str] = []
    go = anyio.Event()

    async def listener(*args: object) -> object:
        journal.append("once")
        await go.wait()
        return "result"

    async with Context() as root:
        dispatch: Callable[..., object] = getattr(root, mode)
        root.once("ping", listener)
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(dispatch, "ping")  # type: ignore[arg-type]
            await anyio.wait_all_tasks_blocked()
            go.set()
        assert journal == ["once"]


async def test_an_event_in_the_wrong_mode_is_an_error() -> None:
    """Dispatching an `Event` in another mode than it declares; by object and by name."""
    calls: list[str] = []
    ask = Event("ask", mode="serial")
    tell = Event("tell")
    around = Event("around", mode="waterfall")
    async with Context() as root:
        for event in (ask, tell, around):
            root.on(event, lambda *args: calls.append("called"))
        for event in (ask, around, "ask"):
            with pytest.raises(EventModeError, match=r"declared as .* and dispatched as emit"):
                root.emit(event)
        for event in (tell, around):
            with pytest.raises(EventModeError):
                await root.serial(event)
            with pytest.raises(EventModeError):
                root.bail(event)
            with pytest.raises(EventModeError):
                await root.parallel(event)
        with pytest.raises(EventModeError):
            await root.waterfall(tell)
        assert calls == []
        assert issubclass(EventModeError, TypeError)


async def test_one_name_declared_in_two_modes_is_an_error() -> None:
    """Two plugins that disagree learn of it at once."""
    async with Context() as root:
        root.on(Event("ask", mode="serial"), lambda: None)
        root.on(Event("ask", mode="serial"), lambda: None)
        with pytest.raises(EventModeError, match="declared twice"):
            root.on(Event("ask", mode="emit"), lambda: None)
        with pytest.raises(EventModeError, match="declared twice"):
            root.emit(Event("ask", mode="emit"))


async def test_only_emit_can_be_vetoing_and_modes_are_known() -> None:
    """A declaration that makes no sense is refused where it is made."""
    with pytest.raises(EventModeError):
        Event("ask", mode="serial", vetoing=True)
    with pytest.raises(ValueError, match="mode"):
        Event("ask", mode="shout")  # type: ignore[arg-type]


async def test_listeners_of_a_restarted_plugin_keep_their_place() -> None:
    """A restart does not push a plugin behind the others."""
    journal: list[str] = []

    def plugin(ctx: Context, config: dict[str, str]) -> None:
        ctx.on("ping", lambda: journal.append(config["id"]))

    async with Context() as root:
        fibers = [root.plugin(plugin, {"id": name}) for name in "abc"]
        await fibers[1].restart()
        root.emit("ping")
        assert journal == ["a", "b", "c"]


async def test_listeners_of_nested_plugins_keep_their_place_over_a_restart() -> None:
    """Of child plugins, of effects and of several listeners of one event."""
    journal: list[str] = []

    def child(ctx: Context, config: dict[str, str]) -> None:
        ctx.on("ping", lambda: journal.append(config["id"] + " child"))

    def plugin(ctx: Context, config: dict[str, str]) -> None:
        name = config["id"]
        ctx.on("ping", lambda: journal.append(name))
        ctx.plugin(child, {"id": name})
        ctx.effect(lambda: ctx.on("ping", lambda: journal.append(name + " effect")))
        ctx.on("ping", lambda: journal.append(name + " again"))

    async with Context() as root:
        fibers = [root.plugin(plugin, {"id": name}) for name in "ab"]
        root.emit("ping")
        before = journal[:]
        assert before == [
            f"{name}{what}" for name in "ab" for what in ("", " child", " effect", " again")
        ]
        for fiber in (fibers[0], fibers[1], fibers[0]):
            await fiber.restart()
            journal.clear()
            root.emit("ping")
            assert journal == before


async def test_a_new_instance_of_a_plugin_comes_last() -> None:
    """Only a restart keeps a place; what was disposed and mounted again is new."""
    journal: list[str] = []

    def plugin(ctx: Context, config: dict[str, str]) -> None:
        ctx.on("ping", lambda: journal.append(config["id"]))

    async with Context() as root:
        first = root.plugin(plugin, {"id": "a"})
        root.plugin(plugin, {"id": "b"})
        await first.dispose()
        root.plugin(plugin, {"id": "a"})
        root.emit("ping")
        assert journal == ["b", "a"]
