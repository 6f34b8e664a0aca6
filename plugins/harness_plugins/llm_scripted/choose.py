"""Which turn replies to a request: told by the request alone, never by what happened before.

Turns whose `system`, `agent` and `model` do not fit are passed over. Of the rest, the first whose
`user` is in what the user said last decides: it and those with the same `user` reply one after
the other, from the first, each time the user says such a thing. Where none fits, those without
`user` reply, one after the other through the whole conversation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness_plugins.llm.api import Message, ModelError, ModelRequest

from .script import Script, Turn

__all__ = ["choose"]

_SNAPSHOT = "Current runtime context."
"""How a snapshot of the runtime context begins: a message of the user's role, but not hers."""


def choose(script: Script, request: ModelRequest, provider: str) -> Turn:
    """Return the turn that replies. Raises ModelError of kind "invalid-request" if none does."""
    fitting = [turn for turn in script.turns if _fits(turn, request)]
    said = _said_last(request.messages)
    topic = _topic(fitting, said)
    turns = [turn for turn in fitting if turn.when.user == topic]
    position = _position(request.messages, fitting, topic)
    if turns and (position < len(turns) or script.at_end == "repeat"):
        return turns[position % len(turns)]
    if turns:
        problem = f"turn {position + 1} is wanted, and {len(turns)} fit"
    else:
        problem = f"none of {len(script.turns)} turns fits"
    raise ModelError(
        f"the script ({script.where}) has no reply: {problem} (user: {_short(said)}, agent: "
        f'{_short(request.agent)}, model: {_short(request.model)}). Add a turn, or set "at_end: '
        'repeat"',
        kind="invalid-request",
        provider=provider,
    )


def _fits(turn: Turn, request: ModelRequest) -> bool:
    when = turn.when
    return (
        (when.agent is None or when.agent == request.agent)
        and (when.model is None or when.model == request.model)
        and (when.system is None or when.system.casefold() in request.system.casefold())
    )


def _topic(turns: Sequence[Turn], said: str) -> str | None:
    for turn in turns:
        if turn.when.user is not None and turn.when.user.casefold() in said.casefold():
            return turn.when.user
    return None


def _position(messages: Sequence[Message], turns: Sequence[Turn], topic: str | None) -> int:
    """Return how many of the topic's turns have replied already.

    Of a topic that the user named, since she named it; of none, in the whole conversation.
    """
    count = 0
    for said, replies in _exchanges(messages):
        if topic is not None:
            count = replies
        elif _topic(turns, said) is None:
            count += replies
    return count


def _exchanges(messages: Sequence[Message]) -> Iterator[tuple[str, int]]:
    """Yield what the user said and how many replies it had, one after the other."""
    said, replies = "", 0
    for message in messages:
        if message.role == "assistant":
            replies += 1
        elif _is_said(message):
            yield said, replies
            said, replies = message.text, 0
    yield said, replies


def _said_last(messages: Sequence[Message]) -> str:
    return next((one.text for one in reversed(messages) if _is_said(one)), "")


def _is_said(message: Message) -> bool:
    return message.role == "user" and not message.text.startswith(_SNAPSHOT)


def _short(text: str) -> str:
    return f'"{text[:60]}..."' if len(text) > 60 else f'"{text}"'
