"""dependency-injector as bindings: every read resolves through the provider."""

from __future__ import annotations

from typing import Any

import pytest
from dependency_injector import providers

from harness_core import Context, FiberState, Service, inject, override
from harness_core.errors import PluginError

pytestmark = pytest.mark.asyncio


class Engine:
    """Something to be built."""


async def test_a_singleton_is_built_once_and_late() -> None:
    """Nothing is built before the first read; then everybody reads the one."""
    built: list[Engine] = []

    def build() -> Engine:
        built.append(Engine())
        return built[-1]

    async with Context() as root:
        root.provide("engine", providers.Singleton(build))
        assert built == []
        assert root.engine is root.engine is built[0]
        assert root.get("engine") is built[0]
        assert len(built) == 1


async def test_a_factory_builds_at_each_read() -> None:
    """Lifetimes come from the library."""
    async with Context() as root:
        root.provide("engine", providers.Factory(Engine))
        assert isinstance(root.engine, Engine)
        assert root.engine is not root.engine


async def test_an_object_gives_itself() -> None:
    """`Object` wraps a ready value."""
    value = Engine()
    async with Context() as root:
        root.provide("engine", providers.Object(value))
        assert root.engine is value


async def test_a_selector_chooses_at_each_read() -> None:
    """Choices come from the library too."""
    choice = ["small"]
    async with Context() as root:
        root.provide(
            "engine",
            providers.Selector(
                lambda: choice[0], small=providers.Object("s"), large=providers.Object("l")
            ),
        )
        assert root.engine == "s"
        choice[0] = "large"
        assert root.engine == "l"


async def test_consumers_read_through_the_provider() -> None:
    """An injecting plugin gets what the provider gives, not the provider."""
    seen: list[object] = []

    @inject("engine")
    def plugin(ctx: Context) -> None:
        seen.append(ctx.engine)

    async with Context() as root:
        root.plugin(plugin)
        root.provide("engine", providers.Object("value"))
        assert seen == ["value"]


async def generate() -> Any:
    """Be asynchronous."""
    return Engine()


def resource() -> Any:
    """Be a resource."""
    yield Engine()


@pytest.mark.parametrize(
    "provider",
    [providers.Resource(resource), providers.Coroutine(generate)],
    ids=["Resource", "Coroutine"],
)
async def test_a_provider_with_an_asynchronous_lifetime_is_refused(provider: Any) -> None:
    """The message says to use `ctx.enter`, and nothing is published."""
    async with Context() as root:
        with pytest.raises(PluginError, match=r"ctx\.enter") as caught:
            root.provide("engine", provider)
        assert type(provider).__name__ in str(caught.value)
        assert '"engine"' in str(caught.value)
        assert root.get("engine") is None
        assert root.fiber.effects() == []


async def test_a_provider_in_async_mode_is_refused() -> None:
    """Async mode can be switched on for any provider."""
    provider = providers.Factory(Engine)
    provider.enable_async_mode()
    async with Context() as root:
        with pytest.raises(PluginError, match=r"ctx\.enter"):
            root.provide("engine", provider)


async def test_a_provider_that_gives_an_awaitable_is_refused_at_the_read() -> None:
    """A coroutine never reaches a consumer."""
    async with Context() as root:
        root.provide("engine", providers.Callable(generate))
        with pytest.raises(PluginError, match=r"ctx\.enter"):
            _ = root.engine


class Database(Service, key="database"):
    """The real one."""

    def __init__(self, ctx: Context) -> None:
        self.kind = "real"


class Fake(Service, key="database"):
    """Stands in."""

    def __init__(self, kind: str = "fake") -> None:
        self.kind = kind


