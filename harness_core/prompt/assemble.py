"""One assembly: evaluate a plan, run the listeners, restore what is owed, check the result.

Reading order: `run_assembly` is the order of work of the contract; the rest is its phases.
Everything an assembly changes is its own (law L7). Contract: section 5, "Order of work".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from operator import is_
from time import perf_counter
from types import CoroutineType
from typing import Any

import anyio

from ..errors import AssemblyCancelled, ContributionError, MultipleCompleteSectionsError
from ..kernel.events import Bus
from ..kernel.tree import logger
from ..scopes.scope import ScopeTarget
from .entries import Entry
from .model import (
    AssembleContext,
    AssembledContext,
    AssembledSection,
    PromptAssembly,
    ToolProviderResult,
    ToolSchema,
    ToolSource,
)
from .plan import Plan
from .tool_order import order_tools
from .trace import Omission, Trace

__all__ = ["CONTRIBUTION_FAILED", "WATERFALL", "run_assembly"]

WATERFALL = "system-prompt/assemble"
CONTRIBUTION_FAILED = "system-prompt/contribution-failed"

_OMITTED = object()


async def run_assembly(
    plan: Plan, context: AssembleContext, bus: Bus, tool_order: Sequence[str] | None
) -> PromptAssembly:
    """Assemble what `plan` says for `context`."""
    signal = context.signal
    assembly = PromptAssembly()
    trace = Trace(plan, context.scope, assembly)
    _check(signal, "evaluation")
    if len(plan.complete) > 1:
        raise MultipleCompleteSectionsError(entry.name for entry in plan.complete)

    evaluation = _Evaluation(context, bus, trace)
    assembly.variables = plan.fixed_variables.copy()
    await _evaluate_variables_and_tools(plan, evaluation, assembly, tool_order)
    _check(signal, "sections and contexts are evaluated")
    await _evaluate_texts(plan, evaluation, assembly)
    complete = _complete_section(plan, assembly)

    _check(signal, "the listeners run")
    trace.tools = assembly.tools[:]
    result = await _run_listeners(bus, assembly, context, trace)
    _check(signal, "it was returned")
    if plan.complete:
        result.sections = [complete] if complete is not None else []
    if plan.suppressors:
        result.contexts = [item for item in result.contexts if not plan.suppresses(item.name)]
    result._trace = trace
    for entry in plan.checks:
        assert entry.provider is not None
        entry.provider(result)
    return result


def _check(signal: Any, phase: str) -> None:
    if signal is not None and signal.cancel_called:
        raise AssemblyCancelled(phase)


async def _run_listeners(
    bus: Bus, assembly: PromptAssembly, context: AssembleContext, trace: Trace
) -> PromptAssembly:
    if not bus.heard(WATERFALL):
        return assembly
    target = ScopeTarget(None, context.scope)
    result = await bus.waterfall(
        WATERFALL, (assembly, context), trace.innermost, target, observer=trace
    )
    if result is assembly:
        return assembly
    # A listener may keep what it returned; what we return is nobody else's.
    return PromptAssembly(
        list(result.sections), list(result.contexts), list(result.tools), dict(result.variables)
    )


def _complete_section(plan: Plan, assembly: PromptAssembly) -> AssembledSection | None:
    """Return a copy of the complete section, with the text it has before the listeners."""
    if not plan.complete:
        return None
    name = plan.complete[0].name
    for item in assembly.sections:
        if item.name == name:
            return AssembledSection(item.name, item.text, item.literal, item._source, item._seconds)
    return None


# Variables and tools


async def _evaluate_variables_and_tools(
    plan: Plan,
    evaluation: _Evaluation,
    assembly: PromptAssembly,
    tool_order: Sequence[str] | None,
) -> None:
    variables = plan.variable_providers
    if not variables and not plan.tools:
        if tool_order is not None:
            order_tools((), (), tool_order)
        return
    results = await evaluation.run([*variables, *plan.tools], _variable_or_tools)
    values = assembly.variables
    for entry, value in zip(variables, results, strict=False):
        values[entry.name] = value
    if plan.tools:
        found = results[len(variables) :]
        assembly.tools = _tools(plan, found, tool_order, evaluation.trace)
    elif tool_order is not None:
        order_tools((), (), tool_order)


def _variable_or_tools(entry: Entry, value: object) -> object:
    if entry.kind == "tools":
        return _checked_tools(entry, value)
    if value is None or isinstance(value, str):
        return value
    raise ContributionError(
        f"{entry.label} is {value!r} ({type(value).__name__}): a variable's value is str or None"
    )


Provided = tuple[tuple[Any, ...], tuple[str, ...] | None]


def _checked_tools(entry: Entry, value: object) -> Provided:
    known: object = None
    schemas: object = value
    if isinstance(value, ToolProviderResult):
        schemas, known = value.schemas, value.known_names
    if schemas is None or isinstance(schemas, str | bytes) or not hasattr(schemas, "__iter__"):
        raise ContributionError(
            f"a tool provider returned {value!r} ({type(value).__name__}): expected schemas "
            "(an empty list for none) or a ToolProviderResult"
        )
    if hasattr(schemas, "keys") or isinstance(known, str):
        raise ContributionError(
            f"a tool provider returned {value!r}: expected a list of schemas, and a list of names"
        )
    names = tuple(known) if known is not None else None  # type: ignore[call-overload]
    return tuple(schemas), names


class _ToolMemo:
    """Tools that were ordered already: reused while providers give the very same schemas."""

    __slots__ = ("ordered", "provided", "tool_order")

    def __init__(
        self,
        provided: list[Provided],
        tool_order: Sequence[str] | None,
        ordered: list[ToolSchema],
    ) -> None:
        self.provided = provided
        self.tool_order = tool_order
        self.ordered = ordered

    def fits(self, provided: list[Provided], tool_order: Sequence[str] | None) -> bool:
        if tool_order is not self.tool_order:
            return False
        for (schemas, known), (mine, my_known) in zip(provided, self.provided, strict=True):
            if len(schemas) != len(mine) or known != my_known or not all(map(is_, schemas, mine)):
                return False
        return True


def _tools(
    plan: Plan, provided: list[Provided], tool_order: Sequence[str] | None, trace: Trace
) -> list[ToolSchema]:
    memo = plan.memo
    if memo is not None and memo.fits(provided, tool_order):
        return memo.ordered[:]  # type: ignore[no-any-return]
    tools: list[ToolSchema] = []
    known: list[str] = []
    frozen = True
    for entry, (schemas, names) in zip(plan.tools, provided, strict=True):
        source = ToolSource(plan.source_of(entry), trace.seconds.get(entry))
        mine = [_attributed(schema, entry, source) for schema in schemas]
        frozen = frozen and all(type(schema) is ToolSchema for schema in schemas)
        tools += mine
        known += [tool.name for tool in mine] if names is None else names
    ordered = order_tools(tools, known, tool_order)
    # Only frozen schemas: a mapping may have been changed in place since.
    plan.memo = _ToolMemo(provided, tool_order, ordered) if frozen else None
    return ordered[:]


def _attributed(schema: Any, entry: Entry, source: ToolSource) -> ToolSchema:
    try:
        tool = ToolSchema.of(schema)
    except Exception as error:
        entry.attribute(error)
        raise
    return ToolSchema(tool.name, tool.description, tool.parameters, source)


# Sections and contexts


async def _evaluate_texts(
    plan: Plan, evaluation: _Evaluation, assembly: PromptAssembly
) -> None:
    sections, contexts = plan.sections, plan.contexts
    if plan.suppressors:
        contexts = [entry for entry in contexts if not plan.suppresses(entry.name)]
    if plan.requires_tools:
        visible = {tool.name for tool in assembly.tools}
        sections = evaluation.with_tools(sections, visible)
        contexts = evaluation.with_tools(contexts, visible)
    texts = await evaluation.run([*sections, *contexts], _text)
    assembly.sections = _records(AssembledSection, sections, texts, evaluation.trace)
    if contexts:
        texts = texts[len(sections) :]
        assembly.contexts = _records(AssembledContext, contexts, texts, evaluation.trace)


def _records(kind: type[Any], entries: list[Entry], texts: list[Any], trace: Trace) -> list[Any]:
    sources, seconds = trace.plan.sources, trace.seconds
    return [
        kind(entry.name, text, entry.literal, sources.get(entry, entry), seconds.get(entry))
        for entry, text in zip(entries, texts, strict=False)
        if text is not _OMITTED
    ]


def _text(entry: Entry, value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    raise ContributionError(
        f"{entry.label}: its provider returned {value!r} ({type(value).__name__}): expected str"
    )


# Providers

Check = Callable[[Entry, object], object]


class _Evaluation:
    """Calls the providers of one assembly."""

    __slots__ = ("bus", "context", "trace")

    def __init__(self, context: AssembleContext, bus: Bus, trace: Trace) -> None:
        self.context = context
        self.bus = bus
        self.trace = trace

    async def run(self, entries: list[Entry], check: Check) -> list[Any]:
        """Return every entry's result in its place: sync ones in order, async concurrently."""
        results: list[Any] = []
        waiting: list[tuple[int, Entry, Awaitable[Any]]] = []
        seconds = self.trace.seconds
        context = self.context
        for entry in entries:
            provider = entry.provider
            if provider is None:
                results.append(entry.text)
                continue
            began = perf_counter()
            try:
                value = provider(context) if entry.takes_context else provider()
                if type(value) is CoroutineType or hasattr(value, "__await__"):
                    waiting.append((len(results), entry, value))
                elif type(value) is not str:
                    value = check(entry, value)
            except Exception as error:
                try:
                    value = self._failed(entry, error)
                except BaseException:
                    _close([awaitable for _, _, awaitable in waiting])
                    raise
            results.append(value)
            seconds[entry] = perf_counter() - began
        if waiting:
            await self._settle(waiting, results, check)
        return results

    async def _settle(
        self, waiting: list[tuple[int, Entry, Awaitable[Any]]], results: list[Any], check: Check
    ) -> None:
        failures: list[tuple[int, BaseException]] = []

        async def settle(index: int, entry: Entry, awaitable: Awaitable[Any]) -> None:
            began = perf_counter()
            try:
                value = check(entry, await _within(entry.timeout, awaitable))
            except Exception as error:
                try:
                    value = self._failed(entry, error)
                except Exception as failure:
                    failures.append((index, failure))
                    tasks.cancel_scope.cancel()
                    return
            results[index] = value
            self.trace.seconds[entry] += perf_counter() - began

        async with anyio.create_task_group() as tasks:
            for index, entry, awaitable in waiting:
                tasks.start_soon(settle, index, entry, awaitable)
        if failures:
            raise min(failures, key=lambda failure: failure[0])[1]

    def _failed(self, entry: Entry, error: Exception) -> object:
        """Omit an optional entry that failed; raise the error of any other."""
        entry.attribute(error)
        if not entry.optional:
            raise error
        self.trace.omissions.append(Omission(entry, "failed", f"{type(error).__name__}: {error}"))
        logger.warning("%s was left out of an assembly", entry.label, exc_info=error)
        self.bus.emit(CONTRIBUTION_FAILED, (entry.origin(), error), None)
        return _OMITTED

    def with_tools(self, entries: list[Entry], visible: set[str]) -> list[Entry]:
        """Return the entries whose tools are all visible."""
        kept: list[Entry] = []
        for entry in entries:
            hidden = [name for name in entry.requires_tools if name not in visible]
            if hidden:
                reason = f"requires tools that are not visible here: {', '.join(hidden)}"
                self.trace.omissions.append(Omission(entry, "tool-hidden", reason))
            else:
                kept.append(entry)
        return kept


async def _within(timeout: float | None, awaitable: Awaitable[Any]) -> Any:
    if timeout is None:
        return await awaitable
    with anyio.move_on_after(timeout):
        return await awaitable
    raise TimeoutError(f"its provider took longer than {timeout:g} s")


def _close(awaitables: list[Awaitable[Any]]) -> None:
    for awaitable in awaitables:
        if isinstance(awaitable, CoroutineType):
            awaitable.close()
