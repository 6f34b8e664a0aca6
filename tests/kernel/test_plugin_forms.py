"""Every form of plugin mounts, gets what it asks for, and says what it is called."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from harness_core import Context, Fiber, FiberState, Service, inject
from harness_core.errors import ConfigError, InactiveFiberError, PluginError

pytestmark = pytest.mark.asyncio


async def test_a_function_of_one_parameter_gets_a_context() -> None:
    """`plugin(ctx)`: the context is one of the mounted fiber."""
    seen: list[Context] = []

    def plugin(ctx: Context) -> None:
        seen.append(ctx)

    async with Context() as root:
        fiber = root.plugin(plugin)
        assert seen == [fiber.ctx]
        assert seen[0].fiber is fiber
        assert fiber.name == "plugin"
        assert fiber.state is FiberState.ACTIVE


async def test_a_function_of_two_parameters_gets_its_config() -> None:
    """`plugin(ctx, config)`: without a `Config`, the mapping as it was given."""
    seen: list[object] = []

    def plugin(ctx: Context, config: dict[str, int]) -> None:
        seen.append(config)

    async with Context() as root:
        root.plugin(plugin, {"size": 3})
        assert seen == [{"size": 3}]


async def test_keyword_options_are_the_config() -> None:
    """`config` and keyword options are alternatives."""
    seen: list[object] = []

    def plugin(ctx: Context, config: dict[str, int]) -> None:
        seen.append(config)

    async with Context() as root:
        root.plugin(plugin, size=3)
        assert seen == [{"size": 3}]
        with pytest.raises(PluginError, match="not both"):
            root.plugin(plugin, {"size": 3}, size=4)
        assert len(root.fiber.children) == 1


async def test_an_async_function_loads_in_the_background_and_awaiting_waits() -> None:
    """`plugin` returns its fiber at once; awaiting the fiber waits until it has settled."""
    journal: list[str] = []

    async def plugin(ctx: Context, config: dict[str, str]) -> None:
        journal.append(f"body {config['word']}")

    async with Context() as root:
        fiber = root.plugin(plugin, {"word": "hi"})
        assert fiber.state is FiberState.LOADING
        assert journal == []
        assert await fiber is fiber
        assert journal == ["body hi"]
        assert fiber.state is FiberState.ACTIVE


async def test_an_async_function_of_one_parameter() -> None:
    """`async def plugin(ctx)` is a form of its own."""
    seen: list[Context] = []

    async def plugin(ctx: Context) -> None:
        seen.append(ctx)

    async with Context() as root:
        fiber = await root.plugin(plugin)
        assert seen == [fiber.ctx]


async def test_a_synchronous_body_loads_before_plugin_returns() -> None:
    """A synchronous body whose services are there needs no turn of the loop."""
    async with Context() as root:
        fiber = root.plugin(lambda ctx: None)
        assert fiber.state is FiberState.ACTIVE


async def test_a_module_that_imports_the_decorator_and_uses_it_on_apply() -> None:
    """`from harness_core import inject` puts the decorator where a declaration would stand."""
    module = types.ModuleType("greeter")

    def apply(ctx: Context) -> None:
        assert ctx.greeting == "hello"

    module.inject = inject  # type: ignore[attr-defined]
    module.apply = inject("greeting")(apply)  # type: ignore[attr-defined]
    async with Context() as root:
        fiber = root.plugin(module)
        assert list(fiber.waiting_for) == ["greeting"]
        root.provide("greeting", "hello")
        await fiber
    module.apply = lambda ctx: None  # type: ignore[attr-defined]
    async with Context() as root:
        assert (await root.plugin(module)).state is FiberState.ACTIVE


async def test_a_module_with_apply() -> None:
    """A module's `apply` is its body, and its last name is its name."""
    module = types.ModuleType("somewhere.greeter")
    seen: list[object] = []

    def apply(ctx: Context, config: object) -> None:
        seen.append(config)

    module.apply = apply  # type: ignore[attr-defined]
    async with Context() as root:
        fiber = root.plugin(module, {"a": 1})
        assert fiber.name == "greeter"
        assert seen == [{"a": 1}]


async def test_an_object_with_apply() -> None:
    """An object with `apply` is a plugin, `apply` is a bound method."""

    class Plugin:
        def __init__(self) -> None:
            self.contexts: list[Context] = []

        def apply(self, ctx: Context) -> None:
            self.contexts.append(ctx)

    plugin = Plugin()
    async with Context() as root:
        fiber = root.plugin(plugin)
        assert plugin.contexts == [fiber.ctx]
        assert fiber.name == "Plugin"


