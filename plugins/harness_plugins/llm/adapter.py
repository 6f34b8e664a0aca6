"""What a model adapter is, under which key it is a service, and how one is found."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Protocol, runtime_checkable

from harness_core import Context, Effect
from harness_core.errors import did_you_mean

from .errors import ModelError
from .stream import ModelEvent, ModelRequest

__all__ = ["KEY_PREFIX", "ModelAdapter", "find_adapter", "providers", "publish_adapter"]

KEY_PREFIX = "llm_"
"""An adapter for the provider `deepseek` is the service `llm_deepseek`."""


@runtime_checkable
class ModelAdapter(Protocol):
    """System text, messages and tools in, a stream of events out."""

    provider: str
    """The name it is found by."""
    model: str
    """The model it uses where nobody names one; empty if there is none."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Ask the model. Yields pieces as they come and, last, the whole `Reply`.

        One request is one attempt: whoever asks decides whether to try again. Closing the
        generator, or cancelling its reader, ends the request at once. Raises ModelError, and
        nothing else of the library or the network behind it.
        """
        ...


def publish_adapter(ctx: Context, adapter: ModelAdapter) -> Effect:
    """Make an adapter the service `llm_<provider>`, as long as the caller's fiber lives.

    Raises ServiceConflictError if that provider is there already: give one of the two rows
    another `provider`.
    """
    return ctx.provide(KEY_PREFIX + adapter.provider, adapter)


def providers(ctx: Context) -> tuple[str, ...]:
    """Return the names of the providers whose adapters can be used from here."""
    return tuple(key.removeprefix(KEY_PREFIX) for key in ctx.provided(KEY_PREFIX))


def find_adapter(ctx: Context, provider: str | None = None) -> ModelAdapter:
    """Return the adapter of a provider, or the only one there is.

    Raises ModelError of kind "unavailable" that lists the providers there are.
    """
    known = providers(ctx)
    if provider is None and len(known) == 1:
        provider = known[0]
    adapter = ctx.get(KEY_PREFIX + provider) if provider is not None else None
    if isinstance(adapter, ModelAdapter):
        return adapter
    listed = ", ".join(known) or "(none)"
    if provider is None:
        said = "mount one: llm_openai, llm_anthropic, llm_scripted"
        if known:
            said = "give the agent a `provider`"
        message = f"no provider is named; {said} (providers: {listed})"
    else:
        hint = did_you_mean(provider, known)
        message = f"no adapter of this provider is mounted (providers: {listed}){hint}"
    raise ModelError(message, kind="unavailable", provider=provider or "model")
