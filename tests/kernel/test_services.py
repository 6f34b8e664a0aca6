"""Services come and go; whoever injects them follows, in order and without a needless load."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import anyio.lowlevel
import pytest

from harness_core import Context, Fiber, FiberState, Service, inject
from harness_core.errors import PluginError, ServiceConflictError

pytestmark = pytest.mark.asyncio


class Database(Service, key="database"):
    """A service with nothing in it."""


def consumer(journal: list[str], *keys: str) -> Callable[[Context], object]:
    """Return a plugin that writes when it loads and unloads."""

    @inject(*keys)
    def plugin(ctx: Context) -> object:
        journal.append("load " + " ".join(str(ctx.get(key)) for key in keys))
        return lambda: journal.append("unload")

    return plugin


async def test_a_mounted_service_is_an_attribute_and_a_typed_item() -> None:
    """`ctx.database` and `ctx[Database]` are the same service."""
    async with Context() as root:
        root.plugin(Database)
        assert isinstance(root.database, Database)
        assert root[Database] == root.database
        assert root["database"] == root.database


async def test_provide_publishes_any_value_and_its_effect_takes_it_back() -> None:
    """`ctx.provide(key, value)`: the very object, until the effect is called."""
    value = object()
    async with Context() as root:
        effect = root.provide("clock", value)
        assert root.clock is value
        await effect()
        assert root.get("clock") is None
        assert root.fiber.effects() == []


async def test_provide_by_class() -> None:
    """A service class is a key too."""
    async with Context() as root:
        database = Database()
        root.provide(Database, database)
        assert root[Database] == database
        assert root[Database].ctx is root


@pytest.mark.parametrize("key", ["", "two words", "_hidden", "9lives"])
async def test_a_key_is_an_identifier(key: str) -> None:
    """What could not be an attribute is no key."""
    async with Context() as root:
        with pytest.raises(PluginError, match=r"identifier|no service key"):
            root.provide(key, 1)
        assert root.fiber.effects() == []


async def test_a_key_that_a_context_has_is_refused() -> None:
    """A service could never be read as `ctx.plugin`."""
    async with Context() as root:
        with pytest.raises(PluginError, match=r"Context\.plugin"):
            root.provide("plugin", 1)
        assert root.fiber.effects() == []


@pytest.mark.parametrize("first", ["consumer", "provider"])
async def test_mount_order_never_matters(first: str) -> None:
    """The body runs when all services are there, whoever was mounted first."""
    journal: list[str] = []
    async with Context() as root:
        plugins = [consumer(journal, "clock"), lambda ctx: ctx.provide("clock", "C") and None]
        for plugin in plugins if first == "consumer" else reversed(plugins):
            root.plugin(plugin)
        assert journal == ["load C"]


@pytest.mark.parametrize("order", ["ab", "ba"])
async def test_several_services_that_arrive_together_load_once(order: str) -> None:
    """A plugin that waits for several is loaded once, when the last is there."""
    journal: list[str] = []

    def provider(ctx: Context) -> None:
        for key in order:
            ctx.provide(key, key.upper())

    async with Context() as root:
        root.plugin(consumer(journal, "a", "b"))
        root.plugin(provider)
        await anyio.wait_all_tasks_blocked()
        assert journal == ["load A B"]


async def test_a_service_is_available_only_while_its_fiber_is_active() -> None:
    """What a loading fiber has provided is not there for others until it is ACTIVE."""
    journal: list[str] = []
    go = anyio.Event()

    async def provider(ctx: Context) -> None:
        ctx.provide("clock", "C")
        await go.wait()

    async with Context() as root:
        fiber = root.plugin(consumer(journal, "clock"))
        providing = root.plugin(provider)
        await anyio.wait_all_tasks_blocked()
        assert providing.state is FiberState.LOADING
        assert fiber.state is FiberState.PENDING
        assert root.get("clock") is None
        go.set()
        await fiber.wait_active()
        assert journal == ["load C"]


async def test_the_provider_itself_reads_what_it_has_provided() -> None:
    """Its own body may use the service before anybody else may."""
    seen: list[object] = []

    def provider(ctx: Context) -> None:
        ctx.provide("clock", "C")
        seen.append(ctx.clock)

    async with Context() as root:
        await root.plugin(provider)
        assert seen == ["C"]


async def test_loss_unloads_and_return_loads_again() -> None:
    """The body is unloaded when a service goes, and runs again when it returns."""
    journal: list[str] = []
    async with Context() as root:
        fiber = root.plugin(consumer(journal, "clock"))
        effect = root.provide("clock", "one")
        await effect()
        assert fiber.state is FiberState.PENDING
        assert fiber.waiting_for == ["clock"]
        root.provide("clock", "two")
        assert fiber.state is FiberState.ACTIVE
        assert journal == ["load one", "unload", "load two"]


async def test_replacement_by_another_provider_loads_again() -> None:
    """Disposing one provider while another waits for the key."""
    journal: list[str] = []

    def provider(ctx: Context, config: dict[str, str]) -> None:
        ctx.provide("clock", config["name"])

    async with Context() as root:
        first = root.plugin(provider, {"name": "one"})
        root.plugin(consumer(journal, "clock"))
        first.dispose()
        root.plugin(provider, {"name": "two"})
        assert journal == ["load one", "unload", "load two"]


async def test_a_restart_of_the_provider_restarts_its_consumers_only() -> None:
    """Those that do not inject it are not touched."""
    journal: list[str] = []
    other: list[str] = []
    async with Context() as root:
        provider = root.plugin(Database)
        root.plugin(consumer(journal, "database"))
        root.provide("clock", "C")
        root.plugin(consumer(other, "clock"))
        await provider.restart()
        await anyio.wait_all_tasks_blocked()
        assert [line.split()[0] for line in journal] == ["load", "unload", "load"]
        assert other == ["load C"]


@pytest.mark.parametrize("back", [True, False])
async def test_loss_and_return_during_a_load_settle_without_a_needless_reload(back: bool) -> None:
    """One run either way: it ends ACTIVE if the service is back, and PENDING if it is not."""
    journal: list[str] = []
    go = anyio.Event()

    @inject("switch")
    async def plugin(ctx: Context) -> object:
        journal.append("begins")
        await go.wait()
        journal.append("ends")
        return lambda: journal.append("unload")

    class Switch(Service, key="switch"):
        up = True

        def __init__(self, ctx: Context) -> None: ...

        def check(self) -> bool:
            return Switch.up

    async with Context() as root:
        await root.plugin(Switch)
        fiber = root.plugin(plugin)
        await anyio.wait_all_tasks_blocked()
        Switch.up = False
        assert root.get("switch") is None
        Switch.up = back
        go.set()
        await fiber
        await anyio.wait_all_tasks_blocked()
        if back:
            assert journal == ["begins", "ends"]
            assert fiber.state is FiberState.ACTIVE
        else:
            assert journal == ["begins", "ends", "unload"]
            assert fiber.waiting_for == ["switch"]


async def test_loss_during_a_load_ends_it_and_return_starts_it_again() -> None:
    """Withdrawing while the body runs cancels the load; a new provider starts exactly one more."""
    journal: list[str] = []

    @inject("clock")
    async def plugin(ctx: Context) -> None:
        clock = ctx.clock
        journal.append(f"begins {clock}")
        try:
            if clock == "one":
                await anyio.sleep_forever()
        finally:
            journal.append(f"ends {clock}")

    async with Context() as root:
        effect = root.provide("clock", "one")
        fiber = root.plugin(plugin)
        await anyio.wait_all_tasks_blocked()
        await effect()
        assert fiber.state is FiberState.PENDING
        root.provide("clock", "two")
        await fiber
        assert journal == ["begins one", "ends one", "begins two", "ends two"]
        assert fiber.state is FiberState.ACTIVE


async def test_check_decides_whether_a_service_counts_as_available() -> None:
    """A service whose `check()` says no is not there, neither for inject nor for get."""

    class Gate(Service, key="gate"):
        open = False

        def check(self) -> bool:
            return self.open

    async with Context() as root:
        provider = root.plugin(Gate)
        fiber = root.plugin(consumer([], "gate"))
        assert provider.state is FiberState.ACTIVE
        assert fiber.state is FiberState.PENDING
        assert fiber.waiting_for == ["gate"]
        assert root.get("gate") is None


async def test_one_realm_holds_one_service_per_key() -> None:
    """A second one is a `ServiceConflictError` that names key and holder; the first stays."""

    def holder(ctx: Context) -> None:
        ctx.provide("clock", 1)

    async with Context() as root:
        root.plugin(holder)
        before = root.fiber.effects()
        with pytest.raises(ServiceConflictError) as caught:
            root.provide("clock", 2)
        assert (caught.value.key, caught.value.holder) == ("clock", "root/holder")
        assert '"clock"' in str(caught.value)
        assert '"root/holder"' in str(caught.value)
        assert "isolate" in str(caught.value)
        assert root.fiber.effects() == before
        assert root.clock == 1


async def test_a_second_service_class_fails_before_it_is_built() -> None:
    """The conflict is found before any side effect of the second instance."""
    built: list[str] = []

    class Other(Service, key="database"):
        def __init__(self) -> None:
            built.append("other")

    async with Context() as root:
        root.plugin(Database)
        with pytest.raises(ServiceConflictError):
            await root.plugin(Other)
        assert built == []
        assert isinstance(root.database, Database)


async def test_withdrawing_unloads_consumers_first_and_waits_for_them() -> None:
    """What the provider set up before publishing outlives every user."""
    journal: list[str] = []

    def provider(ctx: Context) -> None:
        ctx.effect(lambda: lambda: journal.append("connection closed"))
        ctx.provide("clock", "C")
        ctx.effect(lambda: lambda: journal.append("later effect"))

    @inject("clock")
    def user(ctx: Context, config: dict[str, str]) -> object:
        async def stop() -> None:
            journal.append(f"{config['id']} still reads {ctx.clock}")
            await anyio.lowlevel.checkpoint()
            journal.append(f"{config['id']} gone")

        return stop

    async with Context() as root:
        providing = root.plugin(provider)
        users = [root.plugin(user, {"id": name}) for name in "ab"]
        await providing.dispose()
        assert journal == [
            "later effect",
            "b still reads C",
            "b gone",
            "a still reads C",
            "a gone",
            "connection closed",
        ]
        assert [fiber.state for fiber in users] == [FiberState.PENDING] * 2


async def test_a_consumer_may_be_a_child_of_its_provider() -> None:
    """The child goes once, with its parent; nobody waits for anybody forever."""
    journal: list[str] = []

    def provider(ctx: Context) -> None:
        ctx.provide("clock", "C")
        ctx.plugin(consumer(journal, "clock"))

    with anyio.fail_after(5):
        async with Context() as root:
            await root.plugin(provider).dispose()
            assert journal[0] == "load C" or journal == []
            assert journal.count("unload") == journal.count("load C")


async def test_a_chain_of_services_goes_from_the_far_end() -> None:
    """A provider that is itself a consumer: its users first, then it, then what it used."""
    journal: list[str] = []

    def link(name: str, needs: str | None) -> Callable[[Context], object]:
        def plugin(ctx: Context) -> object:
            ctx.effect(lambda: lambda: journal.append(name))
            ctx.provide(name, name)
            return None

        if needs:
            plugin.inject = [needs]  # type: ignore[attr-defined]
        return plugin

    async with Context() as root:
        root.plugin(link("c", "b"))
        root.plugin(link("b", "a"))
        first = root.plugin(link("a", None))
        assert [fiber.state for fiber in root.fiber.children] == [FiberState.ACTIVE] * 3
        await first.dispose()
        assert journal == ["c", "b", "a"]


async def test_a_thousand_dependent_plugins_do_not_recurse() -> None:
    """Transitions go through one queue."""
    async with Context() as root:

        def link(ctx: Context, config: dict[str, int]) -> None:
            ctx.inject([f"s{config['n']}"], publish(config["n"]))

        def publish(n: int) -> Callable[[Context], object]:
            return lambda ctx: ctx.provide(f"s{n + 1}", n) and None

        for n in reversed(range(1000)):
            root.plugin(link, {"n": n})
        effect = root.provide("s0", 0)
        assert root.get("s1000") == 999
        await effect()
        assert root.get("s1") is None


async def test_inject_by_name_class_list_or_mapping() -> None:
    """All ways to say it mean the same."""
    journal: list[str] = []

    def body(ctx: Context) -> None:
        journal.append(type(ctx.database).__name__)

    async with Context() as root:
        for wanted in (
            "database",
            Database,
            ["database"],
            [Database],
            {"database": {}},
            (Database,),
        ):
            root.inject(wanted, body)
        assert [fiber.waiting_for for fiber in root.fiber.children] == [["database"]] * 6
        root.plugin(Database)
        assert journal == ["Database"] * 6


@pytest.mark.parametrize("keys", [("database",), (Database,), (["database"],), ({Database: {}},)])
async def test_the_inject_decorator(keys: tuple[object, ...]) -> None:
    """`@inject(...)` takes keys, a list or a mapping, and returns the function itself."""

    def plugin(ctx: Context) -> None: ...

    assert inject(*keys)(plugin) is plugin
    async with Context() as root:
        assert root.plugin(plugin).waiting_for == ["database"]


@pytest.mark.parametrize("wrong", [{"required": ["database"]}, 5, [5], {"database": 5}], ids=repr)
async def test_a_wrong_inject_is_refused_with_what_would_have_been_right(wrong: object) -> None:
    """`inject={"required": [...]}` and the like: `PluginError`, nothing mounted."""

    def plugin(ctx: Context) -> None: ...

    plugin.inject = wrong  # type: ignore[attr-defined]
    async with Context() as root:
        with pytest.raises(PluginError, match=r"inject|key") as caught:
            root.plugin(plugin)
        with pytest.raises(PluginError):
            inject(wrong)
        if isinstance(wrong, dict):
            assert 'inject = ["database", "cache"]' in str(caught.value)
        assert root.fiber.children == ()


async def test_ctx_inject_mounts_a_child_that_follows_the_service() -> None:
    """`ctx.inject([...], body)` returns the fiber, which belongs to the caller's."""
    journal: list[str] = []
    async with Context() as root:
        outer: list[Fiber] = []

        def plugin(ctx: Context) -> None:
            outer.append(ctx.inject(["clock"], lambda inner: journal.append(inner.clock)))

        parent = root.plugin(plugin)
        assert parent.state is FiberState.ACTIVE
        root.provide("clock", "C")
        assert journal == ["C"]
        assert outer[0].parent is parent
        await parent.dispose()
        assert outer[0].state is FiberState.DISPOSED


