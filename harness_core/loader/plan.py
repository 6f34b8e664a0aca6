"""The plan: what to do so that what runs is what the file says. Pure: nothing is touched.

Rows are matched by id. A row's surroundings are what it gets from the groups around it: realms,
intercepts, services to wait for. A row that differs in name, services or surroundings is replaced,
one that differs in config is updated, one that only stands in another group is moved.

Contract: section 8.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Literal, TypeAlias

import attrs

from .manifest import Entry
from .places import Place, as_dict, as_list

__all__ = ["Action", "Change", "Plan", "Seat", "make_plan", "seats_of"]

Action: TypeAlias = Literal[
    "keep", "update", "replace", "move", "add", "remove", "enable", "disable"
]


@attrs.frozen
class Change:
    """What is done with one row, and why. A row may be moved and updated: that is two changes."""

    action: Action
    id: str
    name: str | None
    reason: str = ""
    place: Place = attrs.field(default=Place("(no file)"), eq=False)

    def __str__(self) -> str:
        reason = f": {self.reason}" if self.reason else ""
        name = f" ({self.name})" if self.name is not None and self.name != self.id else ""
        return f"{self.action} {self.id}{name}{reason}"


@attrs.frozen
class Plan:
    """Every row, with what is done to it; falsy if all are kept.

    `restarts` holds the ids of rows that are kept, and restart because of a service they use.
    """

    changes: tuple[Change, ...]
    restarts: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return any(change.action != "keep" for change in self.changes)

    def __iter__(self) -> Iterator[Change]:
        return iter(self.changes)

    def ids(self, *actions: Action) -> tuple[str, ...]:
        """Return the ids of the rows to which one of these is done, each once."""
        return tuple(dict.fromkeys(one.id for one in self.changes if one.action in actions))

    def after(self, earlier: Iterable[Plan]) -> Plan:
        """Return this with what was done just before it to rows that it keeps."""
        done = {one.id: one for plan in earlier for one in plan.changes if one.action != "keep"}
        changes = (done.get(one.id, one) if one.action == "keep" else one for one in self.changes)
        return attrs.evolve(self, changes=tuple(changes))

    def without(self, ids: Collection[str]) -> Plan:
        """Return the same with these rows kept as they are."""
        changes = (
            attrs.evolve(one, action="keep", reason="") if one.id in ids else one
            for one in self.changes
        )
        return attrs.evolve(self, changes=tuple(changes))

    def __str__(self) -> str:
        lines = [str(change) for change in self.changes if change.action != "keep"]
        lines += [f"restart {one}" for one in self.restarts]
        return "\n".join(lines) or "nothing changes"


@attrs.frozen
class _Around:
    """What a row gets from the groups around it."""

    realms: Mapping[str, object] = attrs.field(factory=dict[str, object])
    intercepts: Mapping[str, Any] = attrs.field(factory=dict[str, Any])
    inject: Mapping[str, Any] = attrs.field(factory=dict[str, Any])

    def inside(self, group: Entry) -> _Around:
        """Return what the rows of a group get."""
        own = dict.fromkeys(group.isolate, ("group", group.id))
        shared = {key: ("label", label) for key, label in group.isolate.items() if label}
        layers = {
            key: (*self.intercepts.get(key, ()), config) for key, config in group.intercept.items()
        }
        return _Around(
            {**self.realms, **own, **shared},
            {**self.intercepts, **layers},
            {**self.inject, **group.inject},
        )


@attrs.frozen
class Seat:
    """A row, the group it stands in, and what that gives it."""

    entry: Entry
    group: str | None
    around: _Around


def seats_of(entries: Iterable[Entry]) -> dict[str, Seat]:
    """Return the seat of every row, groups before what they hold."""
    seats: dict[str, Seat] = {}

    def seat(rows: Iterable[Entry], group: str | None, around: _Around) -> None:
        for entry in rows:
            seats[entry.id] = Seat(entry, group, around)
            seat(entry.children, entry.id, around.inside(entry))

    seat(entries, None, _Around())
    return seats


def make_plan(
    before: Iterable[Entry],
    after: Iterable[Entry],
    missing: Collection[str] = (),
    renewed: Collection[str] = (),
) -> Plan:
    """Return what leads from the rows `before` to the rows `after`.

    `missing` are ids of rows that do not run, though they are enabled; `renewed` of rows whose
    code, or a text they have read, has changed.
    """
    old, new = seats_of(before), seats_of(after)
    changes: list[Change] = []
    for one, seat in new.items():
        changes += _changes(old.get(one), seat, one in missing, one in renewed)
    changes += (_change("remove", seat) for one, seat in reversed(old.items()) if one not in new)
    return Plan(tuple(changes))


def _changes(old: Seat | None, new: Seat, is_missing: bool, is_renewed: bool) -> Iterator[Change]:
    was_on = old is not None and not old.entry.disabled
    if new.entry.disabled:
        yield _change("disable" if was_on else "keep", new)
    elif old is None:
        yield _change("add", new)
    elif not was_on:
        yield _change("enable", new)
    elif is_missing:
        yield _change("add", new, "it does not run")
    else:
        yield from _between(old, new, is_renewed)


def _between(old: Seat, new: Seat, is_renewed: bool) -> Iterator[Change]:
    reasons = [*_reasons(old, new)]
    if reasons:
        yield _change("replace", new, ", ".join(reasons))
        return
    is_moved = old.group != new.group
    updates = ["code"] if is_renewed else []
    if not same(old.entry.config, new.entry.config):
        updates.append("config")
    if is_moved:
        where = f'into the group "{new.group}"' if new.group is not None else "out of all groups"
        yield _change("move", new, where)
    if updates:
        yield _change("update", new, ", ".join(updates))
    if not is_moved and not updates:
        yield _change("keep", new)


def _reasons(old: Seat, new: Seat) -> Iterator[str]:
    if old.entry.group != new.entry.group:
        yield "group"
    elif old.entry.name != new.entry.name and not new.entry.group:
        yield "name"
    for key in ("inject", "isolate", "intercept"):
        if not same(dict(getattr(old.entry, key)), dict(getattr(new.entry, key))):
            yield key
    if old.around != new.around:
        yield "its groups"


def _change(action: Action, seat: Seat, reason: str = "") -> Change:
    return Change(action, seat.entry.id, seat.entry.name, reason, seat.entry.place)


def same(one: object, other: object) -> bool:
    """Whether two configs are the same to a plugin: `1`, `1.0` and `true` are not."""
    mapping, others = as_dict(one), as_dict(other)
    if mapping is not None and others is not None:
        return mapping.keys() == others.keys() and all(
            same(value, others[key]) for key, value in mapping.items()
        )
    items, other_items = as_list(one), as_list(other)
    if items is not None and other_items is not None:
        return len(items) == len(other_items) and all(map(same, items, other_items))
    if type(one) is not type(other):
        return False
    return one == other or (one != one and other != other)
