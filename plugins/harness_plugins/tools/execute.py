"""One call from request to result. Reading order: `Execution.run` is the order of work.

look up → validate → `tools/pre-execute` (and `tools/ask`) → the scope's turn → look up again →
`tools/execute` around the tool → limit the output → `tools/post-execute` → `tools/result`.

A name that is hidden takes the same path as one that does not exist, and reads the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

import anyio
import attrs

from harness_core import Context, Event, ScopeTarget, scope_target
from harness_core.errors import InactiveFiberError, PluginError, closest

from .encode import to_text, truncate
from .errors import ToolError
from .events import ASK, EXECUTE, POST_EXECUTE, PRE_EXECUTE, RESULT
from .faults import alone, summary, without_traceback
from .model import Status, Tool, ToolCall, ToolDecision, ToolResult
from .naming import python_name
from .running import Gone, TimedOut, run_owned
from .validate import ArgumentsError, plain_copy

if TYPE_CHECKING:
    from .entries import ToolEntry
    from .layers import ToolLayers
    from .view import View

__all__ = ["Execution"]


class Execution:
    """One call. `limits` are the timeout and the output limit where the tool has none."""

    def __init__(
        self,
        ctx: Context,
        layers: ToolLayers,
        view: Callable[[], View],
        call: ToolCall,
        limits: tuple[float | None, int | None],
    ) -> None:
        self._ctx = ctx
        self._bus = ctx.kernel.bus
        self._layers = layers
        self._view = view
        self._limits = limits
        self._entry = entry = view().find(call.name, call.via)
        self._tool: Tool | None = entry.tool if entry is not None else None
        self._plugin = entry.plugin if entry is not None else None
        self._unreadable: ArgumentsError | None = None
        copied: Any = None
        try:
            given = call.arguments
            copied = plain_copy(
                dict(cast("Mapping[str, Any]", given)) if isinstance(given, Mapping) else given
            )
        except RecursionError:
            self._unreadable = ArgumentsError(("$: nested too deeply",))
        except ArgumentsError as error:
            self._unreadable = error
        self.call = ToolCall(
            call.name, copied, call.scope, call.call_id, self._tool, self._plugin, call.via
        )
        self._target: ScopeTarget = scope_target(None, call.scope)

    async def run(self) -> ToolResult:
        """Return the result; only a cancellation of the caller is raised."""
        try:
            result, has_run = await self._decide_and_run()
            result = self._limited(result)
            if has_run:
                await self._tell_post_execute(result)
        except anyio.get_cancelled_exc_class():
            self.give_up()
            raise
        self._report(result)
        return result

    def give_up(self) -> ToolResult:
        """End a call whose caller no longer wants it."""
        result = self.cancelled()
        self._report(result)
        return result

    def _report(self, result: ToolResult) -> None:
        """Tell the listeners of `tools/result`."""
        if self._bus.heard(RESULT.name):
            self._ctx.emit(RESULT, self.call, result, target=self._target)

    def cancelled(self) -> ToolResult:
        """Return the result of a call that its caller has given up."""
        return self._answer("cancelled", f'the call of tool "{self.call.name}" was cancelled')

    def _answer(self, status: Status, text: str, violations: tuple[str, ...] = ()) -> ToolResult:
        return ToolResult(
            text, status, violations=violations, name=self.call.name, call_id=self.call.call_id
        )

    def _not_there(self) -> ToolResult:
        """Return what a call of a name reads that it cannot make: why, and what it can do."""
        name, view = self.call.name, self._view()
        if self.call.via is None and view.is_indirect(name):
            runner = view.runner.name if view.runner is not None else ""
            text = (
                f'tool "{name}" is not called directly here: call "{runner}", with code that does '
                f"`await {python_name(name, view.inner)}(...)`"
            )
            return self._answer("denied", text)
        names = list(view.callable_via(self.call.via))
        guess = closest(name, names)
        hint = f'; did you mean "{guess}"?' if guess else ""
        text = f'unknown tool "{name}"; available tools: {", ".join(names) or "(none)"}'
        return self._answer("unknown", text + hint)

    # Whether it may run

    async def _decide_and_run(self) -> tuple[ToolResult, bool]:
        entry, tool = self._entry, self._tool
        if entry is None or tool is None:
            return self._not_there(), False
        if self._unreadable is not None:
            return self._invalid(self._unreadable), False
        try:
            prepared = tool.prepare(self.call.arguments)
        except ArgumentsError as error:
            return self._invalid(error), False
        except Exception as error:  # a reference that cannot be followed, a class that raises
            return self._failed(error, "reading the arguments of"), False
        refusal = await self._refusal()
        if refusal is not None:
            return refusal, False
        turn = None if tool.parallel else await self._layers.turns.take(self.call.scope)
        try:
            now = self._view().find(self.call.name, self.call.via)
            if now is entry and entry.tool is tool:
                return await self._execute(entry, tool, prepared), True
        finally:
            if turn is not None:
                turn.release()
        if now is None:
            return self._not_there(), False
        return self._gone("was replaced before the call could run; call it again"), False

    def _invalid(self, error: ArgumentsError) -> ToolResult:
        lines = "".join(f"\n- {violation}" for violation in error.violations)
        text = f'invalid arguments for tool "{self.call.name}":{lines}'
        return self._answer("invalid", text, error.violations)

    async def _refusal(self) -> ToolResult | None:
        """Ask the listeners; return why the call may not run, or None if it may."""
        if not self._bus.heard(PRE_EXECUTE.name):
            return None
        try:
            decision = await self._decision(PRE_EXECUTE, self.call)
            if decision is not None and decision.kind == "ask":
                question = decision.reason
                decision = await self._decision(ASK, self.call, question)
                if decision is None or decision.kind == "ask":
                    decision = ToolDecision.deny(f"nobody answered: {question}")
        except Exception as error:  # who cannot decide does not let it pass
            self._ctx.fiber.report(error, f'deciding on tool "{self.call.name}"')
            return self._answer(
                "denied", f'the call of tool "{self.call.name}" was denied: a check of it failed'
            )
        if decision is None or decision.kind == "allow":
            return None
        because = f": {decision.reason}" if decision.reason else ""
        return self._answer("denied", f'the call of tool "{self.call.name}" was denied{because}')

    async def _decision(self, event: Event[Any, Any], *args: object) -> ToolDecision | None:
        decision: object = await self._ctx.serial(event, *args, target=self._target)
        if decision is not None and not isinstance(decision, ToolDecision):
            raise PluginError(
                f"a listener of {event.name} returned {decision!r}: expected a ToolDecision or None"
            )
        return decision

    # Running

    async def _execute(self, entry: ToolEntry, tool: Tool, prepared: Any) -> ToolResult:
        if not self._bus.heard(EXECUTE.name):
            return await self._run_tool(entry, tool, prepared)

        async def inner() -> ToolResult:
            return await self._run_tool(entry, tool, prepared)

        try:
            result: object = await self._ctx.waterfall(
                EXECUTE, self.call, inner=inner, target=self._target
            )
            if not isinstance(result, ToolResult):
                raise PluginError(
                    f"a listener of {EXECUTE.name} returned {result!r}: expected a ToolResult, for "
                    "instance what `await next()` gave"
                )
        except Exception as error:
            self._ctx.fiber.report(error, f'around tool "{self.call.name}"')
            return self._answer(
                "failed", f'tool "{self.call.name}" failed: a plugin around it raised an error'
            )
        return result

    async def _run_tool(self, entry: ToolEntry, tool: Tool, prepared: Any) -> ToolResult:
        fiber = entry.fiber
        if fiber is None:
            return self._gone("is gone: its plugin was disposed")
        args = (prepared, self.call) if tool.takes_call else (prepared,)
        timeout = tool.timeout if tool.timeout is not None else self._limits[0]
        try:
            value = await run_owned(
                fiber, lambda: tool.run(*args), name=tool.name, site=entry.site, timeout=timeout
            )
            return self._result_of(value)
        except (Gone, InactiveFiberError) as error:
            if isinstance(error, InactiveFiberError) and error.fiber is not fiber:
                return self._failed(error, "running")
            return self._gone("was cancelled during the call: its plugin was disposed")
        except TimedOut:
            text = f'tool "{tool.name}" took longer than {timeout:g} s and was cancelled'
            return self._answer("timed-out", text)
        except (anyio.get_cancelled_exc_class(), KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:
            only = alone(error)
            if isinstance(only, ToolError):
                return self._answer("failed", without_traceback(str(only)))
            return self._failed(error, "running")

    def _result_of(self, value: object) -> ToolResult:
        if isinstance(value, ToolResult):
            whole, call = value.text, self.call
            return attrs.evolve(value, name=call.name, call_id=call.call_id, whole=whole)
        name, call_id, text = self.call.name, self.call.call_id, to_text(value)
        return ToolResult(text, value=value, name=name, call_id=call_id, whole=text)

    def _gone(self, what: str) -> ToolResult:
        return self._answer("gone", f'tool "{self.call.name}" {what}')

    def _failed(self, error: BaseException, during: str) -> ToolResult:
        """Log an error of the tool's, and return what the model may know of it."""
        name = self.call.name
        fiber = self._entry.fiber if self._entry is not None else None
        (fiber or self._ctx.fiber).report(error, f'{during} tool "{name}" of {self._plugin}')
        return self._answer("failed", f'tool "{name}" failed: {summary(error)}')

    # What became of it

    def _limited(self, result: ToolResult) -> ToolResult:
        tool = self._tool
        limit = self._limits[1]
        if tool is not None and tool.max_output is not None:
            limit = tool.max_output
        text, dropped = truncate(result.text, limit)
        if not dropped:
            return result
        return attrs.evolve(result, text=text, dropped=result.dropped + dropped)

    async def _tell_post_execute(self, result: ToolResult) -> None:
        if not self._bus.heard(POST_EXECUTE.name):
            return
        try:
            await self._ctx.parallel(POST_EXECUTE, self.call, result, target=self._target)
        except Exception as error:  # the call has been made: its result stands
            self._ctx.fiber.report(error, f'after tool "{self.call.name}"')
