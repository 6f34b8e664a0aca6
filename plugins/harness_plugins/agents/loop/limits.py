"""Limits of an agent's turns, and how patient it is with its model."""

from __future__ import annotations

from typing import Any

import attrs

__all__ = ["Limits"]


def _positive(_: object, field: attrs.Attribute[Any], value: float | None) -> None:
    if value is not None and (isinstance(value, bool) or not value > 0):
        raise ValueError(f"{field.name} must be above 0, or None for no limit; got {value!r}")


def _natural(_: object, field: attrs.Attribute[Any], value: int) -> None:
    if isinstance(value, bool) or value < 0:
        raise ValueError(f"{field.name} must be 0 or more, got {value!r}")


@attrs.frozen
class Limits:
    """What one turn may take; None is no limit. A turn that reaches one says so and ends.

    `max_steps`, `max_tokens` (input and output, of all replies) and `max_seconds` are of the whole
    turn, `max_reply_tokens` of each reply.

    A failure of the provider that may pass is met with up to `retries` further attempts a step.
    The wait begins at `retry_seconds` and doubles each time; the provider's own word counts, if
    it is more. What would be more than `max_retry_seconds` is not waited for.

    When the last request had more than `compact_above` input tokens, the history is compacted
    before the next one; its last `compact_keep` messages stay.
    """

    max_steps: int | None = attrs.field(default=100, validator=_positive)
    max_tokens: int | None = attrs.field(default=None, validator=_positive)
    max_seconds: float | None = attrs.field(default=None, validator=_positive)
    max_reply_tokens: int | None = attrs.field(default=None, validator=_positive)
    retries: int = attrs.field(default=4, validator=_natural)
    retry_seconds: float = attrs.field(default=0.5, validator=_positive)
    max_retry_seconds: float = attrs.field(default=60.0, validator=_positive)
    compact_above: int | None = attrs.field(default=100_000, validator=_positive)
    compact_keep: int = attrs.field(default=6, validator=_positive)
