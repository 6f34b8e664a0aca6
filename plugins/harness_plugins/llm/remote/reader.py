"""EventReader: from what an SDK streams to the events of one reply."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import ModelError
from ..stream import ModelEvent, RateLimit, Reply, StopReason
from .names import ToolNames

__all__ = ["EventReader", "rate_limit"]


class EventReader(ABC):
    """Reads one reply. What stands here is known of all replies, whoever sends them."""

    def __init__(self, provider: str, names: ToolNames) -> None:
        self.provider = provider
        self.names = names
        self.stop: StopReason = "other"
        self.model = ""
        """The model that replies, as the provider calls it."""
        self.is_complete = False
        """Whether the provider has said that the reply is over."""

    @abstractmethod
    def feed(self, item: Any) -> Iterable[ModelEvent]:
        """Take one item of the stream; yield what it tells."""

    @abstractmethod
    def reply(self, headers: Mapping[str, str]) -> Reply:
        """Return the whole reply."""

    def arguments(self, text: str, *, is_last: bool) -> str:
        """Return the arguments of a tool request, given the text that came.

        No text is no arguments, but in the last request of a reply that was cut off: there they
        may be missing, and nothing stays nothing.
        """
        if text.strip():
            return text
        return "" if is_last and self.stop == "length" else "{}"

    def garbled(self, message: str) -> ModelError:
        """Return the error for a reply that does not keep to the protocol."""
        return ModelError(message, kind="protocol", provider=self.provider)


def rate_limit(requests: int | None, tokens: int | None, seconds: float | None) -> RateLimit | None:
    """Return what a provider says of its limits, or None if it says nothing."""
    said = RateLimit(requests, tokens, seconds)
    return said if said != RateLimit() else None
