"""Who may read a service, what the refusal says, and for whom a service acts."""

from __future__ import annotations

import pytest

from harness_core import Context, FiberState, Service, create_scope, inject, scope_of
from harness_core.errors import ServiceAccessError

pytestmark = pytest.mark.asyncio


class Registry(Service, key="registry"):
    """Registers a listener for whoever calls."""

    def __init__(self, ctx: Context) -> None:
        self.names: list[str] = []

    def add(self, name: str) -> None:
        """Register a name for the caller."""

        def body() -> object:
            self.names.append(name)
            return lambda: self.names.remove(name)

        self.ctx.effect(body, label=f"name {name}")

    def whose(self) -> str:
        """Return who calls."""
        return self.ctx.fiber.path


class Front(Service, key="front"):
    """Calls the registry on the caller's behalf."""

    inject = ("registry",)

    def add(self, name: str) -> None:
        """Pass it on."""
        self.ctx.registry.add(name)

    def whose(self) -> str:
        """Ask the registry who calls."""
        return str(self.ctx.registry.whose())


async def test_an_uninjected_read_says_which_inject_to_add() -> None:
    """`ServiceAccessError` is an `AttributeError` with key and fiber."""

    def plugin(ctx: Context) -> None:
        with pytest.raises(ServiceAccessError) as caught:
            _ = ctx.registry
        assert isinstance(caught.value, AttributeError)
        assert caught.value.key == "registry"
        assert caught.value.fiber is ctx.fiber
        assert 'inject = ["registry"]' in str(caught.value)
        assert "root/plugin" in str(caught.value)
        with pytest.raises(ServiceAccessError):
            _ = ctx[Registry]
        assert not hasattr(ctx, "registry")

    async with Context() as root:
        root.plugin(Registry)
        assert (await root.plugin(plugin)).state is FiberState.ACTIVE


async def test_a_misspelt_service_is_guessed() -> None:
    """A close name is suggested."""

    def plugin(ctx: Context) -> None:
        with pytest.raises(ServiceAccessError, match='did you mean "registry"'):
            _ = ctx.registri

    async with Context() as root:
        root.plugin(Registry)
        await root.plugin(plugin)


async def test_an_injected_read_after_the_provider_went_says_so() -> None:
    """Late code of a plugin, run when the service is gone."""
    contexts: list[Context] = []

    @inject("registry")
    def plugin(ctx: Context) -> None:
        contexts.append(ctx)

    async with Context() as root:
        provider = root.plugin(Registry)
        root.plugin(plugin)
        assert contexts[0].registry
        await provider.dispose()
        with pytest.raises(ServiceAccessError) as caught:
            _ = contexts[0].registry
        assert "gone" in str(caught.value)
        assert "inject =" not in str(caught.value)


async def test_the_root_reads_freely_and_says_when_nobody_provides() -> None:
    """No inject needed at the root; an absent service is still an error there."""
    async with Context() as root:
        root.plugin(Registry)
        assert root.registry
        with pytest.raises(ServiceAccessError, match="nobody provides"):
            _ = root.xyz_unheard_of


async def test_get_gives_an_optional_service_or_none() -> None:
    """`ctx.get(key)` needs no inject, and takes a name or a class."""

    def plugin(ctx: Context) -> None:
        assert ctx.get("registry") is None
        ctx.root.plugin(Registry)
        assert isinstance(ctx.get("registry"), Registry)
        assert ctx.get(Registry) == ctx.root.registry

    async with Context() as root:
        await root.plugin(plugin)


async def test_children_read_what_their_parent_injects() -> None:
    """What the fiber or one of its parents injected is readable below."""
    seen: list[str] = []

    def child(ctx: Context) -> None:
        seen.append(ctx.registry.whose())

    @inject("registry")
    def parent(ctx: Context) -> None:
        ctx.plugin(child)

    async with Context() as root:
        root.plugin(Registry)
        root.plugin(parent)
        assert seen == ["root/parent/child"]


async def test_a_service_registers_for_its_caller() -> None:
    """The caller's fiber owns the effect; it goes with the caller, not with the service."""

    @inject("registry")
    def plugin(ctx: Context) -> None:
        ctx.registry.add("mine")

    async with Context() as root:
        root.plugin(Registry)
        fiber = root.plugin(plugin)
        root.registry.add("the root's")
        assert [info.label for info in fiber.effects()] == ["name mine"]
        await fiber.dispose()
        assert root.registry.names == ["the root's"]


