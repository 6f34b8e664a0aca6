"""What a server offers at one moment, and the error of one that does not behave."""

from __future__ import annotations

import attrs
from mcp import types

from harness_core.errors import HarnessError

__all__ = ["Fault", "Offer", "ServerError"]


class ServerError(HarnessError, RuntimeError):
    """A server that does not come up, goes away, or offers what cannot be used."""


@attrs.frozen
class Fault:
    """Something that a server lists and that is none, or a list that it does not give."""

    kind: str
    name: str
    problem: str


@attrs.frozen
class Offer:
    """What a server offers; `faults` says what is missing in it."""

    tools: tuple[types.Tool, ...] = ()
    resources: tuple[types.Resource, ...] = ()
    prompts: tuple[types.Prompt, ...] = ()
    faults: tuple[Fault, ...] = ()
