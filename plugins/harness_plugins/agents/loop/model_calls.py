"""Asking a model: one request, as many attempts as make sense, one reply."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, cast

import anyio

from harness_plugins.llm.api import (
    Message,
    ModelAdapter,
    ModelError,
    ModelEvent,
    ModelRequest,
    Reply,
    Usage,
    as_data,
    find_adapter,
    message_from,
)

from .limits import Limits
from .records import AgentEvent, Retrying
from .speaker import Speaker
from .strays import no_strays
from .swaps import wait_swapped

__all__ = ["adapter_of", "ask", "pause_before"]


async def adapter_of(agent: Speaker) -> ModelAdapter:
    """Return the adapter that an agent's requests go to now; wait if one is being reloaded.

    Raises ModelError, and SwapTimeoutError.
    """
    await wait_swapped(agent.ctx)
    return find_adapter(agent.ctx, agent.provider)


async def ask(
    agent: Speaker,
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
        with no_strays():
            async with aclosing(_stream(adapter, request)) as events:
                async for event in events:
                    if not isinstance(event, Reply):
                        emit(event)
                    elif _check(event):
                        return event
                    else:
                        break
    except ModelError:
        raise
    except Exception as error:
        error.add_note(f'in the adapter of provider "{provider}", which should raise ModelError')
        raise
    raise ModelError("the stream ended without a reply", kind="protocol", provider=provider)


def _stream(adapter: ModelAdapter, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
    stream: Any = adapter.stream(request)
    if not hasattr(stream, "aclose"):
        if hasattr(stream, "close"):
            stream.close()
        raise TypeError(f"stream() of an adapter is an async generator, got {stream!r}")
    return cast("AsyncGenerator[ModelEvent, None]", stream)


def _check(reply: Reply) -> bool:
    """Whether a reply is of the assistant; raise TypeError if the log could not give it back."""
    if not isinstance(reply.message, Message) or not isinstance(reply.usage, Usage):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"a Reply has a Message and a Usage, got {reply!r}")
    if message_from(as_data(reply.message)) != reply.message:
        raise TypeError(f"a Message holds texts, its arguments too; got {reply.message!r}")
    return reply.message.role == "assistant"


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
