"""The manifest: `harness.yaml` as frozen rows. Contract: section 8.

A row is a mapping with the keys of `KEYS`. A group's `config` is a list of rows. Nothing is
imported or mounted here; what a manifest says can be compared with `==`, places aside.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from ..errors import closest
from .environment import mentions_environment, resolve_environment
from .places import LocatedDict, LocatedList, Place
from .yaml_file import read_yaml

__all__ = ["KEYS", "Entry", "Manifest", "read_entries", "read_manifest"]

KEYS = ("id", "name", "config", "disabled", "group", "inject", "isolate", "intercept")

_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0", ""})


@attrs.frozen
class Entry:
    """One row. `disabled` is what applies: a row in a disabled group is disabled too.

    `inject` maps service keys to intercept config or None, `isolate` maps them to a label or None,
    `intercept` maps them to config. `children` are the rows of a group; `config` is then None.
    """

    id: str
    name: str | None
    config: Any = attrs.field(default=None, hash=False)
    disabled: bool = False
    group: bool = False
    inject: Mapping[str, Any] = attrs.field(factory=dict, hash=False)
    isolate: Mapping[str, str | None] = attrs.field(factory=dict, hash=False)
    intercept: Mapping[str, Mapping[str, Any]] = attrs.field(factory=dict, hash=False)
    children: tuple[Entry, ...] = ()
    place: Place = attrs.field(default=Place("(no file)"), eq=False)
    places: Mapping[str, Place] = attrs.field(factory=dict, eq=False, repr=False)

    def place_of(self, key: str) -> Place:
        """Return where the value of one of the row's keys stands, or the row itself."""
        return self.places.get(key, self.place)

    def walk(self) -> Iterator[Entry]:
        """Yield the row and every row inside it."""
        yield self
        for child in self.children:
            yield from child.walk()


@attrs.frozen
class Manifest:
    """The rows of one file. `file` is how messages call it, `directory` where it stands."""

    file: str
    directory: Path
    entries: tuple[Entry, ...]

    def walk(self) -> Iterator[Entry]:
        """Yield every row, groups before what they hold."""
        for entry in self.entries:
            yield from entry.walk()


def read_manifest(file: str | Path, environ: Mapping[str, str] | None = None) -> Manifest:
    """Read a manifest; raise ManifestError for its first fault."""
    path, shown = Path(file), str(file)
    data = read_yaml(path, shown)
    if data is None:
        raise Place(shown, 1, 1).fault(
            "the file is empty: expected a list of rows, each with a name"
        )
    directory = Path(os.path.abspath(path)).parent
    return Manifest(shown, directory, read_entries(data, environ, Place(shown, 1, 1)))


def read_entries(
    data: object, environ: Mapping[str, str] | None = None, place: Place | None = None
) -> tuple[Entry, ...]:
    """Return the rows that a list of mappings describes; raise ManifestError for a fault."""
    reader = _Rows(os.environ if environ is None else environ)
    return reader.rows(data, place or Place("(no file)"), inherited=False)


