"""Known mistakes of earlier systems, section 13 of the contract: each happened to somebody once."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from harness_core import Context, Fiber, FiberState, create_scope, inject
from harness_core.errors import InactiveFiberError, PluginError
from harness_core.prompt import (
    PromptAssembly,
    SystemPrompt,
    ToolProviderResult,
    ToolSchema,
    render_prompt,
)
from tests.prompt.tree import ASSEMBLE, Key, Next, injecting, live, rendered

pytestmark = pytest.mark.asyncio


async def test_effects_registered_during_an_async_teardown_do_not_outlive_the_fiber() -> None:
    """They are refused, from the teardown itself and from code that is still running."""
    refused: list[str] = []

    def attempt(ctx: Context, who: str) -> None:
        try:
            ctx.on("ping", lambda: None)
        except InactiveFiberError:
            refused.append(who)

    async def work(ctx: Context) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            attempt(ctx, "task")

    def plugin(ctx: Context) -> object:
        ctx.start_soon(work, ctx)

        async def undo() -> None:
            await anyio.lowlevel.checkpoint()
            attempt(ctx, "teardown")

        return undo

    async with Context() as root:
        fiber = root.plugin(plugin)
        await anyio.wait_all_tasks_blocked()
        await fiber.dispose()
        assert refused == ["teardown", "task"]
        assert "ping" not in root.kernel.bus.listeners()
        assert fiber.effects() == []


async def test_no_child_is_mounted_on_a_disposed_context() -> None:
    """It raises, and nothing runs."""
    ran: list[str] = []
    async with Context() as root:
        fiber = root.plugin(lambda ctx: None)
        await fiber.dispose()
        with pytest.raises(InactiveFiberError):
            fiber.ctx.plugin(lambda ctx: ran.append("child"))
        with pytest.raises(InactiveFiberError):
            fiber.ctx.inject([], lambda ctx: ran.append("child"))
        assert ran == []
        assert fiber.children == ()


async def test_async_teardown_steps_do_not_overlap() -> None:
    """A connection is closed after its user has gone, not under it."""
    journal: list[str] = []

    def closing(name: str) -> Callable[[], object]:
        async def close() -> None:
            journal.append(f"{name} closes")
            for _ in range(3):
                await anyio.lowlevel.checkpoint()
            journal.append(f"{name} closed")

        return close

    def user(ctx: Context) -> object:
        return closing("user")

    def plugin(ctx: Context) -> None:
        ctx.effect(lambda: closing("connection"))
        ctx.plugin(user)
        ctx.effect(lambda: closing("statement"))

    async with Context() as root:
        await root.plugin(plugin).dispose()
    assert journal == [
        "statement closes",
        "statement closed",
        "user closes",
        "user closed",
        "connection closes",
        "connection closed",
    ]


async def test_the_old_instance_is_down_before_the_new_one_starts() -> None:
    """On restart, on update, and when a service is replaced."""
    journal: list[str] = []

    @inject("clock")
    def plugin(ctx: Context, config: dict[str, int]) -> object:
        journal.append("up")

        async def undo() -> None:
            await anyio.lowlevel.checkpoint()
            journal.append("down")

        return undo

    async with Context() as root:
        effect = root.provide("clock", 1)
        fiber = root.plugin(plugin, {"n": 1})
        await fiber.restart()
        await fiber.update({"n": 2})
        await effect()
        root.provide("clock", 2)
        await fiber.wait_active()
        assert journal == ["up", "down", "up", "down", "up", "down", "up"]


async def test_a_plugin_that_waits_for_several_services_loads_once() -> None:
    """Also when its body is asynchronous, and the services come from one provider."""
    loads: list[str] = []

    @inject("a", "b", "c")
    async def plugin(ctx: Context) -> None:
        loads.append("load")
        await anyio.lowlevel.checkpoint()

    async def provider(ctx: Context) -> None:
        for key in "abc":
            await anyio.lowlevel.checkpoint()
            ctx.provide(key, key)

    async with Context() as root:
        fiber = root.plugin(plugin)
        await root.plugin(provider)
        await fiber.wait_active()
        await anyio.wait_all_tasks_blocked()
        assert loads == ["load"]


async def test_a_new_config_whose_body_raises_leaves_no_hole() -> None:
    """The old one is back before any assembly could see a gap."""

    @injecting
    def plugin(ctx: Context, config: dict[str, str]) -> None:
        ctx.system_prompt.section("s", config["text"], order=1)
        if config["text"] == "bad":
            raise LookupError

    async with live() as (root, sp):
        fiber = root.plugin(plugin, {"text": "good"})
        with pytest.raises(LookupError):
            await fiber.update({"text": "bad"})
        assert await rendered(sp) == "good"
        assert fiber.state is FiberState.ACTIVE


async def test_sections_of_equal_order_do_not_swap_places() -> None:
    """Restart each in turn, in any order."""

    @injecting
    def plugin(ctx: Context, config: dict[str, str]) -> None:
        ctx.system_prompt.section(config["name"], config["name"], order=1)

    async with live() as (root, sp):
        fibers = [root.plugin(plugin, {"name": name}) for name in "abcd"]
        for index in (0, 2, 1, 3, 0, 0, 3):
            await fibers[index].restart()
            assert await rendered(sp) == "a\n\nb\n\nc\n\nd"


async def test_sections_of_the_root_do_not_vanish_when_the_service_restarts() -> None:
    """Nor those of a scope that the root minted."""
    async with Context() as root:
        fiber = root.plugin(SystemPrompt, include_harness_identity=False)
        key = Key()
        root.system_prompt.section("root", "root", order=1)
        create_scope(root, key).ctx.system_prompt.section("scope", "scope", order=2)
        for _ in range(2):
            await fiber.restart()
            text = render_prompt(await root.system_prompt.assemble(scope=key))
            assert text == "root\n\nscope"


async def test_a_listener_that_returns_nothing_does_not_turn_the_assembly_into_none() -> None:
    """It gets an error that names it."""

    async def forgetful(assembly: PromptAssembly, context: object, next: Next) -> None:
        await next()

    async with live() as (root, sp):
        root.on(ASSEMBLE, forgetful)
        with pytest.raises(PluginError, match="forgetful"):
            await sp.assemble()


async def test_an_async_provider_is_not_rendered_as_a_coroutine() -> None:
    """It is awaited."""

    async def provide() -> str:
        await anyio.lowlevel.checkpoint()
        return "text"

    async with live() as (_, sp):
        sp.section("s", provide, order=1)
        sp.section("v", "{{v}}", order=2)
        sp.variable("v", provide)
        assert await rendered(sp) == "text\n\ntext"


async def test_guidance_does_not_stay_where_its_tool_is_hidden() -> None:
    """In the one agent for which it is hidden, and only there."""
    async with live() as (root, sp):
        hides, shows = Key("hides"), Key("shows")
        for key in (hides, shows):
            create_scope(root, key)
        sp.tools(
            lambda context: ToolProviderResult(
                [] if context.scope is hides else [ToolSchema("bash")], known_names=["bash"]
            )
        )
        sp.section("tool:bash", "Use bash.", order=100, requires_tools=["bash"])
        assert await rendered(sp, scope=hides) == ""
        assert await rendered(sp, scope=shows) == "Use bash."


async def test_recalled_data_with_braces_does_not_kill_every_turn() -> None:
    """Marked as data, it goes through, turn after turn."""
    recalled = ["{{}}", "{{ x }}", "${{ a.b }}", "{{{", "}}}"]
    turn = [0]
    async with live() as (_, sp):
        sp.section("recall", lambda: recalled[turn[0]], order=1, literal=True)
        for turn[0] in range(len(recalled)):
            assert await rendered(sp) == recalled[turn[0]]


@pytest.mark.parametrize("order", ["ab", "ba"])
async def test_a_value_is_not_interpolated_again(order: str) -> None:
    """And the order of registration makes no difference."""
    async with live() as (_, sp):
        for name in order:
            sp.variable(name, {"a": "{{b}}", "b": "{{a}}"}[name])
        sp.section("s", "{{a}} {{b}}", order=1)
        assert await rendered(sp) == "{{b}} {{a}}"


async def test_tool_schemas_are_not_mutated_do_not_lose_anything_and_keep_their_order() -> None:
    """By whoever consumes them, over many turns."""
    parameters: dict[str, Any] = {"$defs": {"n": {}}, "properties": {"x": {"$ref": "#/$defs/n"}}}
    original = copy.deepcopy(parameters)
    names = ["zap", "ask", "mu"]
    async with live() as (_, sp):
        sp.tools(lambda: [ToolSchema(name, "", parameters) for name in names])
        seen = set()
        for _ in range(3):
            names.reverse()
            assembly = await sp.assemble()
            with pytest.raises(TypeError):
                assembly.tools[0].parameters["properties"]["x"] = {}
            assembly.tools.pop()
            seen.add(tuple(tool.name for tool in (await sp.assemble()).tools))
            assert all(tool.parameters == original for tool in assembly.tools)
        assert parameters == original
        assert seen == {("ask", "mu", "zap")}


@pytest.mark.parametrize("kind", ["section", "context", "variable", "tools", "listener", "body"])
async def test_when_one_contribution_fails_everybody_can_tell_whose_it_was(kind: str) -> None:
    """The error carries the plugin's name and what was being evaluated."""

    def fail(*args: object) -> Any:
        raise LookupError("planned")

    @injecting
    def culprit(ctx: Context) -> None:
        sp = ctx.system_prompt
        if kind in ("section", "context"):
            getattr(sp, kind)("part", fail, order=1)
        elif kind == "variable":
            sp.variable("part", fail)
        elif kind == "tools":
            sp.tools(fail)
        elif kind == "listener":
            ctx.on(ASSEMBLE, fail)
        else:
            fail()

    async def provoke(root: Context, fiber: Fiber) -> None:
        await fiber
        await root.system_prompt.assemble()

    async with live() as (root, _):
        for name in ("innocent", "also innocent"):
            root.system_prompt.section(name, lambda: "x", order=1)
        fiber = root.plugin(culprit)
        with pytest.raises(LookupError, match="planned") as caught:
            await provoke(root, fiber)
        notes = "\n".join(caught.value.__notes__)
        assert 'plugin "culprit"' in notes
        what = {"section": "section", "context": "context", "variable": "variable"}
        assert what.get(kind, {"listener": "listener", "body": "loading"}.get(kind, kind)) in notes
        assert "innocent" not in notes
