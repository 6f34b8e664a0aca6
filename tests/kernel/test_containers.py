"""Containers of dependency-injector: published as services, or declared by a plugin."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from dependency_injector import containers, providers

from harness_core import Context, FiberState, mount_container, override
from harness_core.errors import PluginError, ServiceConflictError

pytestmark = pytest.mark.asyncio


class Shop(containers.DeclarativeContainer):
    """An application's own container."""

    settings = providers.Configuration()
    size = providers.Object(3)
    boxes = providers.Factory(list)
    shelf = providers.Singleton(dict)


async def test_a_container_is_published_provider_by_provider() -> None:
    """Each is a service and a reversible effect; configuration is not published."""
    async with Context() as root:
        effect = mount_container(root, Shop(), only=["size", "shelf"])
        assert root.size == 3
        assert root.shelf is root.shelf
        (info,) = root.fiber.effects()
        assert [child.label for child in info.children] == ['service "size"', 'service "shelf"']
        await effect()
        assert root.get("size") is None
        assert root.get("shelf") is None
        assert root.fiber.effects() == []


async def test_without_only_everything_but_configuration() -> None:
    """`only=None` publishes all that can be a service."""
    async with Context() as root:
        mount_container(root, Shop())
        assert root.size == 3
        assert root.boxes == []
        assert root.get("settings") is None


async def test_only_names_what_is_published() -> None:
    """Nothing else appears."""
    async with Context() as root:
        mount_container(root, Shop(), only=["size"])
        assert root.get("shelf") is None


async def test_an_unknown_name_in_only_is_refused() -> None:
    """It lists what the container has; nothing is published."""
    async with Context() as root:
        with pytest.raises(PluginError, match="shelf") as caught:
            mount_container(root, Shop(), only=["size", "shelve"])
        assert "shelve" in str(caught.value)
        assert root.get("size") is None
        assert root.fiber.effects() == []


async def test_a_conflict_takes_back_what_was_published_before_it() -> None:
    """All or nothing (L5)."""
    async with Context() as root:
        root.provide("shelf", "mine")
        with pytest.raises(ServiceConflictError):
            mount_container(root, Shop(), only=["size", "shelf"])
        assert root.get("size") is None
        assert root.shelf == "mine"


async def test_a_container_with_a_resource_is_refused_whole() -> None:
    """Before any side effect, with the way out."""

    class Risky(containers.DeclarativeContainer):
        size = providers.Object(3)
        connection = providers.Resource(lambda: iter([1]))

    async with Context() as root:
        with pytest.raises(PluginError, match=r"ctx\.enter"):
            mount_container(root, Risky())
        assert root.get("size") is None


@attrs.frozen
class Settings:
    """A plugin's config."""

    greeting: str = "hello"


class Plugin:
    """Declares a container whose dependencies are what it injects."""

    name = "greeter"
    Config = Settings

    class Container(containers.DeclarativeContainer):
        """Built from a service and from the config."""

        config = providers.Configuration()
        clock: providers.Dependency[Any] = providers.Dependency()
        greeter = providers.Singleton(dict, time=clock, greeting=config.greeting)

    def __init__(self) -> None:
        self.built: list[Any] = []

    def apply(self, ctx: Context, config: Settings) -> None:
        """Use the container."""
        self.built.append(ctx.container.greeter())


async def test_dependencies_of_a_plugin_container_are_its_inject_list() -> None:
    """The plugin waits for them, and the container gets services and config."""
    plugin = Plugin()
    async with Context() as root:
        fiber = root.plugin(plugin, {"greeting": "hi"})
        assert fiber.waiting_for == ["clock"]
        root.provide("clock", "noon")
        assert plugin.built == [{"time": "noon", "greeting": "hi"}]


async def test_a_plugin_container_is_built_anew_for_each_life_and_dropped_at_teardown() -> None:
    """Singletons live as long as the plugin's run."""
    plugin = Plugin()
    async with Context() as root:
        effect = root.provide("clock", "one")
        fiber = root.plugin(plugin)
        await effect()
        with pytest.raises(AttributeError):
            _ = fiber.ctx.container
        root.provide("clock", "two")
        first, second = plugin.built
        assert first is not second
        assert (first["time"], second["time"]) == ("one", "two")


async def test_two_mounts_have_two_containers() -> None:
    """Nothing is shared between mounts of one plugin."""
    plugin = Plugin()
    async with Context() as root:
        root.provide("clock", "noon")
        root.plugin(plugin)
        root.plugin(plugin, {"greeting": "hi"})
        assert [built["greeting"] for built in plugin.built] == ["hello", "hi"]


async def test_a_dependency_sees_an_override_of_its_service() -> None:
    """The container reads the service at each call."""
    seen: list[Any] = []

    class Reader:
        class Container(containers.DeclarativeContainer):
            clock: providers.Dependency[Any] = providers.Dependency()
            now = providers.Callable(str, clock)

        def apply(self, ctx: Context) -> None:
            self.ctx = ctx

    reader = Reader()
    async with Context() as root:
        root.provide("clock", "real")
        root.plugin(reader)
        with override(root, "clock", "fake"):
            seen.append(reader.ctx.container.now())
        seen.append(reader.ctx.container.now())
        assert seen == ["fake", "real"]


async def test_a_dependency_with_a_default_is_optional() -> None:
    """It is not waited for, and used where it is there."""
    seen: list[Any] = []

    class Reader:
        class Container(containers.DeclarativeContainer):
            clock: providers.Dependency[Any] = providers.Dependency(
                default=providers.Object("none")
            )

        def apply(self, ctx: Context) -> None:
            seen.append(ctx.container.clock())

    async with Context() as root:
        assert root.plugin(Reader()).state is FiberState.ACTIVE
        root.provide("clock", "noon")
        root.plugin(Reader())
        assert seen == ["none", "noon"]


async def test_a_container_with_a_resource_fails_the_plugin_before_its_body() -> None:
    """Checked before any side effect."""
    ran: list[str] = []

    class Risky:
        class Container(containers.DeclarativeContainer):
            connection = providers.Resource(lambda: iter([1]))

        def apply(self, ctx: Context) -> None:
            ran.append("body")

    async with Context() as root:
        fiber = root.plugin(Risky())
        with pytest.raises(PluginError, match=r"ctx\.enter"):
            await fiber
        assert ran == []


async def test_an_undefined_dependency_of_a_nested_container_fails_before_the_body() -> None:
    """`check_dependencies` runs before any side effect, and says which one it is."""
    ran: list[str] = []

    class Inner(containers.DeclarativeContainer):
        missing: providers.Dependency[Any] = providers.Dependency()

    class Outer:
        class Container(containers.DeclarativeContainer):
            inner = providers.Container(Inner)

        def apply(self, ctx: Context) -> None:
            ran.append("body")

    async with Context() as root:
        fiber = root.plugin(Outer())
        with pytest.raises(PluginError, match="missing"):
            await fiber
        assert ran == []
        assert fiber.state is FiberState.FAILED


async def test_what_is_no_container_is_refused() -> None:
    """`Container` must be a declarative container."""

    class Wrong:
        Container = dict

        def apply(self, ctx: Context) -> None: ...

    async with Context() as root:
        with pytest.raises(PluginError, match="DeclarativeContainer"):
            root.plugin(Wrong())
        assert root.fiber.children == ()
