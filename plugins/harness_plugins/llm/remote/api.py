"""What an adapter over HTTP may use. Importing it loads no SDK and no HTTP library."""

from .adapter import RemoteAdapter as RemoteAdapter
from .faults import refused_request as refused_request
from .headers import count_of as count_of
from .headers import seconds_of as seconds_of
from .headers import seconds_until as seconds_until
from .keys import Key as Key
from .names import ToolNames as ToolNames
from .names import plain_id as plain_id
from .reader import EventReader as EventReader
from .reader import rate_limit as rate_limit
from .schemas import object_schema as object_schema
from .settings import RemoteConfig as RemoteConfig
from .settings import Timeouts as Timeouts

__all__ = [
    "EventReader",
    "Key",
    "RemoteAdapter",
    "RemoteConfig",
    "Timeouts",
    "ToolNames",
    "count_of",
    "object_schema",
    "plain_id",
    "rate_limit",
    "refused_request",
    "seconds_of",
    "seconds_until",
]
