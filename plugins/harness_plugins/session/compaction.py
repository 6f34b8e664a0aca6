"""Compaction: a range of the history gives way to a summary, and what must survive survives.

The log keeps everything. What becomes of the visible conversation:

- The last messages stay, and so does every tool request whose result may still come. A request
  and its results are replaced together or not at all.
- Pinned messages (note `pinned: true`) stay, behind the summary, with the requests and results
  that they belong to.
- A runtime-context snapshot in the range goes. The next step writes it anew, as it is by then,
  because no equal one is visible any more (`snapshot_of`).

What makes the summary is a plain callable. The agent's loop passes one that asks the model, or the
plugins that have a strategy of their own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from harness_plugins.llm.api import Message

from .errors import SessionError
from .events import LogEvent
from .exchanges import find_exchanges
from .history import History, HistoryEntry
from .session import Session

__all__ = ["Summarise", "compact", "plan_compaction"]

Summarise: TypeAlias = Callable[[tuple[Message, ...]], Awaitable[str]]
"""Takes the messages that are to be replaced, earlier summaries included, and returns a text."""


def plan_compaction(history: History, *, keep: int) -> tuple[int, int] | None:
    """Return the range of numbers to replace so that `keep` messages stay, or somewhat more.

    None if nothing would be gained: there is nothing in front of them but an earlier summary,
    snapshots and what is pinned.
    """
    if keep < 0:
        raise ValueError(f"keep is {keep}: expected how many of the last messages stay, 0 or more")
    end = _before_exchanges(history.entries, _before_last(history.entries, keep))
    replaced = history.entries[:end]
    survivors = _survivors(replaced)
    if not any(one.kind == "message" and one.seq not in survivors for one in replaced):
        return None
    return min(one.first for one in replaced), max(one.last for one in replaced)


async def compact(session: Session, summarise: Summarise, *, keep: int) -> LogEvent | None:
    """Replace all but the last `keep` messages by a summary; return the event, if there is one.

    None if nothing would be gained, and if the range was compacted by somebody else meanwhile.
    Raises what `summarise` raises, and SessionError for a summary that is none; then nothing has
    changed.
    """
    planned = plan_compaction(session.history, keep=keep)
    if planned is None:
        return None
    replaced = _replaced(session.history, planned)
    summary: object = await summarise(
        tuple(one.message for one in replaced if one.kind != "snapshot")
    )
    if not isinstance(summary, str) or not summary.strip():
        raise SessionError(
            f'session "{session.id}" was not compacted: the summary is {summary!r}, expected a text'
        )
    if _replaced(session.history, planned) != replaced:
        return None
    first, last = planned
    kept = sorted(_survivors(replaced))
    return await session.append("compaction", first=first, last=last, summary=summary, kept=kept)


def _replaced(history: History, planned: tuple[int, int]) -> tuple[HistoryEntry, ...]:
    return history.entries[history.span(*planned)]


def _before_last(entries: Sequence[HistoryEntry], keep: int) -> int:
    """Return the position in front of the last `keep` messages."""
    messages = [at for at, entry in enumerate(entries) if entry.kind == "message"]
    if keep == 0:
        return len(entries)
    return messages[-keep] if keep <= len(messages) else 0


def _before_exchanges(entries: Sequence[HistoryEntry], end: int) -> int:
    """Return `end`, or the nearest position before it at which no exchange is cut in two."""
    later = len(entries)
    spans: list[tuple[int, int]] = []
    speaker = max((at for at, one in enumerate(entries) if _speaks(one)), default=-1)
    for one in find_exchanges([entry.message for entry in entries]):
        if one.answered is not None:
            spans.append((one.asked, one.answered))
        elif one.asked >= speaker:  # nobody has spoken since: its result may still come
            spans.append((one.asked, later))
    # From the latest result on: what was passed over then is not cut by a smaller end either.
    for asked, answered in sorted(spans, key=lambda span: -span[1]):
        if asked < end <= answered:
            end = asked
    return end


def _speaks(entry: HistoryEntry) -> bool:
    return entry.kind == "message" and entry.message.role != "tool"


def _survivors(entries: Sequence[HistoryEntry]) -> frozenset[int]:
    """Return the numbers of what is pinned, with all of the exchanges that it is a part of."""
    groups: dict[int, set[int]] = {}
    for one in find_exchanges([entry.message for entry in entries]):
        if one.answered is not None:
            groups.setdefault(one.asked, {one.asked}).add(one.answered)
    found = {at for at, entry in enumerate(entries) if entry.is_pinned}
    for group in groups.values():
        if found & group:
            found |= group
    return frozenset(entries[at].seq for at in found)
