"""One row of a manifest while it is read: its keys, each checked, with its place in the file."""

from __future__ import annotations

from typing import Any

from ..errors import closest
from .environment import mentions_environment
from .places import LocatedDict, Place, as_dict, as_list

__all__ = ["KEYS", "Row", "kind_of"]

KEYS = ("id", "name", "config", "disabled", "group", "inject", "isolate", "intercept")


class Row:
    """One mapping, while it is read."""

    def __init__(self, data: object, place: Place) -> None:
        mapping = as_dict(data)
        if mapping is None:
            raise place.fault(
                f"expected a row, a mapping with the keys {', '.join(KEYS)}; got {kind_of(data)}"
            )
        self.data = mapping
        self.place = place
        located = mapping if isinstance(mapping, LocatedDict) else None
        self.places: dict[Any, Place] = located.values_at if located is not None else {}
        self.keys_at: dict[Any, Place] = located.keys_at if located is not None else {}
        self._refuse_unknown_keys()

    def at(self, key: str) -> Place:
        return self.places.get(key, self.place)

    def _refuse_unknown_keys(self) -> None:
        for key in self.data:
            if key not in KEYS:
                guess = closest(str(key), KEYS)
                hint = f', did you mean "{guess}"?' if guess else ""
                raise self.keys_at.get(key, self.place).fault(
                    f'unknown key "{key}"{hint} (a row has: {", ".join(KEYS)}; the settings of a '
                    "plugin go under config)"
                )

    def text(self, key: str, *, required: bool = False) -> str | None:
        if self.data.get(key) is None:
            if required or key in self.data:
                raise self.at(key).fault(
                    f"{key} is empty: write `{key}: ...`"
                    if key in self.data
                    else "this row has no name: add `name:` with a plugin"
                )
            return None
        value = self.data[key]
        if not isinstance(value, str) or not value.strip():
            raise self.at(key).fault(f"{key} is {value!r}: expected a text")
        self._refuse_environment(value, self.at(key), key)
        return value

    def group(self) -> bool:
        value = self.data.get("group", False)
        if not isinstance(value, bool):
            raise self.at("group").fault(
                f"group is {value!r}: expected true, and the rows of the group under config"
            )
        return value

    def services(self, key: str) -> dict[str, Any]:
        """Read `inject`, `isolate` or `intercept`: one key, a list of keys, or a mapping."""
        value, at = self.data.get(key), self.at(key)
        if value is None:
            return {}
        mapping = as_dict(value if key == "intercept" else _listed(value))
        if mapping is None:
            raise at.fault(f"{key} is {kind_of(value)}: expected {_EXPECTED[key]}")
        places = mapping.values_at if isinstance(mapping, LocatedDict) else {}
        for service, setting in mapping.items():
            where = places.get(service, at)
            if not isinstance(service, str) or not service.isidentifier():
                raise where.fault(f"{key}: {service!r} is no service key: expected a name")
            if not _fits(key, setting):
                raise where.fault(
                    f'{key}: "{service}" is given {setting!r}: expected {_EXPECTED[key]}'
                )
            self._refuse_environment(setting, where, key)
        return dict(mapping)

    def _refuse_environment(self, value: object, place: Place, key: str) -> None:
        if mentions_environment(value):
            raise place.fault(
                f"{key} cannot hold ${{env:...}}: it is resolved in config and disabled only"
            )
        mapping = as_dict(value) or {}
        for inner in (*mapping, *mapping.values(), *(as_list(value) or ())):
            self._refuse_environment(inner, place, key)


def _listed(value: object) -> object:
    """Return one key, or a list of keys, as a mapping; anything else as it is."""
    keys = [value] if isinstance(value, str) else as_list(value)
    if keys is None:
        return value
    return {key if isinstance(key, str) else str(key): None for key in keys}


_EXPECTED = {
    "inject": "service keys, or a mapping from keys to intercept config",
    "isolate": "service keys, or a mapping from keys to a label",
    "intercept": "a mapping from service keys to config (a mapping each)",
}


def _fits(key: str, setting: object) -> bool:
    if key == "isolate":
        return setting is None or (isinstance(setting, str) and bool(setting))
    return isinstance(setting, dict) or (setting is None and key == "inject")


def kind_of(value: object) -> str:
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return "nothing" if value is None else f"{value!r}"