async def test_an_object_with_async_apply() -> None:
    """`apply` may be asynchronous."""

    class Plugin:
        done = False

        async def apply(self, ctx: Context) -> None:
            self.done = True

    plugin = Plugin()
    async with Context() as root:
        await root.plugin(plugin)
        assert plugin.done


async def test_partials_and_callable_objects_count_as_functions() -> None:
    """What can be called like a plugin function is one."""
    seen: list[str] = []

    def plugin(word: str, ctx: Context) -> None:
        seen.append(word)

    class Plugin:
        def __call__(self, ctx: Context) -> None:
            seen.append("called")

    async with Context() as root:
        assert root.plugin(functools.partial(plugin, "partial")).name == "plugin"
        assert root.plugin(Plugin()).name == "Plugin"
        assert seen == ["partial", "called"]


async def test_a_service_class_publishes_itself() -> None:
    """Mounting a class deriving from `Service` publishes its instance under its key."""

    class Database(Service, key="database"):
        def __init__(self, ctx: Context, config: dict[str, int]) -> None:
            self.size = config["size"]

    async with Context() as root:
        fiber = root.plugin(Database, {"size": 4})
        assert fiber.name == "database"
        assert root.database.size == 4
        assert root[Database].size == 4


@pytest.mark.parametrize("arity", [0, 1, 2])
async def test_a_service_takes_nothing_a_context_or_context_and_config(arity: int) -> None:
    """`__init__` may ask for nothing, the context, or the context and the config."""
    seen: list[int] = []
    inits: list[Callable[..., None]] = [
        lambda self: seen.append(0),
        lambda self, ctx: seen.append(1),
        lambda self, ctx, config: seen.append(2),
    ]

    class Clock(Service, key="clock"):
        __init__ = inits[arity]

    async with Context() as root:
        await root.plugin(Clock)
        assert seen == [arity]


async def test_the_name_attribute_names_the_fiber() -> None:
    """`name` on any form is what the fiber is called."""

    def plugin(ctx: Context) -> None: ...

    plugin.name = "rules"  # type: ignore[attr-defined]
    async with Context() as root:
        fiber = root.plugin(plugin)
        assert fiber.name == "rules"
        assert fiber.path == "root/rules"


async def test_the_inject_attribute_makes_it_wait() -> None:
    """`inject` on an object works like on a function."""

    class Plugin:
        inject = ("clock",)
        loaded = 0

        def apply(self, ctx: Context) -> None:
            self.loaded += 1

    plugin = Plugin()
    async with Context() as root:
        fiber = root.plugin(plugin)
        assert fiber.waiting_for == ["clock"]
        root.provide("clock", object())
        assert plugin.loaded == 1


async def test_the_config_attribute_shapes_the_config() -> None:
    """`Config` on an object is what the body's config is an instance of."""

    @attrs.frozen
    class Settings:
        size: int = 2

    class Plugin:
        Config = Settings
        got: Any = None

        def apply(self, ctx: Context, config: Settings) -> None:
            self.got = config

    plugin = Plugin()
    async with Context() as root:
        fiber = root.plugin(plugin)
        assert plugin.got == Settings(2)
        assert fiber.config == Settings(2)


async def test_the_provides_attribute_is_accepted_on_any_form() -> None:
    """`provides` declares keys; one name or several."""

    def plugin(ctx: Context) -> None:
        ctx.provide("clock", 1)

    plugin.provides = "clock"  # type: ignore[attr-defined]
    async with Context() as root:
        assert root.plugin(plugin).state is FiberState.ACTIVE
        assert root.clock == 1


async def test_a_config_for_a_plugin_that_takes_none_is_refused() -> None:
    """A setting that nobody reads is a mistake, not a silent hole (L10)."""
    ran: list[str] = []

    def plugin(ctx: Context) -> None:
        ran.append("body")

    async with Context() as root:
        fiber = root.plugin(plugin, {"size": 3})
        with pytest.raises(ConfigError, match="takes no config"):
            await fiber
        assert ran == []


@pytest.mark.parametrize(
    "thing",
    [5, None, "rules", [], object(), dict, int],
    ids=["int", "None", "str", "list", "object", "class dict", "class int"],
)
async def test_what_is_no_plugin_is_refused_and_nothing_is_mounted(thing: object) -> None:
    """`PluginError` says what came and what was expected; the tree is as before."""
    async with Context() as root:
        before = root.fiber.effects()
        with pytest.raises(PluginError) as caught:
            root.plugin(thing)
        assert repr(thing) in str(caught.value)
        assert "function plugin(ctx)" in str(caught.value)
        assert "apply" in str(caught.value)
        assert "Service" in str(caught.value)
        assert isinstance(caught.value, TypeError)
        assert root.fiber.effects() == before
        assert root.fiber.children == ()