async def test_an_override_reaches_every_consumer_below_and_takes_itself_back() -> None:
    """Those that read before, read after; none is restarted."""
    contexts: list[Context] = []

    @inject("database")
    def plugin(ctx: Context) -> None:
        contexts.append(ctx)

    async with Context() as root:
        root.plugin(Database)
        root.plugin(plugin)
        root.plugin(lambda ctx: ctx.plugin(plugin) and None)
        assert [ctx.database.kind for ctx in contexts] == ["real", "real"]
        with override(root, "database", Fake()):
            assert [ctx.database.kind for ctx in contexts] == ["fake", "fake"]
            assert [ctx[Database].kind for ctx in contexts] == ["fake", "fake"]
            assert root.database.kind == "fake"
        assert [ctx.database.kind for ctx in contexts] == ["real", "real"]
        assert len(contexts) == 2


async def test_an_override_reaches_only_what_is_below_its_context() -> None:
    """Beside it, the real one is read."""
    contexts: list[Context] = []

    @inject("database")
    def plugin(ctx: Context) -> None:
        contexts.append(ctx)

    async with Context() as root:
        root.plugin(Database)
        inside, _outside = root.plugin(plugin), root.plugin(plugin)
        with override(inside.ctx, Database, Fake()):
            assert [ctx.database.kind for ctx in contexts] == ["fake", "real"]
        assert [ctx.database.kind for ctx in contexts] == ["real", "real"]


async def test_the_nearest_override_wins() -> None:
    """Overrides nest by context, not by time."""
    async with Context() as root:
        root.plugin(Database)
        inside = root.plugin(lambda ctx: None).ctx
        inside.inject(["database"], lambda ctx: None)
        child = inside.inject(["database"], lambda ctx: None).ctx
        with override(inside, "database", Fake("near")), override(root, "database", Fake("far")):
            assert child.database.kind == "near"
            assert root.database.kind == "far"


@pytest.mark.parametrize("first", [0, 1])
async def test_overrides_end_in_any_order(first: int) -> None:
    """Each takes back exactly itself."""
    async with Context() as root:
        root.plugin(Database)
        overrides = [override(root, "database", Fake(name)) for name in ("one", "two")]
        for one in overrides:
            one.__enter__()
        assert root.database.kind == "two"
        overrides[first].__exit__(None, None, None)
        assert root.database.kind == ("two", "one")[first]
        overrides[1 - first].__exit__(None, None, None)
        assert root.database.kind == "real"


async def test_an_override_ends_with_an_error_in_its_block_too() -> None:
    """A failing test leaves no fake behind."""
    async with Context() as root:
        root.plugin(Database)
        with pytest.raises(LookupError), override(root, "database", Fake()):
            raise LookupError
        assert root.database.kind == "real"


async def test_an_override_satisfies_consumers_without_any_provider() -> None:
    """They load when it begins, and unload when it ends."""
    async with Context() as root:
        fiber = root.inject(["database"], lambda ctx: None)
        assert fiber.state is FiberState.PENDING
        with override(root, "database", Fake()):
            assert fiber.state is FiberState.ACTIVE
        assert fiber.state is FiberState.PENDING


async def test_an_override_leaves_no_slot_behind() -> None:
    """L2: a key that nobody provides is unknown again once its override has ended."""
    async with Context() as root:
        with override(root, "engine", 1):
            assert root.engine == 1
        with pytest.raises(AttributeError, match="nobody provides"):
            _ = root.engine


async def test_an_override_may_be_a_plain_value_or_a_provider() -> None:
    """It is published like any service."""
    async with Context() as root:
        root.provide("engine", 1)
        with override(root, "engine", 2):
            assert root.engine == 2
        with override(root, "engine", providers.Factory(Engine)):
            assert root.engine is not root.engine
        assert root.engine == 1


async def test_an_overriding_service_acts_for_its_caller() -> None:
    """A fake that registers does so for the consumer."""

    class Registrar(Service, key="database"):
        def __init__(self) -> None: ...

        def whose(self) -> str:
            return self.ctx.fiber.path

    seen: list[str] = []

    @inject("database")
    def plugin(ctx: Context) -> None:
        seen.append(ctx.database.whose())

    async with Context() as root:
        with override(root, "database", Registrar()):
            fiber = root.plugin(plugin)
            assert seen == [fiber.path]
