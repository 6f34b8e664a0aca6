"""Registering: by record or decorator, reversible, scope-aware, once per level."""

from __future__ import annotations

import functools
import gc
import weakref

import pytest
from harness_plugins import tools as tools_module
from harness_plugins.tools.api import DuplicateToolError, Tool, Tools

from harness_core import Context, Event, create_scope
from harness_core.errors import (
    DuplicateRegistrationError,
    InactiveFiberError,
    InvalidNameError,
    InvalidSchemaError,
    PluginError,
)
from harness_core.prompt import SystemPrompt
from harness_core.testing import assert_no_residue, check_plugin

from .tree import EMPTY, plugin_of, told, tool, tree

pytestmark = pytest.mark.asyncio


async def test_a_registration_is_an_effect_that_is_undone() -> None:
    """It has a label and a place, and calling it takes the tool back."""
    async with tree() as root, assert_no_residue(root):
        effect = root.tools.register(tool("bash"))
        (info,) = [one for one in root.fiber.effects() if one.label == 'tool "bash"']
        assert info.file == __file__
        assert await told(root) == ["bash"]
        assert root.tools.get("bash", None) is not None
        await effect()
        assert await told(root) == []
        assert root.tools.get("bash", None) is None


async def test_a_bare_decorator_gives_the_effect_and_one_with_brackets_the_function() -> None:
    """As everywhere: what registers something given returns the effect."""
    async with tree() as root:

        @root.tools.register
        def first() -> str:
            return "1"

        @root.tools.register(name="other", description="Said otherwise.")
        def second() -> str:
            return "2"

        assert await told(root) == ["first", "other"]
        assert second() == "2"
        assert root.tools.get("other", None).description == "Said otherwise."
        await first.dispose()
        assert await told(root) == ["other"]


async def test_a_tool_belongs_to_the_plugin_that_registered_it() -> None:
    """And goes with it."""
    async with tree() as root, assert_no_residue(root):
        fiber = await root.plugin(plugin_of("shell", tool("bash")))
        assert [effect.label for effect in fiber.effects()] == ['tool "bash"']
        await fiber.dispose()
        assert await told(root) == []


async def test_the_nearest_scopes_tool_wins_whole() -> None:
    """Description, schema and code are those of one tool."""
    async with tree() as root:
        root.tools.register(tool("search", "global"))
        outer = create_scope(root, "outer")
        create_scope(root, "inner", parent="outer")
        schema = {"type": "object", "properties": {"q": {"type": "string"}}}
        outer.ctx.tools.register(Tool("search", "Mine.", schema, run=lambda _: "outer"))
        for scope, text in ((None, "global"), ("outer", "outer"), ("inner", "outer")):
            assert (await root.tools.execute("search", {}, scope=scope)).text == text
            (shown,) = (await root.system_prompt.assemble(scope=scope)).tools
            assert shown == root.tools.schemas(scope)[0]
        assert root.tools.schemas("inner")[0].description == "Mine."
        await outer.dispose()
        assert (await root.tools.execute("search", {}, scope="inner")).text == "global"


async def test_rebinding_a_scope_changes_what_it_sees() -> None:
    """A view follows the chain as it is."""
    async with tree() as root:
        for name in ("a", "b"):
            create_scope(root, name).ctx.tools.register(tool(f"of_{name}"))
        child = create_scope(root, "child", parent="a")
        assert await told(root, "child") == ["of_a"]
        assert child.binding is not None
        child.binding.rebind("b")
        assert await told(root, "child") == ["of_b"]
        assert (await root.tools.execute("of_a", {}, scope="child")).status == "unknown"


@pytest.mark.parametrize("layer", ["global", "scope"])
async def test_duplicate_tools_at_one_level_are_refused_naming_both_plugins(layer: str) -> None:
    """Field report: two servers with the same tool name. The first one stays."""
    async with tree() as root:
        where = root if layer == "global" else create_scope(root, "agent").ctx
        await where.plugin(plugin_of("github", tool("create_issue", "github")))
        second = where.plugin(plugin_of("linear", tool("create_issue", "linear")))
        with pytest.raises(DuplicateToolError) as caught:
            await second
        error = caught.value
        assert isinstance(error, DuplicateRegistrationError)
        assert (error.name, error.holder, error.plugin) == ("create_issue", "github", "linear")
        assert error.layer == layer
        for word in ("create_issue", "github", "linear", "tree.py:"):
            assert word in str(error)
        scope = None if layer == "global" else "agent"
        assert (await root.tools.execute("create_issue", {}, scope=scope)).text == "github"


