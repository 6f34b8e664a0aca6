"""`code_mode`: a tool that runs Python code, in which the other tools are functions.

    - name: code_mode
      config:
        timeout: 60           # seconds that a run may take, with the tools it calls
        memory: 1024          # megabytes that its process may use
        max_output: 20000     # characters of a result
        idle: 60              # seconds after which a process that nobody uses is ended
        keep: 4               # how many such processes may wait

It is shown where `ctx.tools.present_as("code")` or `present_as("both")` says so, together with a
section that holds the signature of every tool the scope's code may call; an assembly has both or
neither. Code runs in a process of its own, one for each scope. Its calls go through
`ctx.tools.execute` like those of the model: validated, restricted, and heard by every listener.

This contains accidents, not attackers: the process may do whatever its user may do.
"""

from __future__ import annotations

import math
import os
from typing import Any

import anyio
import attrs

from harness_core import Context
from harness_core.errors import PluginError
from harness_core.prompt import AssembleContext
from harness_plugins.tools.api import Tool, ToolCall, ToolResult, Tools

from .answer import answer, timed_out
from .section import ORDER, RUN_CODE, SECTION, section_text
from .signatures import Signatures, functions_of
from .worker import Ended, Limits, Worker
from .workers import Workers

__all__ = ["Config", "apply", "inject", "name"]

name = "code_mode"
inject = ["tools", "system_prompt"]

SMALLEST_MEMORY = 128

SCHEMA = {
    "type": "object",
    "properties": {
        "code": {
            "type": "string",
            "description": "Python code; `await` works at the top level.",
        }
    },
    "required": ["code"],
    "additionalProperties": False,
}
DESCRIPTION = (
    "Run Python code in which tools are async functions, as the signatures in the system prompt "
    "say. Returns what it prints and the value of its last line."
)


@attrs.frozen
class Config:
    """Limits of the processes that run code.

    `directory` is where the code runs; by default in a new one, which is deleted with its
    process. `environment` is added to the few variables that the process gets.
    """

    timeout: float = 60.0
    memory: int = 1024
    max_output: int = 20_000
    idle: float = 60.0
    keep: int = 4
    directory: str | None = None
    environment: dict[str, str] = attrs.field(factory=dict[str, str])

    def __attrs_post_init__(self) -> None:
        if not 0 < self.timeout < math.inf:
            raise ValueError(f"timeout must be seconds above 0, got {self.timeout!r}")
        if self.memory < SMALLEST_MEMORY:
            least = SMALLEST_MEMORY
            raise ValueError(f"memory must be at least {least} megabytes, got {self.memory!r}")
        if self.max_output < 200:
            raise ValueError(f"max_output must be at least 200, got {self.max_output!r}")
        if not self.idle >= 0 or self.keep < 0:
            raise ValueError("idle and keep must not be negative")


def apply(ctx: Context, config: Config) -> None:
    """Register the tool and its section, which belong together."""
    if os.name != "posix":
        raise PluginError("code_mode needs a POSIX system: processes with groups and limits")
    running = _Running(ctx, config)
    ctx.effect(lambda: running.workers.close, label="code processes")
    ctx.start_soon(running.workers.end_idle, name="end idle code processes")
    ctx.system_prompt.pair(SECTION, RUN_CODE)
    ctx.system_prompt.section(
        SECTION, running.text, order=ORDER, literal=True, requires_tools=(RUN_CODE,)
    )
    # Later than a run's own limit, so that what was printed by then can be told.
    timeout = config.timeout + 30
    ctx[Tools].register(
        Tool(
            RUN_CODE, DESCRIPTION, SCHEMA, run=running.run, runs_code=True, timeout=timeout,
            max_output=2 * config.max_output,
        )
    )  # fmt: skip


class _Running:
    """Runs code for the scopes, each in a process of its own."""

    def __init__(self, ctx: Context, config: Config) -> None:
        self._ctx = ctx
        self._config = config
        self._signatures = Signatures()
        limits = Limits(config.memory, config.max_output, config.directory, config.environment)
        self.workers = Workers(limits, config.keep, config.idle)

    def text(self, context: AssembleContext) -> str:
        """Return the section of one assembly."""
        tools = self._ctx[Tools]
        mode = tools.presentation(context).mode
        return section_text(tools.in_code(context), mode, self._signatures)

    async def run(self, arguments: dict[str, Any], call: ToolCall) -> ToolResult:
        """Run code: what the tool does."""
        result = await self._run_once(arguments["code"], call)
        if result is None:  # the process had died while it waited
            result = await self._run_once(arguments["code"], call)
        return result or ToolResult("the process that was to run the code is gone", "failed")

    async def _run_once(self, code: str, call: ToolCall) -> ToolResult | None:
        """Run code; return None if the process was gone before it began."""
        worker = await self.workers.take(call.scope)
        most = self._config.max_output
        ended: Ended | None = None
        try:
            with anyio.move_on_after(self._config.timeout) as limit:
                ended = await self._run(worker, code, call)
            if limit.cancelled_caught:
                return timed_out(worker.printed, self._config.timeout, most)
        finally:
            await self.workers.give_back(call.scope, worker)
        return answer(ended, worker.printed, most) if ended is not None else None

    async def _run(self, worker: Worker, code: str, call: ToolCall) -> Ended | None:
        tools = self._ctx[Tools]
        functions = functions_of(self._signatures.of(tools.in_code(call.scope)))

        async def execute(tool: str, arguments: object) -> ToolResult:
            return await tools.execute(tool, arguments, scope=call.scope, via=call)

        return await worker.run(code, functions, execute)