async def test_each_reader_sees_the_same_service_acting_for_itself() -> None:
    """Views share all attributes; `ctx` is the reader's, `home` the provider's."""
    views: list[Registry] = []

    @inject("registry")
    def plugin(ctx: Context) -> None:
        views.append(ctx[Registry])

    async with Context() as root:
        provider = root.plugin(Registry)
        first, second = root.plugin(plugin), root.plugin(plugin)
        assert [view.whose() for view in views] == [first.path, second.path]
        assert {view.home.fiber for view in views} == {provider}
        assert views[0] == views[1]
        assert hash(views[0]) == hash(views[1])
        views[0].names.append("x")
        views[0].extra = 1  # type: ignore[attr-defined]
        assert views[1].names == ["x"]
        assert views[1].extra == 1  # type: ignore[attr-defined]


async def test_a_service_that_calls_another_acts_for_the_same_caller() -> None:
    """The caller injects only the outer service; the inner one registers for the caller."""

    @inject("front")
    def plugin(ctx: Context) -> None:
        ctx.front.add("passed on")
        assert ctx.front.whose() == ctx.fiber.path

    async with Context() as root:
        root.plugin(Registry)
        root.plugin(Front)
        fiber = root.plugin(plugin)
        assert fiber.state is FiberState.ACTIVE
        assert [info.label for info in fiber.effects()] == ["name passed on"]
        await fiber.dispose()
        assert root.registry.names == []


async def test_acting_for_a_caller_gives_the_caller_no_more_access() -> None:
    """The leave of the service stays with the service."""

    @inject("front")
    def plugin(ctx: Context) -> None:
        ctx.front.add("passed on")
        with pytest.raises(ServiceAccessError):
            _ = ctx.registry

    async with Context() as root:
        root.plugin(Registry)
        root.plugin(Front)
        assert (await root.plugin(plugin)).state is FiberState.ACTIVE


async def test_the_scope_of_the_caller_reaches_through_a_service() -> None:
    """`self.ctx` carries the caller's scope, also over two services."""
    seen: list[object] = []

    class Tagged(Service, key="tagged"):
        def note(self) -> None:
            seen.append(scope_of(self.ctx))

    class Outer(Service, key="outer"):
        inject = ("tagged",)

        def note(self) -> None:
            self.ctx.tagged.note()

    async with Context() as root:
        root.plugin(Tagged)
        root.plugin(Outer)
        key = object()
        scope = create_scope(root, key)
        scope.ctx.tagged.note()
        scope.ctx.outer.note()
        root.outer.note()
        assert seen == [key, key, None]


async def test_a_registration_from_the_root_survives_a_restart_of_the_service() -> None:
    """Made from a context that does not inject the service, it is not the service's to take."""

    class Board(Service, key="board"):
        def __init__(self, ctx: Context) -> None:
            self.names: list[str] = ctx.shared_state("board", "names", list)

        def add(self, name: str) -> None:
            def body() -> object:
                self.names.append(name)
                return lambda: self.names.remove(name)

            self.ctx.effect(body)

    async with Context() as root:
        fiber = root.plugin(Board)
        root.board.add("root's")
        await fiber.restart()
        assert root.board.names == ["root's"]


async def test_a_plugin_that_a_service_mounts_for_its_caller_reads_only_what_it_injects() -> None:
    """What the service may read is no business of the plugin."""
    seen: list[object] = []

    class Hotel(Service, key="hotel"):
        inject = ("registry",)

        def take_in(self, plugin: object) -> None:
            assert self.ctx.registry is not None
            self.ctx.plugin(plugin)

    def guest(ctx: Context) -> None:
        with pytest.raises(ServiceAccessError):
            _ = ctx.registry
        seen.append(ctx.fiber.path)

    def caller(ctx: Context) -> None:
        ctx.hotel.take_in(guest)

    caller.inject = ["hotel"]  # type: ignore[attr-defined]
    async with Context() as root:
        await root.plugin(Registry)
        await root.plugin(Hotel)
        await root.plugin(caller)
        assert seen == ["root/caller/guest"]