async def test_a_refused_registration_leaves_nothing() -> None:
    """All or nothing: also when a listener of the change vetoes."""
    async with tree() as root:
        scope = create_scope(root, "agent")

        class Veto(Exception):
            pass

        def refuse() -> None:
            raise Veto

        with assert_no_residue(root):
            listener = root.on(Event("system-prompt/change", vetoing=True), refuse)
            with pytest.raises(Veto):
                scope.ctx.tools.register(tool("bash"))
            listener()
        assert await told(root, "agent") == []
        scope.ctx.tools.register(tool("bash"))


async def test_registrations_survive_a_restart_of_the_service() -> None:
    """Those of the root and of plugins that do not inject it; consumers load again."""
    async with Context() as root:
        await root.plugin(SystemPrompt, include_harness_identity=False)
        fiber = await root.plugin(Tools)
        root.tools.register(tool("of_root"))
        scope = create_scope(root, "agent")
        scope.ctx.tools.register(tool("of_scope"))
        scope.ctx.tools.restrict(deny=["of_root"])
        await root.plugin(plugin_of("consumer", tool("of_consumer")))
        before = await root.system_prompt.assemble(scope="agent")
        await fiber.restart()
        after = await root.system_prompt.assemble(scope="agent")
        assert [one.name for one in before.tools] == ["of_consumer", "of_scope"]
        assert before == after
        assert (await root.tools.execute("of_scope", {}, scope="agent")).text == "ok"
        await fiber.dispose()
        assert (await root.system_prompt.assemble(scope="agent")).tools == []
        await root.plugin(Tools, timeout=1)
        assert await root.system_prompt.assemble(scope="agent") == before


async def test_registrations_survive_a_restart_of_the_prompt() -> None:
    """`tools` follows the service that it injects."""
    async with Context() as root:
        fiber = await root.plugin(SystemPrompt, include_harness_identity=False)
        await root.plugin(Tools)
        root.tools.register(tool("bash"))
        await fiber.restart()
        assert await told(root) == ["bash"]


async def test_nothing_is_registered_through_a_closed_door() -> None:
    """Law L4."""
    async with tree() as root:
        fiber = await root.plugin(plugin_of("shell"))
        tools = fiber.ctx.tools
        await fiber.dispose()
        with pytest.raises(InactiveFiberError):
            tools.register(tool("late"))
        assert await told(root) == []


async def test_nothing_of_a_plugin_that_is_gone_stays_reachable() -> None:
    """Not through views, nor through what the prompt remembers of the last assembly."""
    async with tree() as root:

        class Key:
            pass

        key = Key()
        scope = create_scope(root, key, parent="parent")
        child = Key()
        create_scope(root, child, parent=key)

        class Plugin:
            inject = ("tools",)

            def apply(self, ctx: Context) -> None:
                ctx.tools.register(Tool("mine", "Mine.", EMPTY, run=self.run))

            def run(self, _: object) -> str:
                return "mine"

        plugin = Plugin()
        reference = weakref.ref(plugin)
        fiber = await scope.ctx.plugin(plugin)
        assert await told(root, key) == await told(root, child) == ["mine"]
        assert (await root.tools.execute("mine", {}, scope=child)).text == "mine"
        await fiber.dispose()
        context = weakref.ref(fiber.ctx)
        del plugin, fiber
        gc.collect()
        assert reference() is None
        assert context() is None
        of_scope = weakref.ref(key)
        await scope.dispose()
        del scope, key
        gc.collect()
        assert of_scope() is not None  # the child is bound to it
        of_child = weakref.ref(child)
        for fiber in root.fiber.children:
            if fiber.name == "scope":
                await fiber.dispose()
        del child, fiber
        gc.collect()
        assert of_child() is None
        assert of_scope() is None


