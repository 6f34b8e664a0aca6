"""Asking a model: one request, as many attempts as make sense, one reply."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import anyio

from harness_plugins.llm.api import ModelAdapter, ModelError, ModelRequest, Reply, find_adapter

from .limits import Limits
from .turns import AgentEvent, Retrying

if TYPE_CHECKING:
    from .agent import Agent

__all__ = ["adapter_of", "ask", "pause_before"]


async def adapter_of(agent: Agent) -> ModelAdapter:
    """Return the adapter that an agent's requests go to now; wait if one is being reloaded.

    Raises ModelError, and SwapTimeoutError.
    """
    gate = agent.ctx.kernel.tree.gate
    if gate.swaps:
        await gate.wait_open()
    return find_adapter(agent.ctx, agent.provider)


async def ask(
    agent: Agent,
    request: ModelRequest,
    limits: Limits,
    emit: Callable[[AgentEvent], None],
    random: Callable[[], float],
) -> Reply:
    """Return the model's reply to a request, which is the same one in all attempts.

    Each attempt looks for the adapter anew, so one that was reloaded meanwhile is used. Raises
    ModelError, or what an adapter raises against its contract.
    """
    attempt = 0
    while True:
        attempt += 1
        try:
            return await _attempt(await adapter_of(agent), request, emit)
        except ModelError as error:
            pause = pause_before(attempt + 1, error, limits, random)
            if pause is None:
                raise
            failure = error
        emit(Retrying(attempt, pause, failure))
        await anyio.sleep(pause)


async def _attempt(
    adapter: ModelAdapter, request: ModelRequest, emit: Callable[[AgentEvent], None]
) -> Reply:
    provider = adapter.provider
    try:
        async with aclosing(adapter.stream(request)) as events:
            async for event in events:
                if not isinstance(event, Reply):
                    emit(event)
                elif event.message.role == "assistant":
                    return event
                else:
                    break
    except ModelError:
        raise
    except Exception as error:
        error.add_note(f'in the adapter of provider "{provider}", which should raise ModelError')
        raise
    raise ModelError("the stream ended without a reply", kind="protocol", provider=provider)


def pause_before(
    attempt: int, error: ModelError, limits: Limits, random: Callable[[], float]
) -> float | None:
    """Return the seconds to wait before attempt number `attempt`, from 2; None: give up.

    Half of the wait is by chance, so that those who failed together do not come back together.
    """
    if not error.is_passing or attempt - 1 > limits.retries:
        return None
    doubled: float = limits.retry_seconds * 2.0 ** min(attempt - 2, 60)
    pause = min(doubled, limits.max_retry_seconds) * (0.5 + 0.5 * random())
    wanted: Any = error.retry_after
    if wanted is None or wanted <= pause:
        return pause
    if wanted > limits.max_retry_seconds:
        error.add_note(
            f"{error.provider} asks to wait {wanted:g} s, more than the limit of "
            f"max_retry_seconds ({limits.max_retry_seconds:g} s)"
        )
        return None
    return float(wanted)
