"""Exchanges: tool requests and the results that answer them. Whoever has one needs the other."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from harness_plugins.llm.api import Message, ToolRequest

__all__ = ["Exchange", "find_exchanges", "with_results_behind"]


@attrs.frozen
class Exchange:
    """A request, the position of its message, and that of the result; None if there is none."""

    request: ToolRequest
    asked: int
    answered: int | None = None


def find_exchanges(messages: Sequence[Message]) -> tuple[Exchange, ...]:
    """Return the exchanges of a conversation, in the order of the requests.

    Ids may come again, as some providers count them anew in each reply: a result answers the
    latest request of its id that is still open.
    """
    found: list[Exchange] = []
    waiting: dict[str, list[int]] = {}
    for position, message in enumerate(messages):
        for request in message.requests:
            waiting.setdefault(request.id, []).append(len(found))
            found.append(Exchange(request, position))
        if message.role == "tool" and waiting.get(message.call_id):
            index = waiting[message.call_id].pop()
            found[index] = attrs.evolve(found[index], answered=position)
    return tuple(found)


def with_results_behind(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return a conversation with each result directly behind the message that asks for it."""
    results: dict[int, list[Message]] = {}
    moved: set[int] = set()
    for one in find_exchanges(messages):
        if one.answered is not None:
            results.setdefault(one.asked, []).append(messages[one.answered])
            moved.add(one.answered)
    ordered: list[Message] = []
    for position, message in enumerate(messages):
        if position not in moved:
            ordered.append(message)
            ordered += results.get(position, ())
    return tuple(ordered)
