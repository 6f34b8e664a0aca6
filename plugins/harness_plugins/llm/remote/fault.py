"""Fault: what went wrong with a request, before it is a ModelError."""

from __future__ import annotations

import attrs

from ..errors import ModelError, ModelErrorKind
from .keys import Key

__all__ = ["Fault"]

_LONGEST = 1000


@attrs.frozen
class Fault:
    """The facts of a ModelError, while a key that the provider repeats may be in the message."""

    message: str = attrs.field(repr=False)
    kind: ModelErrorKind
    status: int | None = None
    retry_after: float | None = None

    def error(self, provider: str, key: Key | None) -> ModelError:
        """Return the error. It has no cause: that would hold the request, and so the key."""
        message = key.hidden_in(self.message) if key is not None else self.message
        if len(message) > _LONGEST:
            message = f"{message[:_LONGEST]}..."
        return ModelError(
            message,
            kind=self.kind,
            provider=provider,
            status=self.status,
            retry_after=self.retry_after,
        )