async def test_a_function_with_the_wrong_parameters_is_refused() -> None:
    """No parameter, three parameters, a keyword that nobody passes: none is a plugin."""

    def none() -> None: ...

    def three(ctx: Context, config: object, more: object) -> None: ...

    def keyword(ctx: Context, *, strict: bool) -> None: ...

    async with Context() as root:
        for plugin, said in ((none, "no arguments"), (three, "more than 2"), (keyword, "strict")):
            with pytest.raises(PluginError, match=said):
                root.plugin(plugin)
        assert root.fiber.children == ()


async def test_a_service_class_without_a_key_is_refused() -> None:
    """The message says how to give it one."""

    class Nameless(Service): ...

    async with Context() as root:
        with pytest.raises(PluginError, match='key="'):
            root.plugin(Nameless)


async def test_a_plugin_may_be_mounted_many_times() -> None:
    """Each mount is its own fiber, with its own config, path and end."""
    journal: list[str] = []

    def plugin(ctx: Context, config: dict[str, str]) -> Callable[[], None]:
        journal.append(f"+{config['id']}")
        return lambda: journal.append(f"-{config['id']}")

    async with Context() as root:
        first, second, third = (root.plugin(plugin, {"id": name}) for name in "abc")
        assert len({first, second, third}) == 3
        assert root.fiber.children == (first, second, third)
        assert [fiber.path for fiber in root.fiber.children] == [
            "root/plugin",
            "root/plugin#2",
            "root/plugin#3",
        ]
        await second.dispose()
        assert journal == ["+a", "+b", "+c", "-b"]
        assert first.state is third.state is FiberState.ACTIVE
        assert root.fiber.children == (first, third)
        assert third.path == "root/plugin#2"


async def test_the_path_of_one_of_many_siblings_costs_what_that_of_one_does() -> None:
    """They are counted once: the ends of ten thousand agents do not each ask ten thousand."""

    class Name(str):
        compared = 0

        def __eq__(self, other: object) -> bool:
            Name.compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    async with Context() as root:
        fibers = [root.plugin(lambda ctx: None) for _ in range(200)]
        for fiber in fibers:
            fiber.name = Name(fiber.name)
        assert fibers[0].path == "root/anonymous"
        Name.compared = 0
        assert fibers[-1].path == "root/anonymous#200"
        assert Name.compared <= 1, "a look-up, and no search"
        await fibers[0].dispose()
        assert fibers[-1].path == "root/anonymous#199"
        assert Name.compared <= 3, "and the count goes on from there"


async def test_a_plugin_mounts_plugins_of_its_own() -> None:
    """Children belong to the fiber of the context they were mounted through."""

    def inner(ctx: Context) -> None: ...

    def outer(ctx: Context) -> None:
        ctx.plugin(inner)

    async with Context() as root:
        fiber = root.plugin(outer)
        (child,) = fiber.children
        assert child.parent is fiber
        assert child.path == "root/outer/inner"
        await fiber.dispose()
        assert child.state is FiberState.DISPOSED


async def test_nothing_mounts_on_a_disposed_context() -> None:
    """L4: a child mounted after the end raises instead of staying alive."""
    ran: list[str] = []
    async with Context() as root:
        fiber = root.plugin(lambda ctx: None)
        await fiber.dispose()
        with pytest.raises(InactiveFiberError) as caught:
            fiber.ctx.plugin(lambda ctx: ran.append("body"))
        assert caught.value.fiber is fiber
        assert "disposed" in str(caught.value)
        assert ran == []


async def test_leaving_the_root_disposes_the_whole_tree() -> None:
    """`async with Context()` disposes it whole on exit, newest first, also after an error."""
    journal: list[str] = []

    def plugin(ctx: Context, config: dict[str, str]) -> Callable[[], None]:
        return lambda: journal.append(config["id"])

    class Planned(Exception): ...

    roots: list[Context] = []
    fibers: list[Fiber] = []

    async def live() -> None:
        async with Context() as root:
            roots.append(root)
            fibers.extend(root.plugin(plugin, {"id": name}) for name in "ab")
            raise Planned

    with pytest.raises(Planned):
        await live()
    assert journal == ["b", "a"]
    assert [fiber.state for fiber in fibers] == [FiberState.DISPOSED] * 2
    assert roots[0].fiber.state is FiberState.DISPOSED
    with pytest.raises(InactiveFiberError):
        roots[0].plugin(lambda ctx: None)


async def test_a_root_context_opens_once() -> None:
    """A tree is opened once, and only by a root."""
    async with Context() as root:
        with pytest.raises(PluginError):
            await root.__aenter__()
    with pytest.raises(PluginError):
        await root.__aenter__()
