"""The manifest: `harness.yaml` as frozen rows. Contract: section 8.

A row is a mapping with the keys of `KEYS`. A group's `config` is a list of rows. Nothing is
imported or mounted here; what a manifest says can be compared with `==`, places aside.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from .environment import resolve_environment
from .places import LocatedDict, LocatedList, Place, as_list
from .row import KEYS, Row, kind_of
from .yaml_file import parse_yaml, read_text

__all__ = ["KEYS", "Entry", "Manifest", "read_entries", "read_manifest"]

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
    inject: Mapping[str, Any] = attrs.field(factory=dict[str, Any], hash=False)
    isolate: Mapping[str, str | None] = attrs.field(factory=dict[str, "str | None"], hash=False)
    intercept: Mapping[str, Any] = attrs.field(factory=dict[str, Any], hash=False)
    children: tuple[Entry, ...] = ()
    place: Place = attrs.field(default=Place("(no file)"), eq=False)
    places: Mapping[str, Place] = attrs.field(factory=dict[str, Place], eq=False, repr=False)

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
    """The rows of one file. `file` is how messages call it, `directory` where it stands.

    `disable` holds the ids of rows that are disabled whatever the file says.
    """

    file: str
    directory: Path
    entries: tuple[Entry, ...]
    disable: tuple[str, ...] = ()
    environ: Mapping[str, str] | None = attrs.field(default=None, eq=False, repr=False)

    @property
    def path(self) -> Path:
        """Where the file is, whatever the working directory."""
        return self.directory / Path(self.file).name

    def read_again(self) -> Manifest:
        """Read the file as it is now; raise ManifestError for its first fault."""
        return self.parse(read_text(self.path, self.file))

    def parse(self, text: str) -> Manifest:
        """Return the manifest that this would be with another text; raise ManifestError."""
        data = parse_yaml(text, self.file)
        place = Place(self.file, 1, 1)
        if data is None:
            raise place.fault("the file is empty: expected a list of rows, each with a name")
        entries = read_entries(data, self.environ, place, self.disable)
        return attrs.evolve(self, entries=entries)

    def walk(self) -> Iterator[Entry]:
        """Yield every row, groups before what they hold."""
        for entry in self.entries:
            yield from entry.walk()


def read_manifest(
    file: str | Path, environ: Mapping[str, str] | None = None, disable: Iterable[str] = ()
) -> Manifest:
    """Read a manifest; raise ManifestError for its first fault.

    `disable` names rows that are disabled whatever the file says.
    """
    directory = Path(os.path.abspath(file)).parent
    return Manifest(str(file), directory, (), tuple(disable), environ).read_again()


def read_entries(
    data: object,
    environ: Mapping[str, str] | None = None,
    place: Place | None = None,
    disable: Iterable[str] = (),
) -> tuple[Entry, ...]:
    """Return the rows that a list of mappings describes; raise ManifestError for a fault."""
    reader = _Rows(os.environ if environ is None else environ, frozenset(disable))
    return reader.rows(data, place or Place("(no file)"), inherited=False)


class _Rows:
    """Reads rows, and knows the ids it has met."""

    def __init__(self, environ: Mapping[str, str], disable: frozenset[str]) -> None:
        self.environ = environ
        self.disable = disable
        self.ids: dict[str, Place] = {}

    def rows(self, data: object, place: Place, *, inherited: bool) -> tuple[Entry, ...]:
        rows = as_list(data)
        if rows is None:
            where = data.place if isinstance(data, LocatedDict) else place
            raise where.fault(
                f"expected a list of rows, got {kind_of(data)}. Each row begins with a dash: "
                "`- name: persona`"
            )
        places = rows.items_at if isinstance(rows, LocatedList) else [place] * len(rows)
        return tuple(self.row(one, at, inherited) for one, at in zip(rows, places, strict=True))

    def row(self, data: object, place: Place, inherited: bool) -> Entry:
        row = Row(data, place)
        group = row.group()
        name = row.text("name", required=not group)
        own_id = row.text("id") or name or "group"
        self._take(own_id, row)
        disabled = inherited or own_id in self.disable or self._disabled(row)
        config = None if group else row.data.get("config")
        if not disabled:
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
            children=self._children(row, disabled) if group else (),
            place=place,
            places=row.places,
        )

    def _take(self, own_id: str, row: Row) -> None:
        first = self.ids.get(own_id)
        if first is not None:
            hint = "" if "id" in row.data else ". Give one of the two an id of its own"
            where = f" at line {first.line}" if first.line else ""
            at = row.at("id") if "id" in row.data else row.at("name")
            raise at.fault(f'duplicate id "{own_id}": another row has it{where}{hint}')
        self.ids[own_id] = row.at("id") if "id" in row.data else row.place

    def _children(self, row: Row, disabled: bool) -> tuple[Entry, ...]:
        config = row.data.get("config")
        if config is None:
            return ()
        return self.rows(config, row.at("config"), inherited=disabled)

    def _disabled(self, row: Row) -> bool:
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