async def test_setup_runs_like_a_body_before_the_service_is_published() -> None:
    """A service's `setup`, sync or async, may return a disposer and may fail."""
    journal: list[str] = []

    class Slow(Service, key="slow"):
        async def setup(self) -> object:
            await anyio.lowlevel.checkpoint()
            journal.append(f"published: {self.home.get('slow') is not None}")
            return lambda: journal.append("undo")

    async with Context() as root:
        fiber = root.plugin(Slow)
        assert root.get("slow") is None
        await fiber
        assert isinstance(root.slow, Slow)
        await fiber.dispose()
        assert journal == ["published: False", "undo"]


async def test_a_service_whose_setup_fails_is_not_published() -> None:
    """All or nothing."""

    class Broken(Service, key="broken"):
        def setup(self) -> None:
            raise LookupError("planned")

    async with Context() as root:
        with pytest.raises(LookupError):
            await root.plugin(Broken)
        assert root.get("broken") is None


async def test_service_change_tells_of_coming_and_going() -> None:
    """`service/change` carries the key."""
    keys: list[str] = []
    async with Context() as root:
        root.on("service/change", lambda key, fiber: keys.append(key))
        effect = root.provide("clock", 1)
        assert keys == ["clock"]
        await effect()
        assert keys == ["clock", "clock"]
