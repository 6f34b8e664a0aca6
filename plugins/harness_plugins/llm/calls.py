"""The replies of one adapter that somebody reads, and how they all end with its plugin."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import anyio

from .errors import ModelError

__all__ = ["Calls"]


class Calls:
    """Steps that run for readers of replies. Closing it ends them, wherever their readers are.

    A reply is an asynchronous generator, which may be read by one task and then by another. So no
    cancel scope spans it: each of its steps has one of its own, around one `await`.
    """

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._scopes: set[anyio.CancelScope] = set()
        self._is_closed = False

    def check(self) -> None:
        """Raise ModelError of kind "disconnected" if the adapter is closed.

        Whoever tries again looks for the adapter again, and may find its successor.
        """
        if self._is_closed:
            message = "the plugin of this adapter was unloaded"
            raise ModelError(message, kind="disconnected", provider=self._provider)

    @contextmanager
    def step(self) -> Generator[None]:
        """Run the block until the adapter is closed, which ends it quietly: `check` afterwards.

        The error is not raised in here: it would have the cancellation as its context, and with
        that the frames of whatever was cancelled.
        """
        self.check()
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                yield
            finally:
                self._scopes.discard(scope)

    def close(self) -> None:
        """End all steps that run; refuse further ones."""
        self._is_closed = True
        for scope in self._scopes:
            scope.cancel()
