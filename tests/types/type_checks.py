"""What both type checkers must infer; run by test_types.py, never imported.

Services by class, typed events, decorators, fibers and effects: each with `assert_type`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, assert_type

from harness_core import (
    Context,
    Effect,
    EffectInfo,
    Event,
    Fiber,
    FiberState,
    Scope,
    ScopeBinding,
    ScopeTarget,
    Service,
    bind_scope_parent,
    create_scope,
    inject,
    scope_target,
)
from harness_core.prompt import (
    AssembleContext,
    AssembledContext,
    AssembledSection,
    AssemblyDiff,
    Explained,
    Origin,
    PromptAssembly,
    SystemPrompt,
    ToolProviderResult,
    ToolSchema,
    diff_assemblies,
    list_references,
    render_context_sections,
    render_context_snapshot,
    render_prompt,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator


class Database(Service, key="database"):
    """A service with a typed method."""

    def query(self, text: str) -> list[int]:
        """Return numbers."""
        return [len(text)]


async def services(ctx: Context) -> None:
    """`ctx[Service]` has the service's type."""
    assert_type(ctx[Database], Database)
    assert_type(ctx[Database].query("x"), list[int])
    assert_type(ctx[SystemPrompt], SystemPrompt)
    assert_type(ctx[Database].ctx, Context)


greeted: Event[[str], None] = Event("greeted")
asked: Event[[int], str | None] = Event("asked", mode="serial")


def events(ctx: Context) -> None:
    """Events keep the types of what they carry; listening gives an effect or a decorator."""
    assert_type(greeted, Event[[str], None])
    assert_type(ctx.on(greeted, print), Effect)

    @ctx.on("greeted")
    def listener(name: str) -> int:
        return len(name)

    assert_type(listener("x"), int)


@inject("database")
def plugin(ctx: Context) -> Callable[[], None]:
    """The decorator leaves a function's type alone."""
    return lambda: None


@inject([Database])
class Plugin:
    """And a class's."""

    size: int = 1


async def decorators(ctx: Context) -> None:
    """Decorated providers keep their types."""
    assert_type(plugin(ctx), Callable[[], None])
    assert_type(Plugin().size, int)
    sp = ctx[SystemPrompt]

    @sp.section("rules", order=10)
    def rules() -> str:
        return "x"

    @sp.variable("cwd")
    async def cwd(context: AssembleContext) -> str | None:
        return None

    assert_type(rules(), str)
    assert_type(await cwd(AssembleContext()), str | None)


async def fibers(ctx: Context) -> None:
    """Fibers, effects and scopes."""
    fiber = ctx.plugin(plugin, {"a": 1})
    assert_type(fiber, Fiber)
    assert_type(await fiber, Fiber)
    assert_type(fiber.state, FiberState)
    assert_type(fiber.waiting_for, list[str])
    assert_type(fiber.effects(), list[EffectInfo])
    assert_type(fiber.children, tuple[Fiber, ...])
    assert_type(await fiber.restart(), Fiber)
    effect = ctx.effect(lambda: None)
    assert_type(effect, Effect)
    assert_type(await effect, Effect)
    assert_type(ctx.provide("clock", 1), Effect)
    key = object()
    scope = create_scope(ctx, key)
    assert_type(scope, Scope)
    assert_type(scope.ctx, Context)
    assert_type(bind_scope_parent(object(), key), ScopeBinding)
    assert_type(scope_target(None, key), ScopeTarget)


async def managers(ctx: Context) -> None:
    """`enter` gives what the manager gives."""

    @contextmanager
    def held() -> Generator[int]:
        yield 1

    @asynccontextmanager
    async def held_async() -> AsyncGenerator[str]:
        yield "x"

    assert_type(await ctx.enter(held()), int)
    assert_type(await ctx.enter(held_async()), str)


async def prompt(sp: SystemPrompt) -> None:
    """Registrations are effects; assemblies are typed through and through."""
    assert_type(sp.section("s", "x", order=1, complete=True, literal=True), Effect)
    assert_type(sp.section("s", lambda: "x", order=1.5, requires_tools=["bash"]), Effect)
    assert_type(sp.section("s", lambda context: context.model, order=1), Effect)
    assert_type(sp.context("c", "x", order=1, optional=True, timeout=1), Effect)
    assert_type(sp.variable("v", "x"), Effect)
    assert_type(sp.variable("w", lambda: None), Effect)
    assert_type(sp.tools(lambda: [ToolSchema("t")]), Effect)
    assert_type(sp.tools(lambda: ToolProviderResult([{"name": "t"}], known_names=["t"])), Effect)
    assert_type(sp.suppress_runtime_context("c"), Effect)
    assembly = await sp.assemble(scope=object(), model="m")
    assert_type(assembly, PromptAssembly)
    assert_type(assembly.sections, list[AssembledSection])
    assert_type(assembly.contexts, list[AssembledContext])
    assert_type(assembly.tools, list[ToolSchema])
    assert_type(assembly.variables, dict[str, str | None])
    assert_type(assembly.sections[0].text, str)
    assert_type(assembly.sections[0].origin, Origin | None)
    assert_type(assembly.explain(), list[Explained])
    assert_type(render_prompt(assembly), str)
    assert_type(render_context_snapshot(assembly), str)
    assert_type(render_context_sections(assembly), list[tuple[str, str]])
    assert_type(list_references("x"), list[str])
    assert_type(diff_assemblies(assembly, assembly), AssemblyDiff)


async def root() -> None:
    """Opening a tree gives a context."""
    async with Context() as opened:
        assert_type(opened, Context)
        anything: Any = opened.database
        del anything
