"""One assembly: evaluate a plan, run the listeners, restore what is owed, check the result.

Reading order: `run_assembly` is the order of work of the contract; the rest is its phases.
Everything an assembly changes is its own (law L7). Contract: section 5, "Order of work".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from operator import is_
from time import perf_counter
from typing import Any

import anyio

from ..errors import AssemblyCancelled, ContributionError, MultipleCompleteSectionsError
from ..kernel.events import Bus
from ..kernel.jobs import Driven, discard, logger
from ..kernel.listeners import is_awaitable
from ..scopes.scope import ScopeTarget
from .entries import Entry
from .model import AssembleContext, AssembledSection, PromptAssembly
from .origin import Timed
from .pairs import keep_pairs
from .plan import Plan
from .texts import OMITTED, Texts
from .tool import ToolProviderResult, ToolSchema
from .tool_order import order_tools
from .trace import Provided, Through, Trace

__all__ = ["CONTRIBUTION_FAILED", "WATERFALL", "run_assembly"]

WATERFALL = "system-prompt/assemble"
CONTRIBUTION_FAILED = "system-prompt/contribution-failed"


async def run_assembly(
    plan: Plan, context: AssembleContext, bus: Bus, tool_order: Sequence[str] | None
) -> PromptAssembly:
    """Assemble what `plan` says for `context`."""
    signal = context.signal
    assembly = PromptAssembly()
    trace = Trace(plan, context.scope)
    _check(signal, "evaluation")
    if len(plan.complete) > 1:
        raise MultipleCompleteSectionsError(entry.name for entry in plan.complete)

    evaluation = _Evaluation(context, bus, trace)
    assembly.variables = plan.fixed_variables.copy()
    if plan.variable_providers or plan.tools:
        await _evaluate_variables_and_tools(plan, evaluation, assembly, tool_order)
    elif tool_order is not None:
        order_tools((), (), tool_order)
    _check(signal, "sections and contexts are evaluated")
    await _evaluate_texts(plan, evaluation, assembly)
    complete = _complete_section(plan, assembly) if plan.complete else []

    _check(signal, "the listeners run")
    trace.tools = assembly.tools[:]
    trace.sections, trace.contexts = assembly.untouched_sections, assembly.untouched_contexts
    result = assembly
    if bus.heard(WATERFALL):
        result = await _run_listeners(bus, assembly, context, trace)
    _check(signal, "it was returned")
    if complete:
        result.sections = complete
    if plan.suppressors and result.untouched_contexts is None:
        result.contexts = [item for item in result.contexts if not plan.suppresses(item.name)]
    result.trace = trace
    if plan.pairs:
        keep_pairs(result, trace)
    for entry in plan.checks:
        assert entry.provider is not None
        try:
            entry.provider(result)
        except Exception as error:
            entry.attribute(error)
            raise
    return result


def _check(signal: Any, phase: str) -> None:
    if signal is not None and signal.cancel_called:
        raise AssemblyCancelled(phase)


async def _run_listeners(
    bus: Bus, assembly: PromptAssembly, context: AssembleContext, trace: Trace
) -> PromptAssembly:
    target = ScopeTarget(None, context.scope)
    trace.assembly = assembly
    result: PromptAssembly = await bus.waterfall(
        WATERFALL, (assembly, context), trace.innermost, target, observer=trace
    )
    del trace.assembly  # what is returned refers to the trace: no cycle, for the collector's sake
    return result.copy()  # a listener may keep what it returned; what we return is nobody else's


def _complete_section(plan: Plan, assembly: PromptAssembly) -> list[AssembledSection]:
    """Return a copy of the complete section, with the text it has before the listeners.

    Empty if it takes no part, because its tools are hidden or it failed and is optional: then
    the other sections stand, rather than an empty prompt.
    """
    texts = assembly.untouched_sections
    records: list[AssembledSection] = texts.records(AssembledSection) if texts else []
    return [record for record in records if record.entry is plan.complete[0]]


# Variables and tools


async def _evaluate_variables_and_tools(
    plan: Plan,
    evaluation: _Evaluation,
    assembly: PromptAssembly,
    tool_order: Sequence[str] | None,
) -> None:
    variables = plan.variable_providers
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
        return _checked_tools(value)
    if value is None or isinstance(value, str):
        return value
    raise ContributionError(
        f"{entry.label} is {value!r} ({type(value).__name__}): a variable's value is str or None"
    )


def _checked_tools(value: object) -> Provided:
    known: Iterable[str] | None = None
    schemas: Any = value
    through: Through = {}
    if isinstance(value, ToolProviderResult):
        schemas, known = value.schemas, value.known_names
        through = {name: frozenset(others) for name, others in value.through.items()}
    if schemas is None or isinstance(schemas, str | bytes) or not hasattr(schemas, "__iter__"):
        raise ContributionError(
            f"a tool provider returned {value!r} ({type(value).__name__}): expected schemas "
            "(an empty list for none) or a ToolProviderResult"
        )
    if hasattr(schemas, "keys") or isinstance(known, str):
        raise ContributionError(
            f"a tool provider returned {value!r}: expected a list of schemas, and a list of names"
        )
    return Provided(tuple(schemas), tuple(known) if known is not None else None, through)


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
        for (schemas, known, _), (mine, my_known, _) in zip(provided, self.provided, strict=True):
            if len(schemas) != len(mine) or known != my_known or not all(map(is_, schemas, mine)):
                return False
        return True


def _tools(
    plan: Plan, provided: list[Provided], tool_order: Sequence[str] | None, trace: Trace
) -> list[ToolSchema]:
    trace.provided = provided
    memo = plan.memo
    if memo is not None and memo.fits(provided, tool_order):
        return memo.ordered[:]  # type: ignore[no-any-return]
    tools: list[ToolSchema] = []
    known: list[str] = []
    frozen = True
    for entry, (schemas, names, _) in zip(plan.tools, provided, strict=True):
        source = Timed(plan.source_of(entry), trace.seconds.get(entry))
        mine = [_attributed(schema, entry, source) for schema in schemas]
        frozen = frozen and all(type(schema) is ToolSchema for schema in schemas)
        tools += mine
        known += [tool.name for tool in mine] if names is None else names
    ordered = order_tools(tools, known, tool_order)
    # Only frozen schemas: a mapping may have been changed in place since.
    plan.memo = _ToolMemo(provided, tool_order, ordered) if frozen else None
    return ordered[:]


def _attributed(schema: Any, entry: Entry, source: Timed) -> ToolSchema:
    """Return a schema with its origin: its own, if its provider knows better who brought it."""
    try:
        tool = ToolSchema.of(schema)
    except Exception as error:
        entry.attribute(error)
        raise
    return ToolSchema(tool.name, tool.description, tool.parameters, tool.source or source)


# Sections and contexts


async def _evaluate_texts(plan: Plan, evaluation: _Evaluation, assembly: PromptAssembly) -> None:
    sections, contexts = plan.sections, plan.contexts
    if plan.needs_tools:
        hidden = plan.needs_tools.difference(evaluation.trace.callable_tools(assembly))
        if hidden:
            evaluation.trace.hidden_tools = hidden
            sections, contexts = sections.without(hidden), contexts.without(hidden)
    provided: list[Any] = []
    if sections.providers or contexts.providers:
        provided = await evaluation.run([*sections.providers, *contexts.providers], _text)
    seconds = evaluation.trace.seconds
    cut = len(sections.providers)
    assembly.untouched_sections = Texts(sections, provided[:cut], seconds)
    if contexts.entries:
        assembly.untouched_contexts = Texts(contexts, provided[cut:], seconds)


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
        began = perf_counter()
        for entry in entries:
            try:
                provide: Any = entry.provider
                value: Any = provide(context) if entry.takes_context else provide()
                # A str is the common case, and right for every kind but tools.
                if not isinstance(value, str) or entry.kind == "tools":
                    if is_awaitable(value):
                        waiting.append((len(results), entry, value))
                    else:
                        value = check(entry, value)
            except Exception as error:
                try:
                    value = self._failed(entry, error)
                except BaseException:
                    _close([awaitable for _, _, awaitable in waiting])
                    raise
            results.append(value)
            ended = perf_counter()
            seconds[entry] = ended - began
            began = ended
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
        self.trace.failures[entry] = error
        logger.warning("%s was left out of an assembly", entry.label, exc_info=error)
        self.bus.emit(CONTRIBUTION_FAILED, (entry.origin(), error), None)
        return OMITTED


async def _within(timeout: float | None, awaitable: Awaitable[Any]) -> Any:
    if timeout is None:
        return await awaitable
    with anyio.move_on_after(timeout) as scope:
        return await Driven(awaitable, is_told=lambda: scope.cancel_called)
    raise TimeoutError(f"its provider took longer than {timeout:g} s")


def _close(awaitables: list[Awaitable[Any]]) -> None:
    for awaitable in awaitables:
        discard(awaitable)
