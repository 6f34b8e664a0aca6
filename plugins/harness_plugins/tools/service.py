"""The service `tools`: register, restrict, look up, execute."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, overload

import attrs

from harness_core import Context, Effect, Service, scope_chain_of
from harness_core.errors import PluginError, SwapTimeoutError, closest
from harness_core.prompt import AssembleContext, SystemPrompt, ToolProviderResult, ToolSchema

from .execute import Execution
from .function import function_tool
from .layers import RestrictionEntry, ToolEntry, ToolLayers
from .model import RestrictionError, Tool, ToolResult, Visibility, check_limits
from .signals import Signal, run_until
from .view import View, explain

__all__ = ["Tools", "ToolsConfig"]

F = TypeVar("F", bound=Callable[..., Any])


@attrs.frozen
class ToolsConfig:
    """Limits for tools that have none of their own: seconds, and characters of output."""

    timeout: float | None = 300.0
    max_output: int | None = 50_000

    def __attrs_post_init__(self) -> None:
        try:
            check_limits("tools", self.timeout, self.max_output)
        except PluginError as error:
            raise ValueError(str(error)) from error


class Tools(Service, key="tools"):
    """What the model may call, per scope: one answer for what it is told and what it can do."""

    inject = ("system_prompt",)
    Config = ToolsConfig
    provides = "tools"

    def __init__(self, ctx: Context, config: ToolsConfig) -> None:
        self.config = config
        self.layers = ctx.shared_state("tools", "layers", lambda: ToolLayers(ctx.root))
        ctx.effect(lambda: self._forget_layers, label="tool layers")
        ctx[SystemPrompt].tools(self.registered_tools)

    def _forget_layers(self) -> None:
        if self.layers.is_empty():
            self.home.forget_state("tools", "layers")

    # Registering

    @overload
    def register(
        self,
        tool: Tool | Callable[..., Any],
        /,
        *,
        name: str | None = ...,
        description: str | None = ...,
        timeout: float | None = ...,
        parallel: bool = ...,
        max_output: int | None = ...,
    ) -> Effect: ...
    @overload
    def register(
        self,
        /,
        *,
        name: str | None = ...,
        description: str | None = ...,
        timeout: float | None = ...,
        parallel: bool = ...,
        max_output: int | None = ...,
    ) -> Callable[[F], F]: ...
    def register(
        self, tool: Tool | Callable[..., Any] | None = None, /, **options: Any
    ) -> Effect | Callable[[F], F]:
        """Register a tool for the caller's scope, owned by the caller's fiber; return the effect.

        A typed function becomes a tool by its name, signature and docstring; the options replace
        its name and description, and set the limits. `@tools.register` binds the name to the
        effect; `@tools.register()`, with or without options, leaves the function as it is. The
        nearest scope's tool of a name wins whole. Raises DuplicateToolError, PluginError,
        InvalidNameError, InvalidSchemaError or InactiveFiberError.
        """
        if tool is not None:
            return self._add(tool, options)

        def decorate(function: F) -> F:
            self._add(function, options)
            return function

        return decorate

    def _add(self, given: Tool | Callable[..., Any], options: dict[str, Any]) -> Effect:
        if isinstance(given, Tool):
            if options:
                raise PluginError(
                    f'tool "{given.name}" has its options: use attrs.evolve(tool, ...) to change '
                    f"{', '.join(options)}"
                )
            tool = given
        elif callable(given):
            names = sys._getframe(2).f_locals  # pyright: ignore[reportPrivateUsage]
            tool = function_tool(given, names=names, **options)
        else:
            raise PluginError(f"expected a Tool or a typed function, got {given!r}")
        return self.layers.add(ToolEntry(tool, self.ctx))

    def restrict(
        self, allow: Iterable[str] | None = None, deny: Iterable[str] | None = None
    ) -> Effect:
        """Hide tools that the caller's scope inherits, by name; never the scope's own.

        `allow` leaves only those names, also of what is registered later; `deny` takes names away
        and lets everything else through. Several restrictions all hold, each until its effect is
        undone, and for the scopes below too. Raises RestrictionError outside a scope, for neither
        argument, and for names that nobody has registered.
        """
        allowed, denied = _names("allow", allow), _names("deny", deny)
        ctx = self.ctx
        known = self._view(ctx.tag).known
        if ctx.tag is None:
            raise RestrictionError(
                "a restriction belongs to a scope: in the global layer it would bind everybody. "
                "Call it through a scope's context",
                known=known,
            )
        if allowed is None and denied is None:
            raise RestrictionError("restrict() takes allow=[...], deny=[...] or both", known=known)
        named = sorted({*(allowed or ()), *(denied or ())})
        unknown = tuple(name for name in named if name not in known)
        if unknown:
            guesses = [f'"{guess}"' for name in unknown if (guess := closest(name, known))]
            hint = f"; did you mean {', '.join(guesses)}?" if guesses else ""
            quoted = ", ".join(f'"{name}"' for name in unknown)
            raise RestrictionError(f"unknown tools {quoted}{hint}", unknown, known)
        return self.layers.add(RestrictionEntry(allowed, denied or frozenset(), ctx))

    # Visibility

    def _view(self, scope: object | None) -> View:
        """Return what a scope sees. Everything that asks what is visible asks here."""
        home = self.home.tag
        if home is not None and not any(key is home for key in scope_chain_of(scope)):
            return _NOTHING  # a service mounted in a scope is one for that scope
        return self.layers.view(scope)

    def registered_tools(self, context: AssembleContext) -> ToolProviderResult:
        """Return what an assembly shows: the provider that feeds the system prompt."""
        return self._view(context.scope).result

    def get(self, name: str, scope: object | None) -> Tool | None:
        """Return the tool that a call of `name` in a scope would run, or None."""
        entry = self._view(scope).visible.get(name)
        return entry.tool if entry is not None else None

    def visible(self, scope: object | None) -> dict[str, Tool]:
        """Return the tools that a scope can call, by name, in the order of the prompt."""
        return {name: entry.tool for name, entry in self._view(scope).visible.items()}

    def schemas(self, scope: object | None) -> tuple[ToolSchema, ...]:
        """Return the schemas of the visible tools: the same objects while nothing changes."""
        return tuple(self._view(scope).result.schemas)

    def known_names(self, scope: object | None) -> tuple[str, ...]:
        """Return the names that a scope could see without restrictions."""
        return self._view(scope).known

    def why_visible(self, name: str, scope: object | None) -> Visibility:
        """Explain why a scope can or cannot call a name: whose it is, and what hides it."""
        view = self._view(scope)
        return explain(name, scope, self.layers.on_chain(scope) if view is not _NOTHING else [])

    # Executing

    async def execute(
        self,
        name: str,
        arguments: Mapping[str, Any] | object,
        *,
        scope: object | None,
        call_id: str | None = None,
        signal: Signal | None = None,
    ) -> ToolResult:
        """Call a tool as the model of `scope` does, and return what became of it.

        Nothing that a tool, or a listener, does is raised here: every failure is a result that
        the model can read. Only a cancellation of the caller goes through. `signal` cancels this
        call: an anyio Event that is set, or a cancel scope that is cancelled.
        """
        gate = self.home.kernel.tree.gate
        if gate.swaps:  # as an assembly does: a tool that is being reloaded comes back
            try:
                await gate.wait_open()
            except SwapTimeoutError as error:
                return ToolResult(str(error), "failed", name=name, call_id=call_id)
        execution = Execution(
            self.home,
            self.layers,
            lambda: self._view(scope).visible.get(name),
            lambda: list(self._view(scope).visible),
            (name, arguments, scope, call_id),
            (self.config.timeout, self.config.max_output),
        )
        if signal is None:
            return await execution.run()
        return await run_until(signal, execution)


def _names(what: str, names: Iterable[str] | None) -> frozenset[str] | None:
    if names is None:
        return None
    if isinstance(names, str):
        raise PluginError(f"{what} is {names!r}; to name one tool, write [{names!r}]")
    found = frozenset(names)
    if not all(isinstance(name, str) for name in found):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise PluginError(f"{what} must hold tool names, got {list(found)!r}")
    return found


_NOTHING = View([])
