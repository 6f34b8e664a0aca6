"""SystemPrompt: the service through which every plugin contributes, and which assembles.

It owns no text but its two built-in sections. What is registered through it belongs to the caller
and lives in layers that outlive a restart of the service. Contract: section 5.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, TypeAlias, TypeVar, overload

import attrs

from ..errors import ContributionError, DuplicateRegistrationError, ServiceAccessError
from ..kernel.context import Context
from ..kernel.effects import Effect, calling_site, this_site
from ..kernel.listeners import Event
from ..kernel.service import Service
from ..scopes.layers import NamedEntries
from .assemble import run_assembly
from .entries import Entry, text_entry, variable_entry
from .model import AssembleContext, PromptAssembly
from .plan import PromptLayers
from .tool import ToolProviderResult
from .tool_order import check_tool_order

__all__ = ["CHANGE", "PERSONA_ORDER", "PERSONA_SECTION", "SystemPrompt", "SystemPromptConfig"]

PERSONA_SECTION = "deployment:persona"
PERSONA_ORDER = 0
IDENTITY_SECTION = "harness:identity"
IDENTITY_ORDER = -100
IDENTITY = "You are an AI agent powered by DeepSeek Harness."

CHANGE: Final[Event[[], None]] = Event("system-prompt/change", vetoing=True)
"""Fired once for each registration and each removal. The first error undoes the registration."""

TextResult: TypeAlias = str | Awaitable[str | None] | None
TextProvider: TypeAlias = Callable[[AssembleContext], TextResult] | Callable[[], TextResult]
ToolsResult: TypeAlias = ToolProviderResult | Iterable[Any]
ToolsProvider: TypeAlias = (
    Callable[[AssembleContext], ToolsResult | Awaitable[ToolsResult]]
    | Callable[[], ToolsResult | Awaitable[ToolsResult]]
)
F = TypeVar("F", bound=Callable[..., Any])


class _Missing:
    pass


_MISSING = _Missing()


@attrs.frozen
class SystemPromptConfig:
    """The settings of `SystemPrompt`; section 5."""

    include_harness_identity: bool = True
    include_runtime_context: bool = True
    persona: str = ""
    tool_order: list[str] | None = None


class SystemPrompt(Service, key="system_prompt"):
    """The registry and assembler of the model's input. Everybody contributes; nobody owns it."""

    Config = SystemPromptConfig
    provides = "system_prompt"

    def __init__(self, ctx: Context, config: SystemPromptConfig) -> None:
        check_tool_order(config.tool_order)
        self.config = config
        self.is_gone = False
        self.layers = ctx.shared_state("system_prompt", "layers", lambda: _new_layers(ctx))
        self.layers.when_empty = None
        ctx.fiber.register("prompt layers", self._leave_layers)
        if config.include_harness_identity:
            self._built_in(IDENTITY_SECTION, IDENTITY, IDENTITY_ORDER)
        self._built_in(PERSONA_SECTION, config.persona, PERSONA_ORDER)
        if not config.include_runtime_context:
            self.suppress_runtime_context()

    def _leave_layers(self) -> None:
        self.layers.when_empty = self._forget_layers
        if self.layers.is_empty():
            self._forget_layers()

    def _forget_layers(self) -> None:
        self.is_gone = True
        self.home.forget_state("system_prompt", "layers")

    # Contributing

    @overload
    def section(
        self,
        name: str,
        text: str | TextProvider,
        *,
        order: float,
        complete: bool = ...,
        literal: bool = ...,
        requires_tools: Iterable[str] = ...,
        optional: bool = ...,
        timeout: float | None = ...,
    ) -> Effect: ...
    @overload
    def section(
        self,
        name: str,
        *,
        order: float,
        complete: bool = ...,
        literal: bool = ...,
        requires_tools: Iterable[str] = ...,
        optional: bool = ...,
        timeout: float | None = ...,
    ) -> Callable[[F], F]: ...
    def section(
        self,
        name: str,
        text: Any = _MISSING,
        *,
        order: float,
        complete: bool = False,
        literal: bool = False,
        requires_tools: Iterable[str] = (),
        optional: bool = False,
        timeout: float | None = None,
    ) -> Any:
        """Contribute an ordered block of the system prompt; without a text, decorate a provider.

        `order`: below 0 before the persona, 100 to 199 tool guidance. `complete`: this section is
        the whole system prompt. `literal`: the text is data and never scanned for references.
        `requires_tools`: left out of an assembly in which one of these tools is not visible.
        `optional`: left out, and reported, if its provider fails or takes longer than `timeout`
        seconds. Raises DuplicateRegistrationError, InvalidNameError, InvalidOrderError,
        ContributionError or InactiveFiberError. (Section 5.)
        """
        options = (order, complete, literal, requires_tools, optional, timeout)
        if text is _MISSING:
            return self._decorator("section", name, options)
        return self._add(text_entry("section", name, text, *options))

    @overload
    def context(
        self,
        name: str,
        text: str | TextProvider,
        *,
        order: float,
        literal: bool = ...,
        requires_tools: Iterable[str] = ...,
        optional: bool = ...,
        timeout: float | None = ...,
    ) -> Effect: ...
    @overload
    def context(
        self,
        name: str,
        *,
        order: float,
        literal: bool = ...,
        requires_tools: Iterable[str] = ...,
        optional: bool = ...,
        timeout: float | None = ...,
    ) -> Callable[[F], F]: ...
    def context(
        self,
        name: str,
        text: Any = _MISSING,
        *,
        order: float,
        literal: bool = False,
        requires_tools: Iterable[str] = (),
        optional: bool = False,
        timeout: float | None = None,
    ) -> Any:
        """Contribute an ordered block of the runtime-context snapshot, which is user-role text.

        The arguments and errors are those of `section`.
        """
        options = (order, False, literal, requires_tools, optional, timeout)
        if text is _MISSING:
            return self._decorator("context", name, options)
        return self._add(text_entry("context", name, text, *options))

    def _decorator(self, kind: str, name: str, options: tuple[Any, ...]) -> Callable[[F], F]:
        def decorate(provider: F) -> F:
            self._add(text_entry(kind, name, provider, *options))
            return provider

        return decorate

    @overload
    def variable(self, name: str, value: str | TextProvider | None) -> Effect: ...
    @overload
    def variable(self, name: str) -> Callable[[F], F]: ...
    def variable(self, name: str, value: Any = _MISSING) -> Any:
        """Give `{{name}}` a value: a str, or a provider of one; without it, decorate a provider.

        A provider that returns None has no value for this assembly. Raises InvalidNameError,
        DuplicateRegistrationError, ContributionError or InactiveFiberError.
        """
        if value is not _MISSING:
            return self._add(variable_entry(name, value))

        def decorate(provider: F) -> F:
            self._add(variable_entry(name, provider))
            return provider

        return decorate

    def tools(self, provider: ToolsProvider) -> Effect:
        """Contribute tool schemas: `provider` is called at each assembly.

        It returns schemas or a ToolProviderResult. Give the same `ToolSchema` objects each time
        while nothing changes: a mapping is read anew at each assembly. Providers do not shadow;
        all on the chain contribute. Works as a decorator too, and then returns the effect.
        """
        if not callable(provider):
            raise ContributionError(
                f"tools() takes a provider, a callable that returns schemas, got {provider!r}"
            )
        return self._add(Entry("tools", getattr(provider, "__name__", ""), provider))

    def suppress_runtime_context(self, *names: str) -> Effect:
        """Leave out runtime context in this scope: the named ones, or all of it.

        Providers of what is left out are not called, and what listeners add is dropped.
        """
        entry = Entry("suppressor", ", ".join(names), None)
        entry.requires_tools = names
        return self._add(entry)

    def pair(self, section: str, tool: str) -> Effect:
        """Make a section and a tool one: an assembly in this scope has both, or neither.

        The section is to be the caller's own. If a listener takes one of them away, or a complete
        section stands in the section's place, the other goes too, with whatever requires a tool
        that could be called through it; `explain()` says "unpaired".
        """
        entry = Entry("pair", section, None)
        entry.requires_tools = (tool,)
        return self._add(entry)

    def final_check(self, check: Callable[[PromptAssembly], object]) -> Effect:
        """Call `check(assembly)` on what each assembly in this scope is about to return.

        It comes after every listener and after restoration, and may only raise.
        """
        return self._add(Entry("check", getattr(check, "__name__", ""), check))

    def _built_in(self, name: str, text: str, order: float) -> None:
        entry = text_entry("section", name, text, order, False, False, (), False, None)
        self.layers.add(self._caller, entry, this_site())

    def _add(self, entry: Entry) -> Effect:
        if self.is_gone:
            raise ServiceAccessError(
                "system_prompt",
                self._caller.fiber,
                f'{entry.label} comes too late: service "system_prompt" is gone. Read it from the '
                "context each time, rather than keep it.",
            )
        # Above this call stand a method of this class and its caller.
        return self.layers.add(self._caller, entry, calling_site(3))

    # Assembling

    @property
    def is_swapping(self) -> bool:
        """Whether plugins are between two versions at the moment, so that parts may be missing."""
        return bool(self._caller.kernel.tree.gate.swaps)

    async def wait_for_swap(self) -> None:
        """Wait, as an assembly does, until no plugin is between two versions (law L8).

        Raises SwapTimeoutError.
        """
        await self._caller.kernel.tree.gate.wait_open()

    async def assemble(
        self,
        context: AssembleContext | None = None,
        *,
        scope: object | None = None,
        signal: Any = None,
        **fields: Any,
    ) -> PromptAssembly:
        """Build the model's input for a scope; without one, for the global layer alone.

        `signal` is an anyio cancel scope, looked at between phases; `fields` become attributes of
        the context that providers and listeners get. Raises what a provider or listener raised,
        with a note that names it; MultipleCompleteSectionsError, ToolOrderError,
        ContributionError, AssemblyCancelled, InvariantError, SwapTimeoutError. (Section 5.)
        """
        self._caller.kernel.tree.check_thread()
        if self.is_swapping:
            await self.wait_for_swap()
        if context is not None:
            fields = {**context.fields, **fields}
            scope = context.scope if scope is None else scope
            signal = context.signal if signal is None else signal
        own = AssembleContext(scope, signal, **fields)
        try:
            return await run_assembly(
                self.layers.plan_for(scope), own, self._caller.kernel.bus, self.config.tool_order
            )
        finally:
            own.signal = None


def _new_layers(ctx: Context) -> PromptLayers:
    return PromptLayers(_new_layer, ctx.kernel.bus.vetoing_emitter(CHANGE))


def _new_layer(key: object | None) -> NamedEntries[tuple[str, Any], Entry]:
    return NamedEntries(_duplicate if key is None else _duplicate_in_scope)


def _duplicate(key: tuple[str, Any]) -> DuplicateRegistrationError:
    return DuplicateRegistrationError(*key, "global")


def _duplicate_in_scope(key: tuple[str, Any]) -> DuplicateRegistrationError:
    return DuplicateRegistrationError(*key, "scope")
