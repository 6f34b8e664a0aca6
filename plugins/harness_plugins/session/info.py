"""What a list of sessions says of each one."""

from __future__ import annotations

from datetime import datetime

import attrs

__all__ = ["SessionInfo"]


@attrs.frozen
class SessionInfo:
    """A session as it is in the store. `events` and `messages` are numbers; times are in UTC.

    `last_at` is when its latest event was written, None if there is none.
    """

    id: str
    agent: str | None
    title: str | None
    created_at: datetime
    last_at: datetime | None
    events: int
    messages: int