async def test_the_service_passes_the_check_of_the_testing_kit() -> None:
    """Loaded, disposed and reloaded under failure at every await."""
    await check_plugin(Tools, services={"system_prompt": SystemPrompt}, raises=True)


async def test_a_service_mounted_in_a_scope_is_one_for_that_scope() -> None:
    """What is shown and what can be called stay one thing there too."""
    async with Context() as root:
        await root.plugin(SystemPrompt, include_harness_identity=False)
        scope = create_scope(root, "agent")
        create_scope(root, "child", parent="agent")
        await scope.ctx.plugin(Tools)
        root.tools.register(tool("bash"))
        for key, names in ((None, []), ("agent", ["bash"]), ("child", ["bash"])):
            assert await told(root, key) == names
            assert list(root.tools.visible(key)) == names
            status = (await root.tools.execute("bash", {}, scope=key)).status
            assert status == ("ok" if names else "unknown")


@pytest.mark.parametrize("name", ["", "  ", 3, None, "<unlisted-tools>"])
async def test_a_name_that_cannot_be_used_is_refused(name: object) -> None:
    """Loudly, where the tool is made."""
    with pytest.raises(InvalidNameError):
        Tool(name, "", EMPTY, run=lambda _: None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"type": "strnig"}, "parameters.type"),
        ({"type": "string"}, "parameters.type"),
        ({"type": "object", "required": "a"}, "parameters.required"),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}}, "parameters.properties.a"),
        ({"type": "object", "properties": {"a": {"$ref": "http://x/y"}}}, "parameters.properties"),
        ({"type": "object", "x": object()}, "parameters.x"),
        ([], "parameters"),
        ({"$schema": 5}, "parameters.$schema"),
        ({"properties": {"a": {"$ref": "#nobody"}}}, "parameters.properties.a"),
        ({"properties": {"$id": {}, "a": {"$ref": "#/$defs/A"}}}, "parameters.properties.a"),
        (functools.reduce(lambda inner, _: {"items": inner}, range(5000), {}), "parameters"),
    ],
)
async def test_tool_schema_of_a_wrong_shape_is_a_loud_error(schema: object, place: str) -> None:
    """Field report: tools silently missing because their schema was rejected."""
    with pytest.raises(InvalidSchemaError) as caught:
        Tool("broken", "", schema, run=lambda _: None)  # type: ignore[arg-type]
    assert "broken" in str(caught.value)
    assert caught.value.path.startswith(place)


async def test_what_is_no_tool_is_refused() -> None:
    """With what would have been right."""
    async with tree() as root:
        with pytest.raises(PluginError, match="expected a Tool or a typed function"):
            root.tools.register(3)
        with pytest.raises(PluginError, match=r"attrs.evolve"):
            root.tools.register(tool("a"), timeout=3)
        with pytest.raises(PluginError, match="run must be callable"):
            Tool("a", "", EMPTY, run=3)  # type: ignore[arg-type]
        for options in ({"timeout": 0}, {"timeout": "3"}, {"max_output": 3}, {"max_output": True}):
            with pytest.raises(PluginError, match=next(iter(options))):
                tool("a", **options)


async def test_ten_thousand_scopes_cost_a_call_nothing() -> None:
    """A change in one scope leaves the views of the others alone."""
    async with tree() as root:
        root.tools.register(tool("shared"))
        a, b = create_scope(root, "a"), create_scope(root, "b")
        a.ctx.tools.register(tool("of_a"))
        b.ctx.tools.register(tool("of_b"))
        before = root.tools.layers.view("a")
        b.ctx.tools.register(tool("another"))
        assert root.tools.layers.view("a") is before
        root.tools.register(tool("global"))
        assert root.tools.layers.view("a") is not before


async def test_the_module_is_a_plugin_too() -> None:
    """As the manifest mounts it, by its short name."""
    async with Context() as root:
        await root.plugin(SystemPrompt, include_harness_identity=False)
        with assert_no_residue(root):
            fiber = await root.plugin(tools_module, {"timeout": 3})
            assert fiber.name == "tools"
            assert root.tools.config.timeout == 3
            await fiber.update({"max_output": 300})
            assert root.tools.config.max_output == 300
            await fiber.dispose()
