"""A script: turns, when each of them is due, and what it says. Facts only."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Literal

import attrs

from harness_plugins.llm.api import ModelErrorKind, StopReason

__all__ = ["Call", "Failure", "Script", "Tokens", "Turn", "When"]

_WORD = re.compile(r"\s*\S+\s*")


def _not_negative(_: object, attribute: attrs.Attribute[Any], value: float | None) -> None:
    if value is not None and value < 0:
        raise ValueError(f"{attribute.name} is {value}: expected 0 or more")


@attrs.frozen
class When:
    """What a request must be like: all that is given counts.

    `user` is contained in what the user said last, `system` in the system text, whatever the
    case of their letters; `agent` and `model` are the names.
    """

    user: str | None = None
    system: str | None = None
    agent: str | None = None
    model: str | None = None


@attrs.frozen
class Call:
    """A tool that is asked for. `raw` is the text of the arguments, should they be no JSON."""

    name: str
    arguments: Mapping[str, Any] = attrs.field(factory=dict[str, Any])
    raw: str | None = None

    @property
    def text(self) -> str:
        """The arguments as the model sends them."""
        return json.dumps(self.arguments, ensure_ascii=False) if self.raw is None else self.raw


@attrs.frozen
class Failure:
    """An error instead of a reply: the first `times` times (0: always) that it is asked for.

    It comes `after` so many pieces of the reply.
    """

    kind: ModelErrorKind = "overloaded"
    message: str = "a scripted error"
    status: int | None = None
    retry_after: float | None = attrs.field(default=None, validator=_not_negative)
    times: int = attrs.field(default=1, validator=_not_negative)
    after: int = attrs.field(default=0, validator=_not_negative)


@attrs.frozen
class Tokens:
    """What the reply is said to have cost."""

    input: int = attrs.field(default=0, validator=_not_negative)
    output: int = attrs.field(default=0, validator=_not_negative)
    cached: int = attrs.field(default=0, validator=_not_negative)
    cache_written: int = attrs.field(default=0, validator=_not_negative)


@attrs.frozen
class Turn:
    """One reply. Without `usage`, four characters count as a token."""

    text: str = ""
    pieces: tuple[str, ...] = ()
    thinking: str = ""
    tools: tuple[Call, ...] = ()
    when: When = attrs.field(factory=When)
    error: Failure | None = None
    delay: float = attrs.field(default=0.0, validator=_not_negative)
    pace: float | None = attrs.field(default=None, validator=_not_negative)
    usage: Tokens | None = None
    stop: StopReason | None = None

    def __attrs_post_init__(self) -> None:
        if self.text and self.pieces:
            raise ValueError("text and pieces are both given: expected one of them")

    @property
    def whole_text(self) -> str:
        """The text, however it is cut."""
        return self.text or "".join(self.pieces)

    @property
    def text_pieces(self) -> tuple[str, ...]:
        """The text as it is streamed: as it was cut, or word by word."""
        return self.pieces or tuple(_WORD.findall(self.text)) or ((self.text,) if self.text else ())

    @property
    def thinking_pieces(self) -> tuple[str, ...]:
        """The thoughts as they are streamed: word by word."""
        return tuple(_WORD.findall(self.thinking))


@attrs.frozen
class Script:
    """All turns, in order; what happens when none is left; seconds between pieces."""

    turns: tuple[Turn, ...]
    at_end: Literal["error", "repeat"] = "error"
    pace: float = attrs.field(default=0.0, validator=_not_negative)
    where: str = "the config"
