"""Events of a session's log: facts, numbered, never changed and never taken back.

| kind | data |
| --- | --- |
| `message` | `message`: as `harness_plugins.llm.api.as_data` gives it; whatever else, as notes. The note `pinned: true` makes it survive compactions |
| `snapshot` | `text`: the rendered runtime context, empty if there is none any more; `sources` |
| `compaction` | `summary`, and `first`, `last`: the range of numbers that it stands for; `kept`: the numbers in it that stay visible |
| `turn-started`, `turn-ended` | of the agent's loop; they are no part of the conversation |
| `forked` | `session`, `seq`: where the log was copied from |

Other kinds are kept, exported and otherwise ignored: plugins may have their own.
"""  # noqa: E501 - a table has its rows on one line each

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import attrs

from .encode import as_mapping, from_text, to_text

__all__ = ["Draft", "LogEvent", "as_time", "time_text"]


@attrs.frozen
class Draft:
    """An event before it is written: it gets its number and time when it is."""

    kind: str
    data: Mapping[str, Any] = attrs.field(factory=dict[str, Any])


@attrs.frozen
class LogEvent:
    """One event. `seq` counts from 1 within the session; `at` is aware, in UTC.

    `data` is JSON data: exactly what is in the log. It is not to be changed.
    """

    seq: int
    kind: str
    data: Mapping[str, Any]
    at: datetime

    def to_json(self) -> str:
        """Return it as one line of JSON."""
        at = time_text(self.at)
        return to_text({"seq": self.seq, "kind": self.kind, "at": at, "data": dict(self.data)})

    @classmethod
    def from_json(cls, line: str) -> LogEvent:
        """Return the event that `to_json` wrote; raise ValueError for anything else."""
        try:
            raw = from_text(line)
            seq, kind, data = raw["seq"], raw["kind"], as_mapping(raw["data"])
            right = type(seq) is int and isinstance(kind, str)
            if not right or raw.keys() != {"seq", "kind", "at", "data"}:
                raise ValueError("fields of other types, or other fields")
            return cls(seq, kind, data, as_time(raw["at"]))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"no event of a session's log: {line[:120]!r}") from error


def time_text(at: datetime) -> str:
    """Return a time as text whose order is the order of time; it must be aware."""
    if at.tzinfo is None:
        raise ValueError(f"{at!r} has no time zone")
    return at.astimezone(UTC).isoformat(timespec="microseconds")


def as_time(text: str) -> datetime:
    """Return the time that `time_text` wrote; raise ValueError for anything else."""
    at = datetime.fromisoformat(text)
    if at.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    return at.astimezone(UTC)
