"""One step: assemble, write the snapshot, ask the model, write its reply, run its tools.

Whatever fails becomes a `StepEnd` with a reason; only a cancellation is raised. Everything is in
the log before anything that rests on it happens.
"""

from __future__ import annotations

import attrs
from anyio.lowlevel import checkpoint

from harness_core.errors import AssemblyCancelled
from harness_core.prompt import PromptAssembly, SystemPrompt, render_prompt
from harness_plugins.llm.api import Message, ModelError, ModelRequest, Reply, ToolRequest
from harness_plugins.session.api import Draft, History, snapshot_of

from .assembly import assemble_context_for
from .course import Course
from .drafts import message_of
from .events import REQUEST, STEP, Step, StepEnd, run_waterfall
from .model_calls import adapter_of, ask
from .records import Replied, StepStarted, TurnReason
from .stable import stable_characters
from .strays import no_strays
from .tool_calls import Calls

__all__ = ["run_step", "with_unique_ids"]

_REASONS: dict[str, TurnReason] = {"length": "length", "refused": "refused"}


async def run_step(course: Course) -> StepEnd:
    """Make one step, with the listeners of `agent/step` around it."""
    step = Step(course.agent, course.steps, course.session.id)
    try:
        return await run_waterfall(
            course.agent, STEP, (step,), lambda: _StepRun(course, step).run(), StepEnd
        )
    except Exception as error:
        return StepEnd("listener-failed", error=error)


class _Stop(Exception):
    """The step is over: `ending` says why. Never leaves this module."""

    def __init__(self, reason: TurnReason, error: Exception) -> None:
        super().__init__(reason)
        self.ending = StepEnd(reason, error=error)


class _StepRun:
    """The work of one step, inside of all listeners."""

    def __init__(self, course: Course, step: Step) -> None:
        self.course = course
        self.step = step

    async def run(self) -> StepEnd:
        """Make the step."""
        course = self.course
        try:
            assembly, system, stable, snapshot = await self._assemble()
            course.emit(StepStarted(self.step.number, assembly))
            if snapshot is not None:
                await self._write(snapshot)
            request = await self._request(assembly, system, stable)
            reply = await self._reply(request)
            return await self._act_upon(reply)
        except _Stop as stop:
            return stop.ending
        except Exception as error:  # ours: no listener is to blame
            return StepEnd("failed", error=error)

    async def _assemble(self) -> tuple[PromptAssembly, str, int | None, Draft | None]:
        course = self.course
        agent = course.agent
        try:
            with no_strays():
                assembly = await agent.ctx[SystemPrompt].assemble(
                    assemble_context_for(agent, course.scope, history=course.before)
                )
            system = render_prompt(assembly)
            snapshot = snapshot_of(assembly, course.session.history)
            stable = stable_characters(agent, assembly)
        except Exception as error:
            if isinstance(error, AssemblyCancelled):
                await checkpoint()  # raises, because the signal is the scope of the turn
            raise _Stop("assembly-failed", error) from None
        return assembly, system, stable, snapshot

    async def _write(self, draft: Draft) -> None:
        try:
            await self.course.write([draft])
        except Exception as error:
            raise _Stop("history-failed", error) from None

    async def _request(
        self, assembly: PromptAssembly, system: str, stable: int | None
    ) -> ModelRequest:
        course = self.course
        try:
            adapter = await adapter_of(course.agent)
            model = course.agent.model or adapter.model
            if not model:
                message = "no model is named: give the agent one, or the adapter"
                raise ModelError(message, kind="invalid-request", provider=adapter.provider)
        except Exception as error:
            raise _Stop("model-failed", error) from None
        request = ModelRequest(
            model,
            system,
            course.session.history.messages,
            tuple(assembly.tools),
            stable=stable,
            max_tokens=course.limits.max_reply_tokens,
            agent=course.agent.name,
        )
        try:
            return await run_waterfall(
                course.agent, REQUEST, (request, self.step), lambda: request, ModelRequest
            )
        except Exception as error:
            raise _Stop("listener-failed", error) from None

    async def _reply(self, request: ModelRequest) -> Reply:
        """Ask the model, and write what it says."""
        course = self.course
        try:
            reply = await ask(course.agent, request, course.limits, course.emit, course.random)
        except Exception as error:
            raise _Stop("model-failed", error) from None
        message = with_unique_ids(reply.message, course.session.history)
        reply = attrs.evolve(reply, message=message)
        course.add_usage(reply.usage)
        course.text = message.text
        if message.text or message.requests or message.thinking:  # nothing said is no message
            notes = {
                "model": reply.model or request.model,
                "stop": reply.stop,
                "usage": attrs.asdict(reply.usage),
            }
            await self._write(message_of(message, **notes))
        course.emit(Replied(reply))
        return reply

    async def _act_upon(self, reply: Reply) -> StepEnd:
        requests = reply.message.requests
        if not requests or reply.stop == "refused":
            return StepEnd(_REASONS.get(reply.stop, "done"), reply)
        calls = Calls(self.course, requests, is_cut=reply.stop == "length")
        results = await calls.run()
        if calls.error is not None:
            return StepEnd("history-failed", reply, results, calls.error)
        return StepEnd(None, reply, results)


def with_unique_ids(message: Message, history: History) -> Message:
    """Return a reply whose tool requests have ids that the history does not know yet.

    Some providers give none, or count anew in each reply; an answer must find its request.
    """
    taken = {one.id for entry in history.entries for one in entry.message.requests}
    requests: list[ToolRequest] = []
    for number, request in enumerate(message.requests, 1):
        stem = request.id or f"call-{number}"
        free, further = stem, 1
        while free in taken:
            further += 1
            free = f"{stem}-{further}"
        taken.add(free)
        requests.append(request if free == request.id else attrs.evolve(request, id=free))
    return attrs.evolve(message, requests=requests) if message.requests else message
