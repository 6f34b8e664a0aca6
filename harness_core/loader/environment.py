"""References to environment variables in a manifest: `${env:NAME}` and `${env:NAME:-default}`.

As in a shell, the default also stands in for an empty variable. The result is always text, and is
never looked at again; `$${env:NAME}` is the text `${env:NAME}`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .places import LocatedDict, LocatedList, Place, as_dict, as_list

__all__ = ["mentions_environment", "resolve_environment"]

_START = re.compile(r"\$?\$\{env:")
_REFERENCE = re.compile(r"\$\{env:(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")


def mentions_environment(value: object) -> bool:
    """Whether a text holds a reference, well formed or not."""
    return isinstance(value, str) and "${env:" in value


def resolve_environment(value: Any, environ: Mapping[str, str], place: Place) -> Any:
    """Return `value` with every reference in its texts replaced; raise ManifestError if one fails.

    Keys are left alone: a reference in one is refused.
    """
    if isinstance(value, str):
        return _resolve_text(value, environ, place) if "${env:" in value else value
    if isinstance(value, LocatedDict):
        return _resolve_mapping(value, environ)
    if isinstance(value, LocatedList):
        resolved = LocatedList(value.place)
        resolved.items_at = value.items_at
        resolved += (
            resolve_environment(item, environ, at)
            for item, at in zip(value, value.items_at, strict=True)
        )
        return resolved
    plain = as_dict(value)
    if plain is not None:
        return {key: resolve_environment(item, environ, place) for key, item in plain.items()}
    items = as_list(value)
    return value if items is None else [resolve_environment(one, environ, place) for one in items]


def _resolve_mapping(value: LocatedDict, environ: Mapping[str, str]) -> LocatedDict:
    resolved = LocatedDict(value.place)
    resolved.keys_at, resolved.values_at = value.keys_at, value.values_at
    for key, item in value.items():
        if mentions_environment(key):
            raise value.keys_at[key].fault("a key cannot hold ${env:...}, only a value can")
        resolved[key] = resolve_environment(item, environ, value.values_at[key])
    return resolved


def _resolve_text(text: str, environ: Mapping[str, str], place: Place) -> str:
    pieces: list[str] = []
    at = 0
    while (start := _START.search(text, at)) is not None:
        pieces.append(text[at : start.start()])
        if start[0].startswith("$$"):
            pieces.append(start[0][1:])
            at = start.end()
            continue
        reference = _REFERENCE.match(text, start.start())
        if reference is None:
            raise place.fault(
                f"malformed reference {text[start.start() : start.start() + 40]!r}: expected "
                "${env:NAME} or ${env:NAME:-default}"
            )
        pieces.append(_value_of(reference, environ, place))
        at = reference.end()
    return "".join([*pieces, text[at:]])


def _value_of(reference: re.Match[str], environ: Mapping[str, str], place: Place) -> str:
    name, default = reference["name"], reference["default"]
    value = environ.get(name)
    if default is not None:
        return value or default
    if value is None:
        raise place.fault(
            f"the environment variable {name} is not set. Set it, or give a default: "
            f"${{env:{name}:-default}}"
        )
    return value