class _Rows:
    """Reads rows, and knows the ids it has met."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.environ = environ
        self.ids: dict[str, Place] = {}

    def rows(self, data: object, place: Place, *, inherited: bool) -> tuple[Entry, ...]:
        if not isinstance(data, list):
            where = data.place if isinstance(data, LocatedDict) else place
            raise where.fault(
                f"expected a list of rows, got {_kind(data)}. Each row begins with a dash: "
                "`- name: persona`"
            )
        places = data.items_at if isinstance(data, LocatedList) else [place] * len(data)
        return tuple(self.row(item, at, inherited) for item, at in zip(data, places, strict=True))

    def row(self, data: object, place: Place, inherited: bool) -> Entry:
        if not isinstance(data, dict):
            raise place.fault(
                f"expected a row, a mapping with the keys {', '.join(KEYS)}; got {_kind(data)}"
            )
        row = _Row(data, place)
        row.refuse_unknown_keys()
        group = row.group()
        name = row.text("name", required=not group)
        own_id = row.text("id") or name or "group"
        self._take(own_id, row)
        disabled = self._disabled(row) or inherited
        config, children = data.get("config"), ()
        if group:
            config, children = None, self._children(row, disabled)
        elif not disabled:
            config = resolve_environment(config, self.environ, row.at("config"))
        return Entry(
            id=own_id,
            name=name,
            config=config,
            disabled=disabled,
            group=group,
            inject=row.services("inject"),
            isolate=row.services("isolate"),
            intercept=row.services("intercept"),
            children=children,
            place=place,
            places=row.places,
        )

    def _take(self, own_id: str, row: _Row) -> None:
        first = self.ids.get(own_id)
        if first is not None:
            hint = "" if "id" in row.data else ". Give one of the two an id of its own"
            where = f" at line {first.line}" if first.line else ""
            at = row.at("id") if "id" in row.data else row.at("name")
            raise at.fault(f'duplicate id "{own_id}": another row has it{where}{hint}')
        self.ids[own_id] = row.at("id") if "id" in row.data else row.place

    def _children(self, row: _Row, disabled: bool) -> tuple[Entry, ...]:
        config = row.data.get("config")
        if config is None:
            return ()
        return self.rows(config, row.at("config"), inherited=disabled)

    def _disabled(self, row: _Row) -> bool:
        value = row.data.get("disabled", False)
        at = row.at("disabled")
        if isinstance(value, str):
            text = resolve_environment(value, self.environ, at).strip().lower()
            if text in _TRUE or text in _FALSE:
                return text in _TRUE
            raise at.fault(f"disabled is {text!r}: expected true or false")
        if value is None or isinstance(value, bool):
            return bool(value)
        raise at.fault(f"disabled is {value!r}: expected true or false")


class _Row:
    """One mapping, while it is read."""

    def __init__(self, data: dict[Any, Any], place: Place) -> None:
        self.data = data
        self.place = place
        located = data if isinstance(data, LocatedDict) else None
        self.places: dict[Any, Place] = located.values_at if located is not None else {}
        self.keys_at: dict[Any, Place] = located.keys_at if located is not None else {}

    def at(self, key: str) -> Place:
        return self.places.get(key, self.place)

    def refuse_unknown_keys(self) -> None:
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
        self.refuse_environment(value, self.at(key), key)
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
        if isinstance(value, str) and key != "intercept":
            value = [value]
        if isinstance(value, list) and key != "intercept":
            value = {
                str(service) if isinstance(service, dict | list) else service: None
                for service in value
            }
        if not isinstance(value, dict):
            raise at.fault(f"{key} is {_kind(value)}: expected {_EXPECTED[key]}")
        places = value.values_at if isinstance(value, LocatedDict) else {}
        for service, setting in value.items():
            where = places.get(service, at)
            if not isinstance(service, str) or not service.isidentifier():
                raise where.fault(f"{key}: {service!r} is no service key: expected a name")
            if not _fits(key, setting):
                raise where.fault(
                    f'{key}: "{service}" is given {setting!r}: expected {_EXPECTED[key]}'
                )
            self.refuse_environment(setting, where, key)
        return dict(value)

    def refuse_environment(self, value: object, place: Place, key: str) -> None:
        if mentions_environment(value):
            raise place.fault(
                f"{key} cannot hold ${{env:...}}: it is resolved in config and disabled only"
            )
        if isinstance(value, dict):
            for inner in (*value, *value.values()):
                self.refuse_environment(inner, place, key)
        elif isinstance(value, list):
            for inner in value:
                self.refuse_environment(inner, place, key)


_EXPECTED = {
    "inject": "service keys, or a mapping from keys to intercept config",
    "isolate": "service keys, or a mapping from keys to a label",
    "intercept": "a mapping from service keys to config (a mapping each)",
}


def _fits(key: str, setting: object) -> bool:
    if key == "isolate":
        return setting is None or (isinstance(setting, str) and bool(setting))
    return isinstance(setting, dict) or (setting is None and key == "inject")


def _kind(value: object) -> str:
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return "nothing" if value is None else f"{value!r}"
