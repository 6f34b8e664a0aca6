"""The service `tools`: register, restrict, present, look up, execute."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar, overload
from weakref import WeakKeyDictionary

import attrs

from harness_core import Context, Effect, Service, scope_chain_of
from harness_core.errors import PluginError, SwapTimeoutError
from harness_core.prompt import AssembleContext, SystemPrompt, ToolProviderResult, ToolSchema

from .entries import PresentationEntry, ToolEntry
from .execute import Execution
from .function import function_tool
from .layers import ToolLayers
from .model import Tool, ToolCall, ToolResult, Visibility, check_limits
from .presentation import Mode, Presentation, read_mode
from .restriction import read_restriction
from .signals import Signal, run_until
from .view import View
from .visibility import explain

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


class _Told(NamedTuple):
    """What an assembly was told of code: the tools it can call, and how they are presented."""

    tools: dict[str, Tool]
    presentation: Presentation


class Tools(Service, key="tools"):
    """What the model may call, per scope: one answer for what it is told and what it can do."""

    inject = ("system_prompt",)
    Config = ToolsConfig
    provides = "tools"

    def __init__(self, ctx: Context, config: ToolsConfig) -> None:
        self.config = config
        self.layers = ctx.shared_state("tools", "layers", lambda: ToolLayers(ctx.root))
        self._told: WeakKeyDictionary[AssembleContext, _Told] = WeakKeyDictionary()
        """What code can call, as an assembly was told: the texts of the same one say so too."""
        ctx.effect(lambda: self._forget_layers, label="tool layers")
        self._prompt = prompt = ctx[SystemPrompt]
        prompt.tools(self.registered_tools)

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

    def replace(self, effect: Effect, tool: Tool) -> None:
        """Put a tool in the place of one that the caller has registered, under the same name.

        `effect` is what `register` returned, and stays the one that takes the tool back. No
        assembly misses the tool meanwhile; `system-prompt/change` fires once. Raises PluginError
        for another name, scope, or an effect that was undone; a veto leaves the tool as it was.
        """
        self.layers.replace(self.ctx, effect, tool)

    def restrict(
        self, allow: Iterable[str] | None = None, deny: Iterable[str] | None = None
    ) -> Effect:
        """Hide tools that the caller's scope inherits, by name; never the scope's own.

        `allow` leaves only those names, also of what is registered later; `deny` takes names away
        and lets everything else through. Several restrictions all hold, each until its effect is
        undone, and for the scopes below too. Raises RestrictionError outside a scope, for neither
        argument, and for names that nobody has registered.
        """
        known = self._view(self.ctx.tag).known
        return self.layers.add(read_restriction(allow, deny, self.ctx, known))

    def present_as(self, mode: Mode) -> Effect:
        """Present the tools of the caller's scope, and of those below: the nearest says how.

        "native": the model calls each tool itself; so it is where nobody says anything. "code": it
        is shown one tool that runs code, which calls the others; what it calls itself is refused.
        "both": it may do either. "code" and "both" need a tool with `runs_code`, as the plugin
        `code_mode` has one; without it, assembling raises PresentationError. One presentation
        for a level: raises DuplicatePresentationError, PluginError for another word, and
        InactiveFiberError.
        """
        return self.layers.add(PresentationEntry(read_mode(mode), self.ctx))

    # Visibility

    def _view(self, scope: object | None) -> View:
        """Return what a scope sees. Everything that asks what is visible asks here."""
        home = self.home.tag
        if home is not None and not any(key is home for key in scope_chain_of(scope)):
            return _NOTHING  # a service mounted in a scope is one for that scope
        return self.layers.view(scope)

    def registered_tools(self, context: AssembleContext) -> ToolProviderResult:
        """Return what an assembly shows: the provider that feeds the system prompt."""
        view = self._view(context.scope)
        if view.runner is not None:
            self._told[context] = _Told(view.code_tools, view.presentation(context.scope))
        return view.result(context.scope)

    def get(self, name: str, scope: object | None) -> Tool | None:
        """Return the tool that a call of `name` in a scope would run, or None."""
        view = self._view(scope)
        entry = view.direct.get(name) or view.inner.get(name)
        return entry.tool if entry is not None else None

    def visible(self, scope: object | None) -> dict[str, Tool]:
        """Return the tools that a scope can call, by name, in the order of the prompt.

        The model itself, or its code: `schemas` has what the model calls, `in_code` what code does.
        """
        return {name: entry.tool for name, entry in self._view(scope).visible.items()}

    def schemas(self, scope: object | None) -> tuple[ToolSchema, ...]:
        """Return the schemas the model is shown: the same objects while nothing changes.

        Raises PresentationError where code is to be run and nothing runs it.
        """
        view = self._view(scope)
        return view.shown if view.shown is not None else view.show(scope)

    def in_code(self, scope: AssembleContext | object | None) -> dict[str, Tool]:
        """Return the tools that code of a scope can call; none where no code is run.

        `scope` may be the context of an assembly: then what that very assembly was told.
        """
        if isinstance(scope, AssembleContext):
            told = self._told.get(scope)
            if told is not None:
                return dict(told.tools)
            scope = scope.scope
        return self._view(scope).code_tools

    def presentation(self, scope: AssembleContext | object | None) -> Presentation:
        """Return how the tools of a scope are presented, and who said so.

        `scope` may be the context of an assembly: then how that very assembly was told.
        """
        if isinstance(scope, AssembleContext):
            told = self._told.get(scope)
            if told is not None:
                return told.presentation
            scope = scope.scope
        return self._view(scope).presentation(scope)

    def known_names(self, scope: object | None) -> tuple[str, ...]:
        """Return the names that a scope could see without restrictions."""
        return self._view(scope).known

    def why_visible(self, name: str, scope: object | None) -> Visibility:
        """Explain why a scope can or cannot call a name: whose it is, and what hides it."""
        view = self._view(scope)
        layers = self.layers.on_chain(scope) if view is not _NOTHING else []
        return explain(name, scope, layers, view)

    # Executing

    async def execute(
        self,
        name: str,
        arguments: Mapping[str, Any] | object,
        *,
        scope: object | None,
        call_id: str | None = None,
        signal: Signal | None = None,
        via: ToolCall | None = None,
    ) -> ToolResult:
        """Call a tool as the model of `scope` does, and return what became of it.

        Nothing that a tool, or a listener, does is raised here: every failure is a result that
        the model can read. Only a cancellation of the caller goes through. `signal` cancels this
        call: an anyio Event that is set, or a cancel scope that is cancelled. A tool that runs
        code gives its own call as `via`: what code calls is `in_code`, not what the model does.
        """
        if self._prompt.is_swapping:  # as an assembly does: a tool under reload comes back
            try:
                await self._prompt.wait_for_swap()
            except SwapTimeoutError as error:
                return ToolResult(str(error), "failed", name=name, call_id=call_id)
        execution = Execution(
            self.home,
            self.layers,
            lambda: self._view(scope),
            ToolCall(name, arguments, scope, call_id, via=via),
            (self.config.timeout, self.config.max_output),
        )
        if signal is None:
            return await execution.run()
        return await run_until(signal, execution)


_NOTHING = View([])
