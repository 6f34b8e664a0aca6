"""What other plugins may use of `session`: the log, its history, sessions, the service, errors."""

from .compaction import Summarise as Summarise
from .compaction import compact as compact
from .compaction import plan_compaction as plan_compaction
from .errors import SessionBusyError as SessionBusyError
from .errors import SessionError as SessionError
from .errors import UnknownSessionError as UnknownSessionError
from .events import Draft as Draft
from .events import LogEvent as LogEvent
from .history import History as History
from .history import HistoryEntry as HistoryEntry
from .history import project as project
from .info import SessionInfo as SessionInfo
from .journal import Journal as Journal
from .journal import MemoryJournal as MemoryJournal
from .service import Sessions as Sessions
from .service import SessionsConfig as SessionsConfig
from .session import Session as Session
from .snapshots import snapshot_of as snapshot_of

__all__ = [
    "Draft",
    "History",
    "HistoryEntry",
    "Journal",
    "LogEvent",
    "MemoryJournal",
    "Session",
    "SessionBusyError",
    "SessionError",
    "SessionInfo",
    "Sessions",
    "SessionsConfig",
    "Summarise",
    "UnknownSessionError",
    "compact",
    "plan_compaction",
    "project",
    "snapshot_of",
]
