"""Why there is no connection, in words for whoever has to see to it."""

from __future__ import annotations

import os
from typing import cast

from mcp.shared.exceptions import MCPError

from .config import ServerConfig
from .offer import ServerError

__all__ = ["innermost", "is_plain", "reason_of"]

_PLAIN = (OSError, TimeoutError, MCPError, ServerError)


def innermost(error: BaseException) -> BaseException:
    """Return the first error in a group, however deep: what the SDK's task groups make of one."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


def is_plain(error: BaseException | None) -> bool:
    """Whether the message of an error says it all; others are shown with where they come from."""
    if error is None or isinstance(error, _PLAIN):
        return True
    return type(error).__module__.startswith("httpx2")


def reason_of(error: BaseException | None, config: ServerConfig, directory: str) -> str:
    """Return what an error means for a server; without one, why a connection has ended by itself.

    Empty if the end of the process says it.
    """
    if isinstance(error, TimeoutError) and not str(error):
        return f"it did not answer within {config.connect_timeout:g} s"
    if isinstance(error, FileNotFoundError):
        if config.cwd and not os.path.isdir(os.path.join(directory, config.cwd)):
            return f"there is no directory {config.cwd!r} to start it in"
        return f"there is no program {config.command!r}"
    if error is None:
        return "" if config.url is None else "it no longer knows this session"
    if isinstance(error, MCPError | ServerError):
        return str(error)
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
