"""The one error of model adapters: what happened, whether it may pass, how long to wait."""

from __future__ import annotations

from typing import Literal, TypeAlias

from harness_core.errors import HarnessError

__all__ = ["ModelError", "ModelErrorKind"]

ModelErrorKind: TypeAlias = Literal[
    "authentication",  # no key, a wrong one, or one that may not do this
    "invalid-request",  # the provider does not accept the request as it is
    "too-long",  # the request does not fit into the model's window
    "not-found",  # no such model, or no such address
    "rate-limited",
    "overloaded",  # the provider's own trouble: 5xx, "overloaded"
    "disconnected",  # no connection, or one that ended before the reply did
    "timed-out",
    "protocol",  # an answer that is none
    "unavailable",  # no adapter of that name is mounted
]

_PASSING = frozenset({"rate-limited", "overloaded", "disconnected", "timed-out", "protocol"})


class ModelError(HarnessError, RuntimeError):
    """A model did not reply.

    `kind` says why, `provider` whose it was, `status` the HTTP status if there was one.
    `retry_after` is what the provider asked for, in seconds. `is_passing` says whether the same
    request may succeed later. The message never holds a key.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: ModelErrorKind,
        provider: str,
        status: int | None = None,
        retry_after: float | None = None,
    ) -> None:
        self.kind: ModelErrorKind = kind
        self.provider = provider
        self.status = status
        self.retry_after = retry_after
        super().__init__(f"{provider}: {message}")

    @property
    def is_passing(self) -> bool:
        """Whether trying again makes sense."""
        return self.kind in _PASSING
