"""The settings of `mcp_tools`: one record for each server, checked before anything is started."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

import attrs

__all__ = ["Config", "ServerConfig"]

_NAME_PARTS = re.compile(r"[A-Za-z0-9._-]*")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_STDIO = ("command", "args", "env", "cwd")
_HTTP = ("url", "headers")


@attrs.frozen
class ServerConfig:
    """How to reach one server, and what of it to use; all times are in seconds.

    Either `command`, with `args`, `env` and `cwd`, for a process that speaks over its standard
    streams, or `url`, with `headers`, for streamable HTTP.
    """

    command: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = attrs.field(factory=dict)
    cwd: str | None = None
    url: str | None = None
    headers: dict[str, str] = attrs.field(factory=dict, repr=lambda given: f"<{len(given)}>")
    prefix: str = ""
    """Put before the name of each tool."""
    required: bool = False
    """Whether the plugin fails if the server does not come up at the first attempt."""
    connect_timeout: float = 15.0
    """For the start, the handshake and the first listing together."""
    call_timeout: float | None = None
    """For one call; None: that of `tools`."""
    max_output: int | None = None
    """Characters of a result, of a resource, and of a prompt; None: that of `tools`."""
    parallel: bool | None = None
    """Whether calls may run beside any others; None: those of tools that say they only read."""
    resources: tuple[str, ...] = ()
    """Patterns (`*`, `?`) of names or addresses of resources to show as contexts."""
    prompts: dict[str, dict[str, str]] = attrs.field(factory=dict)
    """Names, or patterns, of prompts to show as contexts, each with its arguments."""
    order: float = 60
    """Of the contexts."""
    retry: float = 1.0
    """Before the first new attempt; it doubles with each one, up to `retry_max`."""
    retry_max: float = 60.0
    shutdown_timeout: float = 2.0
    """Before each harder way to end the process; or for taking leave of the endpoint."""

    def __attrs_post_init__(self) -> None:
        problems = [*self._about_transport(), *self._about_values()]
        if problems:
            raise ValueError("; ".join(problems))

    def _about_transport(self) -> Iterator[str]:
        if (self.command is None) == (self.url is None):
            got = "neither" if self.command is None else "both"
            yield f"expected either `command` or `url`, got {got}"
            return
        kind, other = ("command", _HTTP) if self.url is None else ("url", _STDIO)
        fields = attrs.fields_dict(type(self))
        for name in other:
            if getattr(self, name) != _default(fields[name]):
                yield f"`{name}` has no meaning beside `{kind}`"
        if self.url is not None:
            yield from _about_url(self.url)
            yield from _about_headers(self.headers)
            return
        if not (self.command or "").strip():
            yield "`command` is empty: expected the name of a program"
        if any("\0" in part for part in (self.command or "", *self.args, self.cwd or "")):
            yield "`command`, `args` and `cwd` cannot hold NUL characters"
        for name, value in self.env.items():
            if not name or "=" in name or "\0" in name + value:
                yield f"`env`: {name!r} is no variable that a process can be given"

    def _about_values(self) -> Iterator[str]:
        if not _NAME_PARTS.fullmatch(self.prefix):
            yield f"`prefix` is {self.prefix!r}: expected letters, digits, `_`, `-` or `.`"
        for name in ("connect_timeout", "call_timeout", "retry", "retry_max", "shutdown_timeout"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                yield f"`{name}` is {value!r}: expected seconds above 0"
        if self.retry_max < self.retry:
            yield f"`retry_max` is {self.retry_max!r}: expected at least `retry`, {self.retry!r}"
        if self.max_output is not None and self.max_output < 200:
            yield f"`max_output` is {self.max_output!r}: expected at least 200 characters"
        if self.order != self.order or abs(self.order) == float("inf"):
            yield f"`order` is {self.order!r}: expected a finite number"


def _default(field: attrs.Attribute[object]) -> object:
    default = field.default
    return default.factory() if isinstance(default, attrs.Factory) else default  # type: ignore[arg-type, attr-defined]


def _about_url(url: str) -> Iterator[str]:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        yield f"`url` is {url!r}: {error}"
        return
    if parts.scheme not in ("http", "https") or not host:
        yield f"`url` is {url!r}: expected http://... or https://..."


def _about_headers(headers: Mapping[str, str]) -> Iterator[str]:
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name):
            yield f"`headers`: {name!r} is no name of a header"
        elif not value.isprintable() or not value.isascii():
            yield f"`headers`: the value of {name!r} holds characters that a header cannot carry"


@attrs.frozen
class Config:
    """The servers, by name."""

    servers: dict[str, ServerConfig] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        for name in self.servers:
            if not name or not _NAME_PARTS.fullmatch(name):
                raise ValueError(
                    f"servers: {name!r} is no name of a server: expected letters, digits, `_`, "
                    "`-` or `.`"
                )
