"""The settings that adapters over HTTP have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

import attrs

__all__ = ["RemoteConfig", "Timeouts"]

_KEY_HEADERS = frozenset({"authorization", "proxy-authorization", "x-api-key", "api-key", "cookie"})
_OWN_FIELDS = frozenset({"messages", "model", "stream", "system", "tools"})
"""What an adapter says of a request itself, and so no option can."""


def _positive(_: object, attribute: attrs.Attribute[Any], value: float) -> None:
    if not value > 0:
        raise ValueError(f"{attribute.name} is {value}: expected a number above 0")


def _web_address(_: object, attribute: attrs.Attribute[Any], value: str | None) -> None:
    if value is None:
        return
    parts = urlsplit(value)
    if parts.username is not None or parts.password is not None:
        # Addresses are logged by HTTP libraries, and so they must not hold what is secret.
        raise ValueError(
            f"{attribute.name} holds a user name or a password: name a key with key_env or key_file"
        )
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{attribute.name} is {value!r}: expected http://... or https://...")


def _no_keys(_: object, attribute: attrs.Attribute[Any], value: Mapping[str, str]) -> None:
    found = [name for name in value if name.lower() in _KEY_HEADERS]
    if found:
        raise ValueError(
            f"{attribute.name} holds {', '.join(found)}: a key comes from key_env or key_file"
        )


def reserved_options(names: Iterable[str]) -> list[str]:
    """Return the options that would replace what the adapter itself sends."""
    return sorted(_OWN_FIELDS.intersection(names))


def _free_options(_: object, attribute: attrs.Attribute[Any], value: Mapping[str, Any]) -> None:
    found = reserved_options(value)
    if found:
        raise ValueError(f"{attribute.name} holds {', '.join(found)}: the request has its own")


def _not_empty(_: object, attribute: attrs.Attribute[Any], value: str) -> None:
    if not value:
        raise ValueError(f"{attribute.name} is empty")


@attrs.frozen
class Timeouts:
    """How long to wait, in seconds: for a connection, its first byte, and between bytes."""

    connect: float = attrs.field(default=10.0, validator=_positive)
    first_byte: float = attrs.field(default=300.0, validator=_positive)
    between_bytes: float = attrs.field(default=120.0, validator=_positive)


@attrs.frozen
class RemoteConfig:
    """Where the model is and how it is asked. Holds the name of a key, never a key."""

    provider: str = attrs.field(default="remote", validator=_not_empty)
    model: str = ""
    base_url: str | None = attrs.field(default=None, validator=_web_address)
    key_env: str | None = None
    """Name of an environment variable; "" for a server that wants no key."""
    key_file: str | None = None
    timeout: Timeouts = attrs.field(factory=Timeouts)
    max_tokens: int | None = attrs.field(
        default=None, validator=attrs.validators.optional(_positive)
    )
    options: dict[str, Any] = attrs.field(factory=dict, validator=_free_options)
    headers: dict[str, str] = attrs.field(factory=dict, validator=_no_keys, repr=False)

    def __attrs_post_init__(self) -> None:
        if self.key_env is not None and self.key_file is not None:
            raise ValueError("key_env and key_file are both given: expected one of them")
