"""What other plugins may use of `llm`: messages, requests, the stream, errors, adapters."""

from .adapter import ModelAdapter as ModelAdapter
from .adapter import find_adapter as find_adapter
from .adapter import providers as providers
from .adapter import publish_adapter as publish_adapter
from .calls import Calls as Calls
from .errors import ModelError as ModelError
from .errors import ModelErrorKind as ModelErrorKind
from .extra import loading_extra as loading_extra
from .messages import Message as Message
from .messages import Role as Role
from .messages import Thinking as Thinking
from .messages import ToolRequest as ToolRequest
from .messages import as_data as as_data
from .messages import message_from as message_from
from .stream import ModelEvent as ModelEvent
from .stream import ModelRequest as ModelRequest
from .stream import RateLimit as RateLimit
from .stream import Reply as Reply
from .stream import StopReason as StopReason
from .stream import TextDelta as TextDelta
from .stream import ThinkingDelta as ThinkingDelta
from .stream import ToolRequestDelta as ToolRequestDelta
from .stream import Usage as Usage

__all__ = [
    "Calls",
    "Message",
    "ModelAdapter",
    "ModelError",
    "ModelErrorKind",
    "ModelEvent",
    "ModelRequest",
    "RateLimit",
    "Reply",
    "Role",
    "StopReason",
    "TextDelta",
    "Thinking",
    "ThinkingDelta",
    "ToolRequest",
    "ToolRequestDelta",
    "Usage",
    "as_data",
    "find_adapter",
    "loading_extra",
    "message_from",
    "providers",
    "publish_adapter",
]
