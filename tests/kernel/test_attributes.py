"""Mixins and accessors add attributes to contexts, as effects."""

from __future__ import annotations

import pytest

from harness_core import Context, Service
from harness_core.errors import PluginError, ServiceAccessError

pytestmark = pytest.mark.asyncio


async def test_an_accessor_is_read_on_every_context_and_goes_with_its_effect() -> None:
    """`getter(ctx)` gets the context that is read."""
    async with Context() as root:
        effect = root.accessor("where", lambda ctx: ctx.fiber.path)
        fiber = root.plugin(lambda ctx: None, None)
        assert root.where == "root"
        assert fiber.ctx.where == fiber.path
        await effect()
        with pytest.raises(AttributeError):
            _ = root.where


async def test_an_accessor_with_a_setter_is_written() -> None:
    """`setter(ctx, value)`; without one, assignment is refused."""
    values: dict[str, object] = {}
    async with Context() as root:
        root.accessor(
            "mood",
            lambda ctx: values[ctx.fiber.path],
            lambda ctx, value: values.update({ctx.fiber.path: value}),
        )
        root.accessor("fixed", lambda ctx: 1)
        root.mood = "good"
        assert (root.mood, values) == ("good", {"root": "good"})
        with pytest.raises(AttributeError):
            root.fixed = 2
        with pytest.raises(AttributeError, match="provide"):
            root.unheard_of = 2
        assert root.fixed == 1


@pytest.mark.parametrize("name", ["plugin", "two words", "taken"])
async def test_an_accessor_needs_a_free_identifier(name: str) -> None:
    """What a context has already, or another accessor, is not replaced."""
    async with Context() as root:
        root.accessor("taken", lambda ctx: 1)
        before = root.fiber.effects()
        with pytest.raises(PluginError, match=name):
            root.accessor(name, lambda ctx: 2)
        assert root.fiber.effects() == before
        assert root.taken == 1


class Greeter(Service, key="greeter"):
    """Greets its caller."""

    def __init__(self, ctx: Context) -> None: ...

    def greet(self) -> str:
        """Name the caller."""
        return f"hello {self.ctx.fiber.name}"


async def test_a_mixin_adds_attributes_of_a_service_acting_for_the_caller() -> None:
    """`ctx.mixin(key, names)`: listed, or mapped to other names; removed with its effect."""
    async with Context() as root:
        root.plugin(Greeter)
        listed = root.mixin("greeter", ["greet"])
        mapped = root.mixin(Greeter, {"salute": "greet"})
        fiber = root.plugin(lambda ctx: None)
        assert root.greet() == root.salute() == "hello root"
        assert fiber.ctx.greet() == f"hello {fiber.name}"
        await listed()
        with pytest.raises(AttributeError):
            _ = root.greet
        assert root.salute() == "hello root"
        await mapped()
        with pytest.raises(AttributeError):
            _ = root.salute


async def test_a_mixin_without_its_service_says_which_one_it_needs() -> None:
    """An attribute error, not a None."""
    async with Context() as root:
        root.mixin("greeter", ["greet"])
        with pytest.raises(ServiceAccessError, match='"greet" needs service "greeter"'):
            _ = root.greet


async def test_a_mixin_with_a_taken_name_adds_none() -> None:
    """All or nothing."""
    async with Context() as root:
        root.accessor("taken", lambda ctx: 1)
        with pytest.raises(PluginError):
            root.mixin("greeter", ["greet", "taken"])
        with pytest.raises(AttributeError):
            _ = root.greet
        assert root.taken == 1


async def test_accessors_and_mixins_go_with_their_plugin() -> None:
    """They are effects of the fiber that added them."""

    def plugin(ctx: Context) -> None:
        ctx.accessor("where", lambda inner: 1)
        ctx.mixin("greeter", ["greet"])

    async with Context() as root:
        await root.plugin(plugin).dispose()
        for name in ("where", "greet"):
            assert not hasattr(root, name)
